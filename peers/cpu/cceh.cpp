#include "cceh.hpp"

#include "table_on.hpp"

namespace perdure::cpu_peers {

Maker cceh() { return maker<Cceh<InlineKeys>, Cceh<RecordKeys>>("cceh"); }

}  // namespace perdure::cpu_peers
