#include "cceh.hpp"

#include "table_on.hpp"

namespace perdure::cpu_baselines {

Maker cceh() { return maker<Cceh<InlineKeys>, Cceh<RecordKeys>>("cceh"); }

}  // namespace perdure::cpu_baselines
