#include "table_on.hpp"

namespace perdure::cpu_baselines {

std::vector<Maker> volatile_tables() { return {}; }

}  // namespace perdure::cpu_baselines
