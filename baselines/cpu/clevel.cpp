#include "clevel.hpp"

#include "table_on.hpp"

namespace perdure::cpu_baselines {

Maker clevel() { return maker<Clevel, Clevel>("clevel"); }

}  // namespace perdure::cpu_baselines
