// The engines of trees that are durable as a whole, of keys that are all in the tree and of others.
#include "store/btree/full/full_engine_on.hpp"

namespace perdure {

std::unique_ptr<BtreeEngine> make_btree_full(pm::Pool& pool, Mutex& memory, threads::Space& space,
                                             threads::BatchNumbers& numbers,
                                             BtreeOptions const& options) {
  using Bytes = btree::ByteKeys<BtreeRecords>;
  if (btree_word_keys(options.key_bytes))
    return std::make_unique<full::EngineOn<btree::WordKeys>>(pool, memory, btree::WordKeys(), space,
                                                             numbers, options);
  Bytes const keys(BtreeRecords(pool.base(), pool.superblock_bytes()));
  return std::make_unique<full::EngineOn<Bytes>>(pool, memory, keys, space, numbers, options);
}

}  // namespace perdure
