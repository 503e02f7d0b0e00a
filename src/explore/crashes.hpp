// What all explored systems have in common: schedules, and the crashes of their runs wherever
// these can be told apart. A system (runner.hpp, gpm_log_runner.hpp, gpm_checkpoint_runner.hpp,
// dash_runner.hpp) says what a run does and what a crash may leave. Invariant: everything a run
// does follows from (scenario seed, schedule), and everything a crash leaves from (window,
// choices), so each finding is a line that can be replayed.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_set>
#include <vector>

#include "exec/sim/sim_scheduler.hpp"
#include "explore/scenario.hpp"
#include "explore/sim_arena.hpp"
#include "explore/tracker.hpp"

namespace perdure::explore {

enum class System : std::uint8_t {
  store,
  gpm_log,
  gpm_conventional,
  gpm_checkpoint,
  dash_eh,
  dash_lh,
  dash_records
};
[[nodiscard]] constexpr bool is_dash(System system) {
  return system == System::dash_eh || system == System::dash_lh || system == System::dash_records;
}

struct Options {
  System system = System::store;
  Layout layout = Layout::word;
  Model model = Model::fence;
  Bounds bounds;
  std::uint64_t seed = 1;
  std::uint64_t states = 50000;  // stop at so many distinct ones; 0 = no limit
  double seconds = 0;  // or after so long; 0 = no limit
  std::uint32_t schedules = 6;  // random ones of each scenario, besides the one without switches
  std::uint32_t preemptions = 0;  // instead: all schedules with up to so many switches
  // go on to the next one after so many distinct states; 0 = no limit
  std::uint64_t per_scenario = 3000;
  std::uint64_t scenarios = 0;  // stop after so many; 0 = no limit
  std::uint32_t jobs = 2;
  std::uint32_t leaves = 96;  // crash states of one window before sampling takes over
  std::uint32_t samples = 32;  // and so many after that
  std::uint32_t nested_leaves = 12;  // the same, for crashes inside recovery
  bool crashes = true;  // false: runs alone, their answers against the model
  std::uint32_t findings = 1;  // stop after so many violations
};

/// A crash: in which window of the run, and which of the possible values each word took. A second
/// one follows inside the recovery from the first.
struct CrashPoint {
  std::size_t window = 0;
  std::vector<std::uint8_t> choices;
};

struct Finding {
  std::string what;
  std::uint64_t scenario = 0;
  std::vector<exec::SimSwitch> switches;
  std::vector<CrashPoint> crashes;  // none: the run itself went wrong
  std::string description;  // of the scenario and of what was lost
};

/// One line that perdure-explore --replay takes, and back.
[[nodiscard]] std::string replay_text(Finding const& finding);
[[nodiscard]] std::optional<Finding> parse_replay(std::string const& text);

/// Shared by all workers.
struct Totals {
  std::atomic<std::uint64_t> scenarios{0}, runs{0}, points{0}, crash_points{0}, windows{0},
      windows_seen{0}, windows_sampled{0}, windows_skipped{0}, states{0}, nested{0},
      nested_sampled{0};
  // How often what must be met was met: in runs, and in recoveries.
  std::atomic<std::uint64_t> growths{0}, displacements{0}, resumed{0}, duplicates{0},
      half_inserted{0}, refused{0}, undone{0}, batches_refused{0}, inside_growths{0},
      session_operations{0}, session_refusals{0}, steps{0};
  // Durability power: batches that were taken from a log.
  std::atomic<std::uint64_t> checkpoints{0}, replayed{0};
  // libGPM: operations of kernels, entries that found no room, entries after crashes, checkpoints
  // restored.
  std::atomic<std::uint64_t> gpm_operations{0}, gpm_overflows{0}, gpm_entries{0}, gpm_restored{0};
  std::atomic<std::uint64_t> merges{0};  // of Dash's segments; their splits are growths
  std::atomic<bool> stop{false};
  std::mutex mutex;  // guards the rest
  std::unordered_set<std::uint64_t> distinct, logical;
  std::vector<Finding> findings;
  std::chrono::steady_clock::time_point start = std::chrono::steady_clock::now();
  [[nodiscard]] double seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }
};

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
  /// Draws the scenario and brings the medium to the state before its run: sets base_ and
  /// base_bytes_.
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
  void back_to(std::size_t mark, std::uint64_t file_bytes);
  std::optional<Finding> crash_everywhere(std::vector<Window> const& windows,
                                          std::vector<CrashPoint> const& outer);
  /// All crashes of the run that was just made.
  virtual std::optional<Finding> crash_run(Forward const& forward);
  void report(Finding finding);
  bool prepare(std::uint64_t scenario_seed);
  [[nodiscard]] bool enough_here();  // of this scenario
  /// One more state was judged; whether it is the first of its kind.
  bool count_state(std::uint64_t state, std::uint64_t logical);
  /// Ends a recorded run: its windows, and what is wrong with it besides.
  void end_run(Forward& forward, exec::SimScheduler const& scheduler);

  Options options_;
  Totals* totals_;
  Arena arena_;
  Tracker tracker_;
  std::uint64_t seed_ = 0;  // of the scenario
  std::size_t base_ = 0;  // mark: the state before the run
  std::uint64_t base_bytes_ = 0;
  std::uint64_t base_hash_ = 0;  // of what the run has changed since
  bool quiet_ = false;  // replaying or minimising: nothing counts

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
  /// `arrived`: the window's first so many writes, instead of what the choices say.
  Leaf crash_once(Window const& window, std::vector<std::uint8_t> const& choices,
                  std::optional<std::size_t> arrived, bool record_recovery);
  void apply_window(Window const& window);
  [[nodiscard]] bool enough();  // of everything

  std::unordered_set<std::uint64_t> seen_windows_;  // of this scenario
  std::uint64_t fresh_ = 0;  // distinct states found in this scenario
};

}  // namespace perdure::explore
