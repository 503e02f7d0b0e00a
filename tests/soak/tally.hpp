// What the soak is asked for and what it counts: its arguments, its counters by the names they are
// reported under, and the faults it can plant, by name. Invariant: every counter of Tally but the
// seconds stands in kCounters once, so that none goes unreported.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "soak/victim.hpp"

namespace perdure::test {

struct Arguments {
  std::uint64_t kills = 0;
  std::uint64_t traps = 0;
  std::uint64_t seed = 1;
  std::string layout = "all";
  std::string durability = "process";
  std::string device = "cpu";
  std::string log_dir = "/var/tmp";
  std::string index = "gphash";
  std::string plant;
  std::vector<std::string> with;  // troubles
  bool json = false;
};

struct Tally {
  std::uint64_t kills = 0, traps = 0, in_step = 0, in_atomic = 0, in_transaction = 0,
                in_open_transaction = 0, in_resize = 0, in_recovery = 0, in_open = 0, in_create = 0,
                in_close = 0, in_kernel = 0, with_forks = 0, children = 0, with_allocations = 0,
                with_disk = 0, failures = 0, power_cuts = 0, forgotten = 0, only_in_a_copy = 0,
                refused = 0, failed_for_good = 0, pools = 0, steps = 0, operations = 0, keys = 0,
                duplicates = 0, half_inserted = 0, undone = 0, replayed = 0, lost = 0;
  double seconds = 0;
};

struct Counter {
  char const* name;
  std::uint64_t Tally::* value;
};
inline constexpr Counter kCounters[] = {
    {"kills", &Tally::kills},
    {"traps", &Tally::traps},
    {"inside_a_step", &Tally::in_step},
    {"inside_an_atomic_batch", &Tally::in_atomic},
    {"inside_a_transaction", &Tally::in_transaction},
    {"before_its_commit_or_abort", &Tally::in_open_transaction},
    {"inside_a_resize", &Tally::in_resize},
    {"inside_recovery", &Tally::in_recovery},
    {"inside_another_open", &Tally::in_open},
    {"inside_a_create", &Tally::in_create},
    {"inside_a_close", &Tally::in_close},
    {"during_a_kernel", &Tally::in_kernel},
    {"with_forks", &Tally::with_forks},
    {"children_forked", &Tally::children},
    {"with_failing_allocations", &Tally::with_allocations},
    {"with_a_failing_disk", &Tally::with_disk},
    {"failures_injected", &Tally::failures},
    {"power_cuts", &Tally::power_cuts},
    {"sectors_forgotten", &Tally::forgotten},
    {"batches_that_a_copy_alone_had_shown", &Tally::only_in_a_copy},
    {"steps_refused", &Tally::refused},
    {"stores_failed_for_good", &Tally::failed_for_good},
    {"pools", &Tally::pools},
    {"steps", &Tally::steps},
    {"operations", &Tally::operations},
    {"keys_checked", &Tally::keys},
    {"duplicates_resolved", &Tally::duplicates},
    {"half_inserts_cleared", &Tally::half_inserted},
    {"slots_set_back", &Tally::undone},
    {"batches_replayed", &Tally::replayed},
    {"lost", &Tally::lost}};

struct PlantName {
  char const* name;
  Plant plant;
};
inline constexpr PlantName kPlants[] = {
    {"early", Plant::early},     {"transactions", Plant::transactions}, {"forks", Plant::forks},
    {"orphans", Plant::orphans}, {"refused", Plant::refused},           {"disks", Plant::disks}};

}  // namespace perdure::test
