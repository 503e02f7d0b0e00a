#include "seph.hpp"

#include "table_on.hpp"

namespace perdure::cpu_baselines {

Maker seph() { return maker<LevelSegments, LevelSegments>("seph-like"); }

}  // namespace perdure::cpu_baselines
