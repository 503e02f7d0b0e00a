#include <absl/container/btree_map.h>

#include "locked_map.hpp"

namespace perdure::ordered_baselines {

bool has_absl() { return true; }
Made make_absl_map() {
  return Made(std::make_unique<LockedMap<absl::btree_map<std::uint64_t, std::uint64_t>>>());
}

}  // namespace perdure::ordered_baselines
