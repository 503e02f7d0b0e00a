// The engines of B+-trees whose leaves are durable.
#include "store/btree/leaves/btree_leaves_on.hpp"

namespace perdure {

std::unique_ptr<BtreeEngine> make_btree_index(pm::Pool& pool, threads::Space& space,
                                              threads::BatchNumbers& numbers,
                                              BtreeOptions const& options, pm::Blocks& leaves) {
  if (btree_word_keys(options.key_bytes))
    return std::make_unique<BtreeIndexEngineOn<btree::WordKeys>>(pool, btree::WordKeys(), space,
                                                                 numbers, options, leaves);
  using Keys = btree::ByteKeys<BtreeRecords>;
  return std::make_unique<BtreeIndexEngineOn<Keys>>(
      pool, Keys(BtreeRecords(pool.base(), pool.superblock_bytes())), space, numbers, options,
      leaves);
}

}  // namespace perdure
