// The store as a system under test of the explorer: tables, records and batches over scenarios
// drawn from a seed, crashed as crashes.hpp says and judged against a plain model.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "explore/crashes.hpp"
#include "explore/dense_steps.hpp"
#include "explore/reader_moments.hpp"

namespace perdure::explore {

class Runner final : public Crasher {
 public:
  Runner(Options const& options, Totals& totals);
  [[nodiscard]] std::string describe(std::uint64_t scenario_seed) const override;

 private:
  bool set_up(std::uint64_t scenario_seed) override;
  void explore_creation() override;
  Forward run(exec::SimSchedule const& schedule) override;
  std::optional<std::string> judge(std::size_t which, bool record_recovery,
                                   std::vector<Window>& recovery, std::uint64_t& logical) override;
  [[nodiscard]] std::uint64_t hash_of_oracle(std::size_t oracle) const override;
  [[nodiscard]] bool worth_crashing(std::vector<Window> const& recovery) const override;

  std::optional<std::string> run_batch(Store& store, Batch const& batch, Contents& contents);
  std::optional<std::string> run_session(Store& store, Batch const& batch, Contents& contents);
  std::optional<std::string> explain(Oracle const& oracle, Contents const& found);
  std::optional<std::string> run_batches(Store& store, Scenario const& scenario,
                                         Contents& contents);
  std::optional<std::string> run_transaction(Store& store, std::span<Batch const> batches,
                                             bool commits, Contents& contents);
  std::optional<std::string> run_steps(Store& store, Scenario const& scenario, Contents& contents);
  /// Between steps: what is there, and what taking the last one back brings, if it can be.
  struct Settled {
    Contents contents;
    std::optional<std::uint64_t> step;
    std::optional<Back> back;
  };
  [[nodiscard]] static Oracle settled(Settled const& now);
  std::optional<std::string> look_at_step(Store& store, Settled const& now);
  std::optional<std::string> run_revert(Store& store, Settled& now);
  std::optional<std::string> run_step(Store& store, Batch const& batch, Stepping stepping,
                                      std::uint64_t number, Settled& now);
  std::optional<std::string> read_beside(std::vector<Window> const& windows, Contents const& end);
  std::optional<std::string> read_step(Store& store, std::optional<std::uint64_t>& step);
  std::optional<std::string> check_step(Store& store, std::optional<std::uint64_t> step);
  std::optional<std::string> further_step(Store& store, std::optional<std::uint64_t>& step);
  void expect(Oracle oracle);
  std::optional<std::string> judge_open(Store& store, Oracle const& oracle, Contents& found);
  std::optional<std::string> judge_step(Store& store, Oracle const& oracle, Contents& found,
                                        std::optional<std::uint64_t>& step);

  DenseArrays dense_;
  ReaderMoments reader_;
  Contents filled_{};  // what the scenario's pool holds before the run
  std::optional<Scenario> scenario_;
  std::vector<Oracle> oracles_;
  std::vector<Window> creation_;    // of the pool, written in set_up()
  std::uint32_t sessions_ = 0;      // of this run
};

}  // namespace perdure::explore
