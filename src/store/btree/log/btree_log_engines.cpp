// The engines of B+-trees whose records lie in a value log.
#include "store/btree/log/btree_log_engine_on.hpp"

namespace perdure {

std::unique_ptr<BtreeEngine> make_btree_log(pm::Pool& pool, Mutex& memory, threads::Space& space,
                                            threads::BatchNumbers& numbers,
                                            BtreeOptions const& options,
                                            pm::LogSettings const& log) {
  if (btree_word_keys(options.key_bytes))
    return std::make_unique<BtreeLogEngineOn<btree::WordKeys>>(pool, memory, btree::WordKeys(),
                                                               space, numbers, options, log);
  using Keys = btree::ByteKeys<BtreeRecords>;
  return std::make_unique<BtreeLogEngineOn<Keys>>(
      pool, memory, Keys(BtreeRecords(pool.base(), pool.superblock_bytes())), space, numbers,
      options, log);
}

}  // namespace perdure
