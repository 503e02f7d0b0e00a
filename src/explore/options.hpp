// What there is to explore, within which bounds, and what was found. Invariant: everything a run
// does follows from (scenario seed, schedule), and everything a crash leaves from (window,
// choices), so each finding is a line that can be replayed.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "exec/sim/sim_scheduler.hpp"
#include "explore/recorder.hpp"
#include "explore/scenario.hpp"

namespace perdure::explore {

enum class System : std::uint8_t {
  store,
  tables,
  gpm_log,
  gpm_conventional,
  gpm_checkpoint,
  dash_eh,
  dash_lh,
  dash_records,
  gwal,
  btree,
  btree_store,
  btree_log,
  btree_index,
  btree_index_log,
  btree_full
};
[[nodiscard]] constexpr bool is_dash(System system) {
  return system == System::dash_eh || system == System::dash_lh || system == System::dash_records;
}

/// The store over the B+-tree, whose threads order as they go.
[[nodiscard]] constexpr bool is_btree_store(System system) {
  return system == System::btree_store || system == System::btree_log ||
         system == System::btree_index || system == System::btree_index_log ||
         system == System::btree_full;
}

/// Over memory behind a processor's caches, too.
[[nodiscard]] constexpr bool flushes(System system) {
  return is_dash(system) || system == System::btree_store || system == System::btree_index;
}

/// Threads of the host, which take no locks to read.
[[nodiscard]] constexpr bool has_searches(System system) {
  return is_dash(system) || system == System::btree || is_btree_store(system);
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
  bool minimise = true;  // tell of as few switches as show it; false: as it was found
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

}  // namespace perdure::explore
