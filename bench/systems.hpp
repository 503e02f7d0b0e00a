// What the comparison of baselines measures: Perdure's layouts and the baselines, all behind the
// baselines' face. On a GPU a call may have its arrays in host memory or in the GPU's.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "baseline.hpp"

namespace perdure::bench {

/// slabhash-gpm, clevel-gpm; cpu-assisted, and that with -dash-eh, -dash-lh, -clevel and -seph;
/// in_place, word.
[[nodiscard]] std::vector<std::string> const& system_names();

/// Over a new file at `path`; of the options design and index are ignored. `verify_reads` is for
/// Perdure's layouts: the baselines have no checksums. Throws Failure.
[[nodiscard]] std::unique_ptr<baselines::Baseline> make_system(std::string const& name,
                                                               std::string const& path,
                                                               baselines::BaselineOptions options,
                                                               bool verify_reads);

}  // namespace perdure::bench
