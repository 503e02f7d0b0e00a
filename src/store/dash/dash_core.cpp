#include "store/dash/dash_core.hpp"

#include "base/assert.hpp"
#include "index/dash/root.hpp"
#include "pm/root.hpp"

namespace perdure {

Offset DashCore::index_at() const {
  pm::RootEntry const* const entry = pool.root().find(dash::kIndexName);
  return Offset{entry == nullptr ? 0 : entry->offset};
}

void DashCore::make_engine(dash::SegmentShape segments) {
  pm::PoolHeader const& h = pool.header();
  DashOptions const o{h.key_bytes, h.value_bytes, options.verify_reads, options.count_accesses,
                      segments,    health.flag()};
  PERDURE_ASSERT(engine == nullptr && index() != Index::gphash);
  bool const linear = index() == Index::dash_lh;
  engine = linear ? make_dash_lh(pool, memory, space, o) : make_dash_eh(pool, memory, space, o);
}

bool DashCore::count_records() {
  DashCount const count = engine->count();
  counters.set_records(count.records, count.whole);
  return count.whole;
}

}  // namespace perdure
