// In which order threads that are to have cores of their own take hardware threads.
#pragma once

#include <cstddef>
#include <vector>

namespace perdure::bench {

/// Hardware threads that this process may run on: first one of each core, then the cores' second
/// ones, and so on. What shares a core is the kernel's word; where it has none, each counts as a
/// core.
std::vector<std::size_t> one_of_each_core_first();

}  // namespace perdure::bench
