// The engines of B+-trees whose records lie in a value log, and whose leaves are durable.
#include "store/btree/leaves/btree_leaves_on.hpp"
#include "store/btree/log/btree_log_engine_on.hpp"
#include "store/btree/log/btree_log_leaf_records.hpp"

namespace perdure {
namespace {

template <class Keys>
class BtreeLogLeavesEngineOn final : public BtreeLogEngineOn<Keys, btree::PoolNodes> {
  using Base = BtreeLogEngineOn<Keys, btree::PoolNodes>;

 public:
  BtreeLogLeavesEngineOn(pm::Pool& pool, Mutex& memory, Keys keys, threads::Space& space,
                         threads::BatchNumbers& numbers, BtreeOptions const& options,
                         pm::LogSettings const& log, pm::Blocks& leaves)
      : Base(pool, memory, keys, space, numbers, options, log, pool, leaves),
        records_(this->log()->recovery()),
        leaves_(this->parts_, records_, typename Base::OrderedHost(options.given_up)) {}

  [[nodiscard]] BtreeLeaves* leaves() override { return &leaves_; }

 private:
  LogLeafRecords records_;
  BtreeLeavesOn<typename Base::Parts, typename Base::OrderedHost> leaves_;
};

}  // namespace

std::unique_ptr<BtreeEngine> make_btree_log_leaves(pm::Pool& pool, Mutex& memory,
                                                   threads::Space& space,
                                                   threads::BatchNumbers& numbers,
                                                   BtreeOptions const& options,
                                                   pm::LogSettings const& log, pm::Blocks& leaves) {
  if (btree_word_keys(options.key_bytes))
    return std::make_unique<BtreeLogLeavesEngineOn<btree::WordKeys>>(
        pool, memory, btree::WordKeys(), space, numbers, options, log, leaves);
  using Keys = btree::ByteKeys<BtreeRecords>;
  return std::make_unique<BtreeLogLeavesEngineOn<Keys>>(
      pool, memory, Keys(BtreeRecords(pool.base(), pool.superblock_bytes())), space, numbers,
      options, log, leaves);
}

}  // namespace perdure
