// The engine of longer keys, and of keys of any length, whose records have what the tree does not.
#include "store/btree/btree_engine_on.hpp"

namespace perdure {

std::unique_ptr<BtreeEngine> make_btree_of_bytes(pm::Pool& pool, threads::Space& space,
                                                 threads::BatchNumbers& numbers,
                                                 BtreeOptions const& options) {
  using Keys = btree::ByteKeys<BtreeRecords>;
  Keys const keys(BtreeRecords(pool.base(), pool.superblock_bytes()));
  return std::make_unique<BtreeEngineOn<Keys>>(pool, keys, space, numbers, options);
}

}  // namespace perdure
