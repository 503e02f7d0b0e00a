// The G-WAL and the hand-over of its segments as a system under test of the explorer. Which of
// RocksDB's states is there is one word of the medium. Invariant: each oracle says what a crash in
// its windows may leave: every acknowledged batch exactly once and in order, and of the one in
// flight all or nothing.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "exec/workers.hpp"
#include "explore/crashes.hpp"
#include "explore/gwal/gwal_life.hpp"

namespace perdure::explore {

class GwalRunner final : public Crasher, private GwalWorld {
 public:
  GwalRunner(Options const& options, Totals& totals);
  [[nodiscard]] std::string describe(std::uint64_t scenario_seed) const override;

 private:
  using Wrong = std::optional<std::string>;
  struct Oracle {
    GwalContents old, fresh;
  };

  bool set_up(std::uint64_t scenario_seed) override;
  Forward run(exec::SimSchedule const& schedule) override;
  Wrong judge(std::size_t which, bool record_recovery, std::vector<Window>& recovery,
              std::uint64_t& logical) override;
  [[nodiscard]] std::uint64_t hash_of_oracle(std::size_t oracle) const override;
  [[nodiscard]] bool worth_crashing(std::vector<Window> const&) const override {
    return tracker_.crashed.read_hash() % 4 == 0;
  }

  Result<std::unique_ptr<lsm::Gwal>> open_log() override;
  [[nodiscard]] GwalRocks rocks() const override;
  void set_rocks(GwalRocks next) override;
  void expect(GwalContents const& old, GwalContents const& fresh) override;
  void acknowledged(GwalContents const& contents) override;
  [[nodiscard]] GwalContents const& contents() const override { return oracles_.back().old; }
  [[nodiscard]] Totals* counted() override { return progress_.counted(); }

  GwalScenario scenario_{};
  exec::Workers workers_{1};
  std::vector<Oracle> oracles_;
  std::size_t of_run_ = 0;  // oracles of the run; those of one recovery follow
  std::vector<GwalRocks> rocks_;
  std::size_t rocks_of_run_ = 0;
};

}  // namespace perdure::explore
