#include "level.hpp"

#include "table_on.hpp"

namespace perdure::cpu_baselines {

Maker level() { return maker<Level<InlineKeys>, Level<RecordKeys>>("level"); }

}  // namespace perdure::cpu_baselines
