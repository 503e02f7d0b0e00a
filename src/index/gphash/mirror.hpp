// The mirror: a volatile image of the slots in the machine's own memory (HBM on a GPU), so that
// probes and misses touch no PM. By slot number:
//
//   words        the slot words; one whose record is in the record cache has kCached set, and the
//                number of its entry where the place would be
//   tags         one byte of each fingerprint, 0 = empty: a row of 8 slots is one load
//   identities   key and CRC-32C of the value, where known: then a hit costs one PM access, for the
//                value alone. Only where keys and values have fixed sizes, keys of at most
//                kMaxIdentityKey bytes. Layout `log` has them for values of any length, too, and
//                for other keys with their hashes in place of the keys
//
// Invariant: between batches the mirror says what the PM words say. Whoever stores a PM word stores
// the mirror's with it; what the host changes by itself (recovery, undo) is followed by a refresh.
// PM is never behind: the mirror is rebuilt from it alone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/annotate.hpp"
#include "base/assert.hpp"
#include "base/hash.hpp"
#include "base/offset.hpp"

namespace perdure::gphash {

inline constexpr std::uint32_t kMaxIdentityKey = 32;

/// What stands behind the key in an identity.
struct IdentityTail {
  // CRC-32C of the value; layout `log`: pm::short_sum() of it, or, where values have any length, of
  // the record's checksum, which covers that length
  std::uint32_t value_sum;
  std::uint32_t known;  // kKeyKnown, kSumKnown
};
inline constexpr std::uint32_t kKeyKnown = 1;
inline constexpr std::uint32_t kSumKnown = 2;

/// Bytes of an identity; 0 = there are none for these sizes.
PERDURE_FN std::uint32_t identity_bytes(std::uint32_t key_bytes, std::uint32_t value_bytes,
                                        bool logged) {
  bool const has_room = key_bytes != 0 && key_bytes <= kMaxIdentityKey;
  bool const can = has_room && (value_bytes != 0 || logged);
  if (logged && !has_room) return sizeof(std::uint64_t) + sizeof(IdentityTail);
  return can ? (key_bytes + 7) / 8 * 8 + static_cast<std::uint32_t>(sizeof(IdentityTail)) : 0;
}

struct Mirror {
  std::uint64_t* words = nullptr;
  std::uint8_t* tags = nullptr;
  std::byte* identities = nullptr;
  std::uint32_t identity_bytes = 0;
  std::uint32_t entry_bytes = 0;  // stride of the record cache
  std::byte* entries = nullptr;  // copies of whole records
  std::uint64_t* sources = nullptr;  // the place of each on PM, in kRecordAlign units
  std::uint32_t* uses = nullptr;  // by slot number: how often, or how lately, its record was got

  static constexpr std::uint64_t kCached = std::uint64_t{1} << 39;  // of the 40 bits that say where
  static constexpr std::uint64_t kEntryMask = kCached - 1;

  PERDURE_FN std::byte* identity(std::uint64_t slot) const {
    PERDURE_ASSERT(!kCostlyAssertions || identity_bytes > sizeof(IdentityTail));
    return identities + slot * identity_bytes;
  }
  PERDURE_FN IdentityTail* tail(std::uint64_t slot) const {
    return reinterpret_cast<IdentityTail*>(identity(slot) + identity_bytes - sizeof(IdentityTail));
  }

  /// Where identities have hashes.
  template <class W>
  PERDURE_FN std::uint64_t hash(std::uint64_t slot) const {
    return W::load(reinterpret_cast<std::uint64_t const*>(identity(slot)));
  }

  /// What is known of a slot's record; the rest of its identity is read after this.
  template <class W>
  PERDURE_FN std::uint32_t known(std::uint64_t slot) const {
    return identities == nullptr ? 0 : W::load(&tail(slot)->known);
  }

  template <class W>
  PERDURE_FN std::uint32_t value_sum(std::uint64_t slot) const {
    return W::load(&tail(slot)->value_sum);
  }

  template <class W>
  PERDURE_FN bool same_key(std::uint64_t slot, std::byte const* key, std::uint32_t bytes) const {
    auto const* const stored = reinterpret_cast<std::uint64_t const*>(identity(slot));
    for (std::uint32_t b = 0; b < bytes; b += 8)
      if (W::load(stored + b / 8) != hash_detail::load_tail(key + b, bytes - b)) return false;
    return true;
  }

  /// Whoever stores the slot's word; nobody reads this identity meanwhile.
  template <class W>
  PERDURE_FN void set(std::uint64_t slot, std::byte const* key, std::uint32_t bytes,
                      IdentityTail now) const {
    auto* const stored = reinterpret_cast<std::uint64_t*>(identity(slot));
    for (std::uint32_t b = 0; b < bytes; b += 8)
      W::store(stored + b / 8, hash_detail::load_tail(key + b, bytes - b));
    W::store(&tail(slot)->value_sum, now.value_sum);
    W::store(&tail(slot)->known, now.known);
  }

  /// A get that has read the record. Others read this identity meanwhile, so what is known is said
  /// last.
  template <class W>
  PERDURE_FN void learn(W& warp, std::uint64_t slot, std::byte const* key, std::uint32_t bytes,
                        IdentityTail now) const {
    set<W>(slot, key, bytes, {now.value_sum, 0});
    warp.fence();
    W::store(&tail(slot)->known, now.known);
  }

  template <class W>
  PERDURE_FN void forget(std::uint64_t slot) const {
    if (identities != nullptr) W::store(&tail(slot)->known, 0u);
  }
};

/// The tag of a slot word (or of a fingerprint in its place); never 0 for a word that is not empty.
PERDURE_FN std::uint8_t tag_of(std::uint64_t word, std::uint32_t address_bits) {
  if (word == 0) return 0;
  auto const tag = static_cast<std::uint8_t>(word >> address_bits);
  return tag == 0 ? 1 : tag;
}

/// Bit s: the row's tag s is `tag`. Rows begin at a multiple of their length.
PERDURE_FN std::uint32_t matching_tags(std::uint8_t const* row, std::uint32_t slots,
                                       std::uint8_t tag) {
  if (slots < 8) {
    std::uint32_t hits = 0;
    for (std::uint32_t s = 0; s < slots; ++s) hits |= std::uint32_t{row[s] == tag} << s;
    return hits;
  }
  constexpr std::uint64_t kLow = 0x0101010101010101u, kSeven = 0x7f7f7f7f7f7f7f7fu;
  std::uint32_t hits = 0;
  for (std::uint32_t s = 0; s < slots; s += 8) {
    std::uint64_t tags;
    memcpy(&tags, __builtin_assume_aligned(row + s, 8), 8);
    std::uint64_t const other = tags ^ kLow * tag;
    // 0x80 where a byte is 0
    std::uint64_t const zero = ~(((other & kSeven) + kSeven) | other | kSeven);
    // Byte k's bit comes to bit 56 + k.
    hits |= static_cast<std::uint32_t>((zero >> 7) * 0x0102040810204080u >> 56) << s;
  }
  return hits;
}

}  // namespace perdure::gphash
