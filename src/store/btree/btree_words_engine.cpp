// The engine of keys that are all in the tree: of one size, of at most 8 bytes.
#include "store/btree/btree_engine_on.hpp"

namespace perdure {

std::unique_ptr<BtreeEngine> make_btree_of_words(pm::Pool& pool, threads::Space& space,
                                                 threads::BatchNumbers& numbers,
                                                 BtreeOptions const& options) {
  return std::make_unique<BtreeEngineOn<btree::WordKeys>>(pool, btree::WordKeys(), space, numbers,
                                                          options);
}

}  // namespace perdure
