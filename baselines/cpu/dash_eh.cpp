// Dash-EH, and the same with four stash buckets: they share all code of index/dash, which is long
// to compile.
#include "dash_table.hpp"
#include "index/dash/extendible.hpp"
#include "table_on.hpp"

namespace perdure::cpu_baselines {
namespace {

template <std::uint32_t kStash>
Maker eh(char const* name) {
  return maker<DashTable<dash::Extendible<DashInline::Keys>, DashInline, kStash>,
               DashTable<dash::Extendible<DashRecords::Keys>, DashRecords, kStash>>(name);
}

}  // namespace

Maker dash_eh() { return eh<2>("dash-eh"); }
Maker dash_eh_stash4() { return eh<4>("dash-eh-stash4"); }

}  // namespace perdure::cpu_baselines
