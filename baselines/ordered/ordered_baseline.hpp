// Ordered maps from 8 bytes to 8 bytes in DRAM, for any number of threads: the face that the
// benchmark sees. Keys are numbers, in their order.
//
//   perdure-btree     src/index/btree
//   absl-btree        absl::btree_map under a reader-writer lock
//   std-map           std::map under a reader-writer lock
//   rocksdb-memtable  RocksDB's skip list: a database whose one memtable never fills, without a log
//
// Invariant: any thread may call anything at any time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "perdure/status.h"

namespace perdure::ordered_baselines {

using Keys = std::span<std::uint64_t const>;

/// What a scan came by.
struct Scanned {
  std::uint64_t count = 0, keys = 0, values = 0;  // the latter are sums
};

class Map {
 public:
  virtual ~Map() = default;
  /// One after the other; false: there was no memory.
  virtual bool put(Keys keys, std::span<std::uint64_t const> values) = 0;
  /// One after the other; how many were there.
  virtual std::uint64_t get(Keys keys, std::span<std::uint64_t> values) = 0;
  /// All in one call, where the map has such a call.
  virtual std::uint64_t get_many(Keys keys, std::span<std::uint64_t> values) {
    return get(keys, values);
  }
  /// At most so many, from the first key on that is not below `from`.
  virtual Scanned scan(std::uint64_t from, std::uint64_t most) = 0;
};

/// Those that this build, on this machine, has.
[[nodiscard]] std::vector<std::string> names();
/// An empty one, for about so many keys.
Result<std::unique_ptr<Map>> create(std::string const& name, std::uint64_t keys,
                                    std::uint32_t threads);
/// What is to be said of it beside its figures, or "".
[[nodiscard]] std::string remark(std::string const& name);

}  // namespace perdure::ordered_baselines
