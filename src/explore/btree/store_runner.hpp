// A B+-tree's store as a system under test of the explorer: threads of the host that write and read
// side by side, crashes of that, and the opening that looks at all records. Invariant: each oracle
// says what a crash in its windows may leave of every key; fillers are there always.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "explore/btree/opened_store.hpp"
#include "explore/btree/store_scenario.hpp"
#include "explore/crashes.hpp"
#include "explore/judging.hpp"

namespace perdure::explore {

class StoreRunner final : public Crasher {
 public:
  StoreRunner(Options const& options, Totals& totals);
  [[nodiscard]] std::string describe(std::uint64_t scenario_seed) const override;

 private:
  using Contents = ByKey;
  /// Of transactions, instead of a history: what was there before the one that is open, or after.
  struct Oracle : HistoryOracle {
    std::optional<Contents> whole = std::nullopt;
  };

  bool set_up(std::uint64_t scenario_seed) override;
  Forward run(exec::SimSchedule const& schedule) override;
  std::optional<std::string> judge(std::size_t which, bool record_recovery,
                                   std::vector<Window>& recovery, std::uint64_t& logical) override;
  [[nodiscard]] std::uint64_t hash_of_oracle(std::size_t oracle) const override;
  /// A run is one window here.
  [[nodiscard]] std::uint32_t prefixes() const override { return 64; }

  [[nodiscard]] StoreKind kind() const;
  [[nodiscard]] StoreScenario draw(std::uint64_t scenario_seed) const {
    return make_store_scenario(scenario_seed, kind(), options_.bounds.operations);
  }
  [[nodiscard]] std::unique_ptr<OpenedStore> opened_in(pm::Pool pool) const;
  bool fill(std::unique_ptr<OpenedStore>& made);
  bool fill_segments(std::unique_ptr<OpenedStore>& made);
  void work(OpenedStore& opened, std::uint32_t thread);
  [[nodiscard]] std::uint32_t collectors() const {
    return kind().log ? scenario_.log.collectors : 0;
  }
  [[nodiscard]] Keeps keeps() const;
  [[nodiscard]] pm::PoolHeader header() const;
  void soil(pm::Pool& pool) const;
  std::unique_ptr<OpenedStore> open(std::optional<std::string>& wrong);
  void operate(OpenedStore& opened, std::size_t thread);
  [[nodiscard]] std::uint64_t* acknowledged(std::size_t thread);
  [[nodiscard]] std::optional<std::string> fault_of_run(OpenedStore& opened);
  std::optional<std::string> explain_all(Oracle const& oracle, Contents const& found, bool all);
  bool run_threads(OpenedStore& opened, exec::SimScheduler& scheduler);
  [[nodiscard]] std::vector<StoreBatch> parts_of(std::size_t n) const;
  bool run_transactions(OpenedStore& opened, exec::SimScheduler& scheduler);
  std::optional<std::string> recover(std::size_t which, bool record_recovery,
                                     std::vector<Window>& recovery, std::uint64_t& logical);
  std::optional<std::string> go_on(OpenedStore& opened, Contents contents);
  std::optional<std::string> reopen(Contents const& contents);

  StoreScenario scenario_;
  std::vector<Oracle> oracles_;
  std::size_t of_run_ = 0;  // oracles of the run; those of one recovery follow
  std::uint64_t clock_ = 0;
  std::size_t writing_ = 0;  // threads that have not ended
  bool loaded_ = false;  // what is loaded in bulk
  std::optional<std::string> held_;  // what was wrong while a reader had an item
};

}  // namespace perdure::explore
