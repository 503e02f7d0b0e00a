#include "dash_table.hpp"
#include "index/dash/linear.hpp"
#include "table_on.hpp"

namespace perdure::cpu_baselines {

Maker dash_lh() {
  return maker<DashTable<dash::Linear<DashInline::Keys>, DashInline>,
               DashTable<dash::Linear<DashRecords::Keys>, DashRecords>>("dash-lh");
}

}  // namespace perdure::cpu_baselines
