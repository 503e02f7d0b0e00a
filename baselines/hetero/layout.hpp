// The table of chapter 4 as machines see it: Mega-KV's layout (signatures and location ids in
// buckets, bucketed cuckoo with two candidate buckets, keys and values elsewhere). Nothing of it is
// durable.
//
//   page 0    unused, so that no row has offset 0
//   page 1    buckets: rows of 8 entries, one line of a cache each
//   then      pairs: {key, value}, 16 bytes each, by location id; ids are handed out in order
//
//   entry   63        32 31             0
//           | signature | location + 1 |    0 = empty
//
// Signature and location stand in one word, so that an entry is published by one store. Locks, one
// a bucket, are a separate region (section 4.3.1, Listing 10): each machine has its own, because
// atomics of CPU and GPU on one word are not coherent. Invariants: a signature is not 0, so an
// empty entry matches none; other(other(b, s), s) == b, and the two differ.
#pragma once

#include <cstdint>

#include "base/annotate.hpp"
#include "base/hash.hpp"
#include "base/offset.hpp"

namespace perdure::hetero {

inline constexpr std::uint32_t kEntries = 8;  // of a bucket
inline constexpr std::uint64_t kRowBytes = 8 * kEntries;
inline constexpr std::uint64_t kPairBytes = 16;
inline constexpr std::uint64_t kPage = 4096;
inline constexpr std::uint64_t kEmpty = 0;
inline constexpr std::uint32_t kNone = ~std::uint32_t{0};  // a bucket or a pair that is none

/// What a batch of puts changed, for the other copy: of each operation its pair and, where it
/// inserted, its bucket; buckets that evictions changed besides.
struct Trail {
  std::uint32_t* pairs = nullptr;  // null: nobody asks
  std::uint32_t* buckets = nullptr;
  std::uint32_t* moved = nullptr;
  std::uint64_t* moved_count = nullptr;  // may pass moved_room: then `moved` does not say all
  std::uint64_t moved_room = 0;
};

struct View {
  std::byte* base = nullptr;
  Offset pairs;
  std::uint64_t capacity = 0;  // pairs
  std::uint32_t log2_buckets = 1;
  std::uint32_t* locks = nullptr;  // of the machine that uses this view
  std::uint64_t* used = nullptr;  // pairs that were handed out
  Trail trail;

  [[nodiscard]] PERDURE_FN std::uint32_t first(std::uint64_t hash) const {
    return static_cast<std::uint32_t>(hash >> (64 - log2_buckets));
  }
  [[nodiscard]] PERDURE_FN std::uint32_t other(std::uint32_t bucket,
                                               std::uint32_t signature) const {
    std::uint64_t const far = hash_detail::fold(signature ^ hash_detail::k2, hash_detail::k3) | 1;
    return (bucket ^ static_cast<std::uint32_t>(far)) & ((1u << log2_buckets) - 1);
  }
  [[nodiscard]] PERDURE_FN Offset row(std::uint32_t bucket) const {
    return Offset{kPage + bucket * kRowBytes};
  }
  [[nodiscard]] PERDURE_FN Offset pair(std::uint32_t location) const {
    return pairs + location * kPairBytes;
  }
};

PERDURE_FN std::uint32_t signature_of(std::uint64_t hash) {
  auto const low = static_cast<std::uint32_t>(hash);  // bucket numbers use the top bits
  return low == 0 ? 1 : low;
}
PERDURE_FN std::uint64_t entry_of(std::uint32_t signature, std::uint32_t location) {
  return std::uint64_t{signature} << 32 | (location + 1);
}
PERDURE_FN std::uint32_t signature_in(std::uint64_t entry) {
  return static_cast<std::uint32_t>(entry >> 32);
}
PERDURE_FN std::uint32_t location_in(std::uint64_t entry) {
  return static_cast<std::uint32_t>(entry) - 1;
}

}  // namespace perdure::hetero
