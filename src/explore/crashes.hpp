// What all explored systems have in common: schedules, and the crashes of their runs wherever
// these can be told apart. A system (runner.hpp, gpm_log_runner.hpp, gpm_checkpoint_runner.hpp,
// dash_runner.hpp) says what a run does and what a crash may leave. Invariant: what a run and its
// crashes do to the medium is undone before the next one begins.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <unordered_set>
#include <vector>

#include "exec/sim/sim_scheduler.hpp"
#include "explore/options.hpp"
#include "explore/progress.hpp"
#include "explore/sim_arena.hpp"
#include "explore/states.hpp"
#include "explore/tracker.hpp"

namespace perdure::explore {

/// The scheduler and the observer of this thread, for as long as this stands.
class Simulated {
 public:
  Simulated(exec::SimScheduler& scheduler, fault::Observer& observer) {
    exec::sim_scheduler = &scheduler;
    fault::observer = &observer;
  }
  Simulated(Simulated const&) = delete;
  Simulated& operator=(Simulated const&) = delete;
  ~Simulated() {
    exec::sim_scheduler = nullptr;
    fault::observer = nullptr;
  }
};

class Crasher {
 public:
  Crasher(Options const& options, Totals& totals, std::uint32_t word_bytes);
  Crasher(Crasher const&) = delete;
  Crasher& operator=(Crasher const&) = delete;
  virtual ~Crasher();

  /// All schedules that the options ask for, all crashes.
  void explore(std::uint64_t scenario_seed);
  /// One run and one crash; what is wrong with it, if anything is.
  virtual std::optional<std::string> replay(Finding const& finding);
  [[nodiscard]] virtual std::string describe(std::uint64_t scenario_seed) const = 0;

 protected:
  struct Forward {
    std::vector<Window> windows;
    std::optional<std::string> wrong;
    std::vector<exec::SimSwitch> taken;
    std::vector<std::uint32_t> others;
  };

  // What a system does.
  /// Draws the scenario and brings the medium to the state before its run, which is base_.
  virtual bool set_up(std::uint64_t scenario_seed) = 0;
  virtual void explore_creation() {}
  /// The scenario once, from the state before it.
  virtual Forward run(exec::SimSchedule const& schedule) = 0;
  /// What is wrong with what a crash left that an oracle of the run, or of a recovery, tells of.
  /// Recovery's windows are recorded if that is asked for.
  virtual std::optional<std::string> judge(std::size_t oracle, bool record_recovery,
                                           std::vector<Window>& recovery,
                                           std::uint64_t& logical) = 0;
  [[nodiscard]] virtual std::uint64_t hash_of_oracle(std::size_t oracle) const = 0;
  /// Windows too large to be exhausted are also crashed after so many of their writes, evenly
  /// spread.
  [[nodiscard]] virtual std::uint32_t prefixes() const { return 0; }
  [[nodiscard]] virtual bool worth_crashing(std::vector<Window> const&) const { return true; }

  // What systems are made of.
  std::optional<Finding> crash_everywhere(std::vector<Window> const& windows,
                                          std::vector<CrashPoint> const& outer);
  /// All crashes of the run that was just made.
  virtual std::optional<Finding> crash_run(Forward const& forward);
  bool prepare(std::uint64_t scenario_seed);
  /// Ends a recorded run: its windows, and what is wrong with it besides.
  void end_run(Forward& forward, exec::SimScheduler const& scheduler);

  Options options_;
  Progress progress_;
  Arena arena_;
  Tracker tracker_;
  States medium_;
  std::uint64_t seed_ = 0;  // of the scenario
  State base_;  // before the run

 private:
  struct Leaf {
    std::optional<std::string> wrong;
    std::vector<Window> recovery;
    bool fresh = false;
  };
  bool try_schedule(exec::SimSchedule const& schedule, Forward& forward);
  void explore_switches(std::vector<exec::SimSwitch> const& switches);
  void minimise(Finding& finding);
  /// What is wrong with a run of just these switches and its crashes.
  std::optional<Finding> goes_wrong(std::vector<exec::SimSwitch> const& switches);
  std::optional<Finding> crash_in(Window const& window, std::vector<CrashPoint> path);
  std::optional<Finding> crash_inside_recovery(std::vector<Window> const& recovery,
                                               Image const& image,
                                               std::vector<CrashPoint> const& path);
  /// `arrived`: these writes, instead of what the choices say.
  Leaf crash_once(Window const& window, std::vector<std::uint8_t> const& choices,
                  EventSet const* arrived, bool record_recovery);
  [[nodiscard]] std::vector<EventSet> chosen_states(Window const& window, bool nested) const;
  [[nodiscard]] std::uint32_t samples_of(bool nested) const {
    return nested ? options_.nested_leaves / 4 : options_.samples;
  }

  std::unordered_set<std::uint64_t> seen_windows_;  // of this scenario
};

}  // namespace perdure::explore
