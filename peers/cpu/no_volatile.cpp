#include "table_on.hpp"

namespace perdure::cpu_peers {

std::vector<Maker> volatile_tables() { return {}; }

}  // namespace perdure::cpu_peers
