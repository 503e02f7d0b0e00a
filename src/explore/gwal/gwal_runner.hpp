// The G-WAL and the hand-over of its segments as a system under test of the explorer: a small LSM
// store writes records, and hands generation after generation to a model of RocksDB, whose ingest
// is atomic, and durable when it returns. Invariant: each oracle says what a crash in its windows
// may leave: every acknowledged batch exactly once and in order, and of the one in flight all or
// nothing.
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "exec/workers.hpp"
#include "explore/crashes.hpp"
#include "explore/gwal/gwal_scenario.hpp"
#include "lsm/gwal/gwal.hpp"

namespace perdure::explore {

class GwalRunner final : public Crasher {
 public:
  GwalRunner(Options const& options, Totals& totals);
  [[nodiscard]] std::string describe(std::uint64_t scenario_seed) const override;

 private:
  using Wrong = std::optional<std::string>;
  /// RocksDB after some ingest or write. Which of them is there is one word of the medium.
  struct Rocks {
    std::uint64_t sequence;
    GwalContents contents;
  };
  struct Oracle {
    GwalContents old, fresh;
  };
  struct Generation {
    std::unique_ptr<lsm::GwalSegment> segment;
    std::vector<GwalOp> ops;
    std::optional<std::uint64_t> intent;
    bool ingested = false;
  };
  /// A store that is open.
  struct Store {
    std::unique_ptr<lsm::Gwal> log;
    std::deque<Generation> generations;  // oldest first
    bool writable = false;  // the newest takes writes
    lsm::RequestId next_request = 1;
  };

  bool set_up(std::uint64_t scenario_seed) override;
  Forward run(exec::SimSchedule const& schedule) override;
  Wrong judge(std::size_t which, bool record_recovery, std::vector<Window>& recovery,
              std::uint64_t& logical) override;
  [[nodiscard]] std::uint64_t hash_of_oracle(std::size_t oracle) const override;
  [[nodiscard]] bool worth_crashing(std::vector<Window> const&) const override {
    return tracker_.crashed.read_hash() % 4 == 0;
  }

  void expect(Oracle oracle);
  /// What is written from here on is acknowledged when it returns.
  void acknowledged(GwalContents const& contents);
  [[nodiscard]] Rocks rocks() const;
  void set_rocks(Rocks next);
  Wrong open(Store& store, GwalContents& found);
  Wrong run_steps(Store& store);
  Wrong take(Store& store, GwalStep const& step);
  Wrong write(Store& store, GwalStep const& step);
  Wrong seal(Store& store);
  Wrong intend(Store& store);
  Wrong withdraw(Store& store, GwalStep const& step);
  void write_directly(GwalStep const& step);
  void ingest(Store& store);
  Wrong retire(Store& store);
  Wrong reopen(Store& store);
  Wrong go_on(Store& store);

  GwalScenario scenario_{};
  exec::Workers workers_{1};
  std::vector<Oracle> oracles_;
  std::size_t of_run_ = 0;  // oracles of the run; those of one recovery follow
  std::vector<Rocks> rocks_;
  std::size_t rocks_of_run_ = 0;
};

}  // namespace perdure::explore
