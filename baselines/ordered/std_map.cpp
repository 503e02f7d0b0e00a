#include <map>

#include "locked_map.hpp"

namespace perdure::ordered_baselines {

Made make_std_map() {
  return Made(std::make_unique<LockedMap<std::map<std::uint64_t, std::uint64_t>>>());
}

}  // namespace perdure::ordered_baselines
