// The bucket cache of layout `in_place` (GPHash section 3.3, BktCache): copies of whole buckets in
// the machine's own memory, of which a load chooses the members and which are frozen between loads.
//
//   entries    an entry: S states, S keys, S places, as on PM. One more, `capacity`, stands for
//              every bucket that is not cached: its states are INSERT, which no key matches
//   entry_of   F, by bucket number: the bucket's entry, or kNone
//   bucket_of  G, by entry: the bucket it is a copy of, or kNone
//   uses       by bucket number: how often, or how lately, a get found its key there, or looked
//              there in vain
//
// Buckets are numbered over all live levels: slot number / S.
//
// Invariant: an entry that F leads to says what its bucket says on PM, but for what a write batch
// that is under way has stored on PM and not yet here. Whoever changes a bucket on PM changes its
// entry afterwards.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/annotate.hpp"
#include "base/assert.hpp"

namespace perdure::gphash {

struct BucketCache {
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};

  std::byte* entries = nullptr;  // null: nothing has been loaded yet, or there is no cache
  std::uint32_t* entry_of = nullptr;
  std::uint32_t* bucket_of = nullptr;
  std::uint32_t* uses = nullptr;
  std::uint32_t capacity = 0;  // entries
  std::uint32_t entry_bytes = 0;
  std::uint32_t slots = 0;
  std::uint32_t key_stride = 0;

  PERDURE_FN std::byte* at(std::uint32_t entry) const {
    PERDURE_ASSERT(!kCostlyAssertions || entry <= capacity);  // one more: of what is not cached
    return entries + std::uint64_t{entry} * entry_bytes;
  }
  PERDURE_FN std::uint64_t* states(std::uint32_t entry) const {
    return reinterpret_cast<std::uint64_t*>(at(entry));
  }
  PERDURE_FN std::byte* key(std::uint32_t entry, std::uint32_t slot) const {
    return at(entry) + slots * 8 + slot * key_stride;
  }
  PERDURE_FN std::uint64_t* address(std::uint32_t entry, std::uint32_t slot) const {
    return reinterpret_cast<std::uint64_t*>(at(entry) + slots * (8 + key_stride)) + slot;
  }
};

/// Bytes of an entry, in whole sectors, so that nobody's copy of one holds a part of another.
PERDURE_FN std::uint32_t bucket_entry_bytes(std::uint32_t slots, std::uint32_t key_stride) {
  return (slots * (16 + key_stride) + 31) / 32 * 32;
}

}  // namespace perdure::gphash
