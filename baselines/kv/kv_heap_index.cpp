// Values by an allocator, and the leaves of the tree in the pool: an opening goes through the
// leaves to find out which records and leaves are in use, and makes the inner nodes.
#include "kv_current.hpp"
#include "kv_design.hpp"
#include "pm/root.hpp"
#include "store/btree/leaves/btree_leaves_on.hpp"

namespace perdure::kv_baselines {
namespace {

class HeapIndex final : public HeapDesign<btree::PoolNodes> {
  using typename BtreeEngineOn<btree::WordKeys, btree::PoolNodes>::Parts;

 public:
  HeapIndex(Base const& base, BtreeOptions const& options)
      : HeapDesign(base, options, base.pool, base.leaves),
        pool_(base.pool),
        blocks_(base.leaves),
        records_(base.space) {}

  Status create() override {
    if (Status s = HeapDesign::create(); !s.ok()) return s;
    pm::FlushedHost host;
    pm::Root root = pool_.root();
    root.set(kBtreeLeaves, BtreeLeavesOn<Parts, pm::FlushedHost>(parts_, records_, host).first(),
             0);
    pool_.publish_root(root);
    return {};
  }
  Result<std::uint64_t> recover(AnyHost& host) override {
    enters(host, pm::Part::space);
    pm::RootEntry const* const entry = pool_.root().find(kBtreeLeaves);
    if (entry == nullptr) return Status{Code::corrupt, "the pool's root names no leaves"};
    blocks_.find_superblocks_later();
    blocks_.begin_sweep();
    parts_.space.find_superblocks();
    Status built;
    std::uint64_t const records =
        std::visit([&](auto& h) { return look(host, h, entry->offset, built); }, host);
    if (!built.ok()) return built;
    enters(host, pm::Part::space);
    blocks_.finish_sweep();
    parts_.space.finish_recovery();
    return records;
  }

 private:
  template <class Host>
  std::uint64_t look(AnyHost& any, Host& host, std::uint64_t first, Status& built) {
    exec::Workers workers(1);
    WithCurrent<Host> const lent(host);
    BtreeLeavesOn<Parts, Current<Host>> leaves(parts_, records_, Current<Host>());
    BtreeLeavesFound found = leaves.look(first, workers);
    enters(any, pm::Part::index);
    built = leaves.build(found);
    leaves.settle(found);
    return found.chain.records;
  }

  pm::Pool& pool_;
  pm::Blocks& blocks_;
  HeapLeafRecords records_;
};

}  // namespace

std::unique_ptr<Design> make_heap_index(Base const& base, BtreeOptions const& options) {
  return std::make_unique<HeapIndex>(base, options);
}

}  // namespace perdure::kv_baselines
