#include "pm/record_numbers.hpp"

#include "base/assert.hpp"

namespace perdure::pm {

std::uint64_t leased_numbers(Pool const& pool) {
  RootEntry const* const lease = pool.root().find(kRecordNumbers);
  return lease == nullptr ? 0 : lease->value;
}

void lease_numbers(Pool& pool, std::uint64_t most) {
  PERDURE_ASSERT(most > leased_numbers(pool));  // none comes twice
  Root root = pool.root();
  root.set(kRecordNumbers, 0, most);
  pool.publish_root(root);
}

}  // namespace perdure::pm
