#include "lsm/cache/block_cache.hpp"

namespace perdure::lsm {

template class BasicBlockCache<CacheRules>;

}  // namespace perdure::lsm
