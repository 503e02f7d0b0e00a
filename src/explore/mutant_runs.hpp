// The mutants by name, each with the layouts in which its line runs and what it stands for.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "fault/mutants.hpp"

namespace perdure::explore {

/// Where a fault shows within a second: scenarios from this seed on, all their schedules with so
/// many switches, or at 0 random ones.
struct Steer {
  std::uint64_t seed = 0;  // 0: nowhere, yet
  std::uint64_t scenarios = 1;
  std::uint32_t preemptions = 0;
  std::uint64_t states = 0;  // crash states at most; 0 = what runs answer is enough
  bool flushes = false;  // under model flush
  std::uint32_t operations = 0;  // a batch, or a thread; 0 = as --operations says
};

struct MutantInfo {
  Mutant mutant;
  char const*
      layouts;  // "word", "in_place", "both"; of word alone "atomic", "steps", "reverts",
                // "mirrored", "mirrored-atomic", "mirrored-cached", "device", "full", "power",
                // "repair"; "log-repair", and "repairs" (both), "log-repair-any",
                // "log-repair-keys";
                // "log", of it alone "log-atomic", "log-steps", "log-reverts", "log-wide",
                // "log-any", "log-any-keys", "log-any-keys-atomic", "log-cached", "log-device"; of
                // in_place "cached"; "tables";
                // of libGPM "gpm-log", "gpm-conv", "gpm-logs" (both), "gpm-logs-commit" (both,
                // where the host alone orders), "gpm-checkpoint"; of Dash "dash-eh", "dash-lh",
                // "dash" (both), "dash-records"; "gwal", "gwal-power"; "btree"; of its store
                // "btree-store", "btree-log", "btree-index", "btree-index-log", "btree-full"
  char const* what;
  // set: no run can tell it from the original, so --mutants leaves it out
  char const* why_equal = nullptr;
  Steer steer = {};  // set where chance seldom comes upon it, and where each push tries it
};
[[nodiscard]] std::span<MutantInfo const> mutants();
[[nodiscard]] MutantInfo const* find_mutant(std::string_view name);

}  // namespace perdure::explore
