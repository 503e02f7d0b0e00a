// The mutants by name, each with the layouts in which its line runs and what it stands for.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "base/mutants.hpp"

namespace perdure::explore {

struct MutantInfo {
  Mutant mutant;
  char const* name;
  char const* layouts;  // "word", "in_place", "both"; of word alone "atomic", "steps", "mirrored", "device", "full",
                        // "power"; of
                        // in_place "cached"; of libGPM "gpm-log", "gpm-conv", "gpm-logs" (both), "gpm-logs-commit"
                        // (both, where the host alone orders), "gpm-checkpoint";
                        // of Dash "dash-eh", "dash-lh", "dash" (both), "dash-records"
  char const* what;
  char const* why_equal = nullptr;  // set: no run can tell it from the original, so --mutants leaves it out
  std::uint64_t scenario = 0;  // that shows it under flushes; set where chance seldom comes upon one
};
[[nodiscard]] std::span<MutantInfo const> mutants();
[[nodiscard]] MutantInfo const* find_mutant(std::string_view name);

}  // namespace perdure::explore
