// libGPM's logs as a system under test of the explorer: kernels that insert, read, remove and
// clear, the host's clear(), and opening, over one log in the arena. Invariant: each oracle says
// what a crash in its windows may leave of every partition; nothing else is to be read there.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "exec/sim/grid_sim.hpp"
#include "explore/crashes.hpp"
#include "explore/gpm/gpm_history.hpp"
#include "gpm/gpm_log_on.hpp"

namespace perdure::explore {

class GpmLogRunner final : public Crasher {
 public:
  GpmLogRunner(Options const& options, Totals& totals);
  [[nodiscard]] std::string describe(std::uint64_t scenario_seed) const override;

 private:
  using Log = gpm::GpmLogOn<exec::SimGrid>;
  /// What a crash may leave.
  struct Oracle {
    enum class Kind : std::uint8_t {
      launched,  // what the launches' history explains; with none, the old stacks
      cleared,   // the old stacks, or nothing at all
      undone,    // of each old stack its first so many entries
    } kind;
    GpmStacks old;
    GpmHistory history = {};         // of each thread since the host's last ordering point
    // word of the medium: how many operations thread 0 had acknowledged; others follow
    std::uint32_t acknowledged = 0;
  };

  bool set_up(std::uint64_t scenario_seed) override;
  Forward run(exec::SimSchedule const& schedule) override;
  std::optional<std::string> judge(std::size_t which, bool record_recovery,
                                   std::vector<Window>& recovery, std::uint64_t& logical) override;
  [[nodiscard]] std::uint64_t hash_of_oracle(std::size_t oracle) const override;
  [[nodiscard]] bool worth_crashing(std::vector<Window> const&) const override {
    return undoes_only() || tracker_.crashed.read_hash() % 16 == 0;
  }
  /// Recoveries of this scenario end with what they removed, not with a clear(): the same
  /// transaction goes on.
  [[nodiscard]] bool undoes_only() const { return seed_ % 3 == 0; }

  void expect(Oracle oracle);
  void expect_launches(GpmStacks old);
  std::optional<std::string> run_steps(Log& log);
  std::optional<std::string> launch(Log& log, GpmStep const& step);
  std::optional<std::string> order(Log& log);
  std::optional<std::string> explain(Oracle const& oracle, GpmStacks const& found, bool all);
  std::optional<std::string> explain_launches(Oracle const& oracle, GpmStacks const& found,
                                              bool all);
  std::optional<std::string> undo(Log& log, GpmStacks& stacks, std::size_t most);
  std::optional<std::string> go_on(Log& log, GpmStacks stacks);

  GpmLogScenario scenario_{};
  gpm::GpmLogKind kind_;
  exec::SimGrid grid_{3};
  std::vector<Oracle> oracles_;
  std::size_t of_run_ = 0;  // oracles of the run; those of one recovery follow
  std::uint32_t histories_ = 0;  // of this run
  std::uint64_t clock_ = 0;
  std::uint64_t overflows_ = 0;  // since the log was opened
};

}  // namespace perdure::explore
