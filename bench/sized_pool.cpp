#include "sized_pool.hpp"

#include <unistd.h>

#include "common.hpp"

namespace perdure::bench {

std::uint64_t slots_of(Shape const& shape, std::uint32_t top_level) {
  std::uint64_t slots = 0;
  for (std::uint32_t i = 0; i < shape.levels && i <= top_level; ++i) {
    slots += (std::uint64_t{1} << (top_level - i)) * shape.slots;
  }
  return slots;
}

Store create_sized(std::string const& path, CreateOptions create, OpenOptions const& open,
                   std::uint32_t top_level) {
  auto const slots = static_cast<double>(slots_of(create.shape, top_level));
  // The store chooses its levels from the records expected; how full it plans them is its own
  // affair, but each size is chosen for a range of records twice as wide as the next smaller one's.
  for (double const load : {0.85, 0.75, 0.65, 0.55}) {
    create.expected_records = static_cast<std::uint64_t>(slots * load);
    Store store = require(Store::create(path, create, open), "create " + path);
    if (store.stats().top_level == top_level) return store;
    require(store.close(), "close");
    unlink(path.c_str());
  }
  throw Failure("no number of expected records gives a top level of 2^" +
                std::to_string(top_level) + " buckets");
}

}  // namespace perdure::bench
