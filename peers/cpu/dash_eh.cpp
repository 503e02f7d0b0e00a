#include "dash_table.hpp"
#include "index/dash/extendible.hpp"
#include "table_on.hpp"

namespace perdure::cpu_peers {

Maker dash_eh() {
  return maker<DashTable<dash::Extendible<DashInline::Keys>, DashInline>,
               DashTable<dash::Extendible<DashRecords::Keys>, DashRecords>>("dash-eh");
}

}  // namespace perdure::cpu_peers
