// Runs scenarios under schedules, crashes them wherever they can be told apart, recovers, and judges.
// Invariant: everything a run does follows from (scenario seed, schedule), and everything a crash
// leaves from (window, choices), so each finding is a line that can be replayed.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_set>
#include <vector>

#include "exec/sim_scheduler.hpp"
#include "explore/arena.hpp"
#include "explore/dense.hpp"
#include "explore/scenario.hpp"
#include "explore/tracker.hpp"

namespace perdure::explore {

struct Options {
  Layout layout = Layout::word;
  Model model = Model::fence;
  Bounds bounds;
  std::uint64_t seed = 1;
  std::uint64_t states = 50000;      // stop at so many distinct ones; 0 = no limit
  double seconds = 0;                // or after so long; 0 = no limit
  std::uint32_t schedules = 6;       // random ones of each scenario, besides the one without switches
  std::uint32_t preemptions = 0;     // instead: all schedules with up to so many switches
  std::uint64_t per_scenario = 3000; // go on to the next one after so many distinct states; 0 = no limit
  std::uint64_t scenarios = 0;       // stop after so many; 0 = no limit
  std::uint32_t jobs = 2;
  std::uint32_t leaves = 96;        // crash states of one window before sampling takes over
  std::uint32_t samples = 32;       // and so many after that
  std::uint32_t nested_leaves = 12;  // the same, for crashes inside recovery
  bool crashes = true;               // false: runs alone, their answers against the model
  std::uint32_t findings = 1;        // stop after so many violations
};

/// A crash: in which window of the run, and which of the possible values each word took. A second one
/// follows inside the recovery from the first.
struct CrashPoint {
  std::size_t window = 0;
  std::vector<std::uint8_t> choices;
};

struct Finding {
  std::string what;
  std::uint64_t scenario = 0;
  std::vector<exec::SimSwitch> switches;
  std::vector<CrashPoint> crashes;  // none: the run itself went wrong
  std::string description;          // of the scenario and of what was lost
};

/// One line that perdure-explore --replay takes, and back.
[[nodiscard]] std::string replay_text(Finding const& finding);
[[nodiscard]] std::optional<Finding> parse_replay(std::string const& text);

/// Shared by all workers.
struct Totals {
  std::atomic<std::uint64_t> scenarios{0}, runs{0}, points{0}, crash_points{0}, windows{0}, windows_seen{0},
      windows_sampled{0}, windows_skipped{0}, states{0}, nested{0}, nested_sampled{0};
  // How often what must be met was met: in runs, and in recoveries.
  std::atomic<std::uint64_t> growths{0}, displacements{0}, resumed{0}, duplicates{0}, half_inserted{0}, refused{0},
      undone{0}, batches_refused{0}, inside_growths{0}, session_operations{0}, session_refusals{0}, steps{0};
  std::atomic<bool> stop{false};
  std::mutex mutex;  // guards the rest
  std::unordered_set<std::uint64_t> distinct, logical;
  std::vector<Finding> findings;
  std::chrono::steady_clock::time_point start = std::chrono::steady_clock::now();
  [[nodiscard]] double seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }
};

class Runner {
 public:
  Runner(Options const& options, Totals& totals);
  ~Runner();

  /// All schedules that the options ask for, all crashes.
  void explore(std::uint64_t scenario_seed);
  /// One run and one crash; what is wrong with it, if anything is.
  std::optional<std::string> replay(Finding const& finding);

 private:
  struct Forward {
    std::vector<Window> windows;
    std::optional<std::string> wrong;
    std::vector<exec::SimSwitch> taken;
    std::vector<std::uint32_t> others;
  };
  struct Leaf {
    std::optional<std::string> wrong;
    std::vector<Window> recovery;
    bool fresh = false;
  };

  bool set_up(Scenario const& scenario);
  Forward run(Scenario const& scenario, exec::SimSchedule const& schedule);
  std::optional<std::string> run_batch(Store& store, Batch const& batch, Contents& contents);
  std::optional<std::string> run_session(Store& store, Batch const& batch, Contents& contents);
  std::optional<std::string> explain(Oracle const& oracle, Contents const& found);
  std::optional<std::string> run_transaction(Store& store, Scenario const& scenario, Contents& contents);
  std::optional<std::string> run_steps(Store& store, Scenario const& scenario, Contents& contents);
  std::optional<std::string> run_step(Store& store, Batch const& batch, Stepping stepping, std::uint64_t number,
                                      Contents& contents, std::optional<std::uint64_t>& step);
  std::optional<std::string> read_step(Store& store, std::optional<std::uint64_t>& step);
  std::optional<std::string> check_step(Store& store, std::optional<std::uint64_t> step);
  std::optional<std::string> further_step(Store& store, std::optional<std::uint64_t>& step);
  void expect(Oracle oracle);
  bool try_schedule(Scenario const& scenario, exec::SimSchedule const& schedule, Forward& forward);
  void explore_creation();
  void explore_switches(Scenario const& scenario, std::vector<exec::SimSwitch> const& switches);
  void minimise(Scenario const& scenario, Finding& finding);

  std::optional<Finding> crash_everywhere(std::vector<Window> const& windows, std::vector<CrashPoint> const& outer);
  std::optional<Finding> crash_in(Window const& window, std::vector<CrashPoint> path);
  std::optional<Finding> crash_inside_recovery(std::vector<Window> const& recovery, Tracker::Image const& image,
                                               std::vector<CrashPoint> const& path);
  [[nodiscard]] bool worth_crashing(std::vector<Window> const& recovery) const;
  Leaf crash_once(Window const& window, std::vector<std::uint8_t> const& choices, bool record_recovery);
  std::optional<std::string> judge(Oracle const& oracle, bool record_recovery, std::vector<Window>& recovery,
                                   std::uint64_t& logical);
  std::optional<std::string> judge_open(Store& store, Oracle const& oracle, Contents& found);
  std::optional<std::string> judge_step(Store& store, Oracle const& oracle, Contents const& found,
                                        std::optional<std::uint64_t>& step);
  void apply_window(Window const& window);
  void back_to(std::size_t mark, std::uint64_t file_bytes);
  [[nodiscard]] bool enough();      // of everything
  [[nodiscard]] bool enough_here();  // of this scenario
  void report(Finding finding);

  Options options_;
  Totals* totals_;
  Arena arena_;
  Tracker tracker_;
  DenseArrays dense_;
  Contents filled_{};  // what the scenario's pool holds before the run
  Scenario const* scenario_ = nullptr;
  std::vector<Oracle> oracles_;
  std::vector<Window> creation_;    // of the pool, written in set_up()
  std::size_t base_ = 0;            // mark: the state before the run
  std::uint64_t base_bytes_ = 0;
  std::uint32_t sessions_ = 0;      // of this run
  std::uint64_t base_hash_ = 0;     // of what the run has changed since
  std::unordered_set<std::uint64_t> seen_windows_;  // of this scenario
  std::uint64_t fresh_ = 0;         // distinct states found in this scenario
  bool quiet_ = false;              // replaying or minimising: nothing counts
};

}  // namespace perdure::explore
