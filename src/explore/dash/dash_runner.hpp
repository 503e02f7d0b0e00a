// Dash's tables as a system under test of the explorer: threads of the host that write and read
// side by side while segments split and merge, and the lazy recovery from crashes of that.
// Invariant: each oracle says what a crash in its windows may leave of every key; fillers are there
// always.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "explore/crashes.hpp"
#include "explore/dash/dash_opened.hpp"
#include "explore/dash/dash_scenario.hpp"
#include "explore/judging.hpp"
#include "pm/pool.hpp"

namespace perdure::explore {

/// `Table` is dash::Extendible or dash::Linear. Over records one thread more sweeps while the
/// others go on.
template <class Table>
class DashRunner final : public Crasher {
 public:
  DashRunner(Options const& options, Totals& totals);
  [[nodiscard]] std::string describe(std::uint64_t scenario_seed) const override;

 private:
  using Contents = ByKey;
  using Oracle = HistoryOracle;
  using Opened = OpenedDash<Table>;

  bool set_up(std::uint64_t scenario_seed) override;
  Forward run(exec::SimSchedule const& schedule) override;
  std::optional<std::string> judge(std::size_t which, bool record_recovery,
                                   std::vector<Window>& recovery, std::uint64_t& logical) override;
  [[nodiscard]] std::uint64_t hash_of_oracle(std::size_t oracle) const override;
  /// A run is one window here.
  [[nodiscard]] std::uint32_t prefixes() const override { return 64; }

  std::optional<std::string> recover(Oracle const& oracle, bool record_recovery,
                                     std::vector<Window>& recovery, std::uint64_t& logical);
  void soil(pm::Pool& pool) const;
  /// `sound`: after an orderly close; `summed`: which stored the sums of all segments.
  std::unique_ptr<Opened> open(bool sound, std::optional<std::string>& wrong, bool summed = false);
  void operate(Opened& opened, std::size_t thread);
  [[nodiscard]] std::uint64_t* acknowledged(std::size_t thread);
  std::optional<std::string> contents_of(Opened& opened, Contents& found);
  std::optional<std::string> explain_all(Oracle const& oracle, Contents const& found, bool all);
  std::optional<std::string> close_twice(Opened& opened, Contents contents);
  std::optional<std::string> go_on(Opened& opened, Contents contents);

  DashScenario scenario_;
  Offset index_;
  std::vector<std::uint64_t> born_;  // records that were there before the run
  std::vector<Oracle> oracles_;
  std::size_t of_run_ = 0;  // oracles of the run; those of one recovery follow
  std::uint64_t clock_ = 0;
};

}  // namespace perdure::explore
