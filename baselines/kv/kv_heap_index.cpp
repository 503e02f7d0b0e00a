// Values by an allocator, and the leaves of the tree in the pool: an opening goes through the
// leaves to find out which records and leaves are in use, and makes the inner nodes.
#include "kv_design.hpp"
#include "kv_leaves.hpp"

namespace perdure::kv_baselines {
namespace {

class HeapIndex final : public HeapDesign<btree::PoolNodes> {
 public:
  HeapIndex(Base const& base, BtreeOptions const& options)
      : HeapDesign(base, options, base.pool, base.leaves),
        records_(base.space),
        leaves_(base.pool, base.leaves, parts_, records_) {}

  Status create() override {
    if (Status s = HeapDesign::create(); !s.ok()) return s;
    leaves_.name_first();
    return {};
  }
  Result<std::uint64_t> recover(AnyHost& host, exec::Workers& workers) override {
    enters(host, pm::Part::space);
    if (Status s = leaves_.begin(); !s.ok()) return s;
    parts_.space.find_superblocks();
    auto const records = leaves_.take(host, workers);
    if (!records) return records;
    enters(host, pm::Part::space);
    leaves_.finish();
    parts_.space.finish_recovery();
    return records;
  }

 private:
  using typename BtreeEngineOn<btree::WordKeys, btree::PoolNodes>::Parts;

  HeapLeafRecords records_;
  DurableLeaves<Parts> leaves_;
};

}  // namespace

std::unique_ptr<Design> make_heap_index(Base const& base, BtreeOptions const& options) {
  return std::make_unique<HeapIndex>(base, options);
}

}  // namespace perdure::kv_baselines
