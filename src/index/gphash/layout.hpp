// GPHash on the medium (GPHash section 3.1): levels of buckets, level i with 2^i of them, several
// adjacent levels live, H hash functions, S slots a bucket. Two slot layouts:
//
//   word      8 bytes a slot: fingerprint and place of the record, which holds the key. A row (one
//             bucket) is S words.
//             63        40 39                 0
//             | fingerprint | record place / 16 |     0 = empty; a fingerprint is never 0
//   in_place  as published: per level three arrays, each [bucket][slot]:
//             state/fingerprint (8 bytes: 0 EMPTY, 1 INSERT, else the hash), key (key_bytes rounded
//             up to 8; none for variable keys), and the place of the record.
//
// A key's buckets of one level lie in one window of 2^kWindowBits: its first hash says which window,
// its other hashes where in it. So a batch in hash order walks every level in address order for all
// hashes, and the pages it touches stay in the TLB (of a CPU: 2 MiB a window) for their neighbours.
//
// Invariant: lanes order candidates by (level from the top, hash, slot), so the lowest lane that
// matches is the valid one of duplicates (section 3.2.2).
#pragma once

#include <cstdint>

#include "base/annotate.hpp"
#include "base/hash.hpp"
#include "base/offset.hpp"
#include "index/gphash/bucket_cache.hpp"
#include "index/gphash/mirror.hpp"
#include "pm/format.hpp"

namespace perdure::gphash {

struct Level {
  Offset base;
  std::uint64_t first_slot = 0;  // number of its first slot among all live slots
  std::uint32_t log2_buckets = 0;
};

/// What the algorithms need to know of a table; plain data that travels to any machine.
struct TableView {
  Level level[pm::kMaxLevels];   // highest first
  std::uint32_t* claims = nullptr;  // volatile, one bit a slot; see WordOps
  Mirror mirror;                    // residency `mirrored` only
  BucketCache buckets;              // layout `in_place` with a cache only
  std::uint64_t pool_bytes = 0;
  std::uint32_t levels = 0;
  std::uint32_t hashes = 0;
  std::uint32_t slots = 0;
  std::uint32_t key_bytes = 0;   // fixed key size; 0 = variable
  std::uint32_t value_bytes = 0;
  std::uint32_t max_record = 0;  // bytes the largest record spans

  /// Bytes a record at this place may span; 0 if no record can be there (a damaged pool says anything).
  PERDURE_FN std::uint64_t room(Offset record) const {
    if (record.bytes % pm::kRecordAlign != 0) return 0;
    std::uint64_t const left = record.bytes < pool_bytes ? pool_bytes - record.bytes : 0;
    return left < max_record ? left : max_record;
  }
};

/// The default shape, known to the compiler, so that its loops unroll into a few vectors.
struct Shape228 {
  static constexpr std::uint32_t kMaxHashes = 2;
  PERDURE_FN static constexpr std::uint32_t levels(TableView const&) { return 2; }
  PERDURE_FN static constexpr std::uint32_t hashes(TableView const&) { return 2; }
  PERDURE_FN static constexpr std::uint32_t slots(TableView const&) { return 8; }
};

struct ShapeAny {
  static constexpr std::uint32_t kMaxHashes = 32;
  PERDURE_FN static std::uint32_t levels(TableView const& t) { return t.levels; }
  PERDURE_FN static std::uint32_t hashes(TableView const& t) { return t.hashes; }
  PERDURE_FN static std::uint32_t slots(TableView const& t) { return t.slots; }
};

/// Fills vary by the square root of the slots in a window: 0.2 % for 2^15 buckets of 8.
inline constexpr std::uint32_t kWindowBits = 15;

/// A key's candidate buckets. Group g of lanes is level g / H, hash g % H.
template <class Shape>
struct Candidates {
  std::uint64_t hash[Shape::kMaxHashes];

  Candidates() = default;
  PERDURE_FN Candidates(TableView const& t, std::uint64_t key_hash) { set(t, key_hash); }
  PERDURE_FN void set(TableView const& t, std::uint64_t key_hash) {
    for (std::uint32_t n = 0; n < Shape::hashes(t); ++n) hash[n] = nth_hash(key_hash, n);
  }

  PERDURE_FN static std::uint32_t groups(TableView const& t) { return Shape::levels(t) * Shape::hashes(t); }

  /// Top bits of the first hash address its bucket, so hash order is address order on every level.
  PERDURE_FN std::uint64_t bucket(TableView const& t, std::uint32_t group) const {
    std::uint32_t const bits = t.level[group / Shape::hashes(t)].log2_buckets;
    std::uint32_t const n = group % Shape::hashes(t);
    if (bits == 0) return 0;
    if (n == 0 || bits <= kWindowBits) return hash[n] >> (64 - bits);
    std::uint64_t const window = hash[0] >> (64 - (bits - kWindowBits));
    return window << kWindowBits | hash[n] >> (64 - kWindowBits);
  }

  /// Number of the group's first slot within its level.
  PERDURE_FN std::uint64_t slot_in_level(TableView const& t, std::uint32_t group) const {
    return bucket(t, group) * Shape::slots(t);
  }

  PERDURE_FN Level const& level(TableView const& t, std::uint32_t group) const {
    return t.level[group / Shape::hashes(t)];
  }

  /// Where the 8-byte words of the group's row begin: slot words, or states in `in_place`.
  PERDURE_FN Offset row(TableView const& t, std::uint32_t group) const {
    return level(t, group).base + slot_in_level(t, group) * 8;
  }

  PERDURE_FN Offset slot(TableView const& t, std::uint32_t lane) const {
    return row(t, lane / Shape::slots(t)) + (lane % Shape::slots(t)) * 8;
  }

  /// Number of the lane's slot among all live slots.
  PERDURE_FN std::uint64_t slot_number(TableView const& t, std::uint32_t lane) const {
    std::uint32_t const group = lane / Shape::slots(t);
    return level(t, group).first_slot + slot_in_level(t, group) + lane % Shape::slots(t);
  }

  /// Lanes that are no repetition of an earlier group (two hashes may meet in one bucket).
  PERDURE_FN std::uint32_t distinct_lanes(TableView const& t) const {
    std::uint32_t const slots = Shape::slots(t);
    std::uint32_t const row_mask = slots == 32 ? ~0u : (1u << slots) - 1;
    std::uint32_t lanes = 0;
    for (std::uint32_t g = 0; g < groups(t); ++g) {
      bool repeats = false;
      for (std::uint32_t n = 1; n <= g % Shape::hashes(t); ++n) repeats |= bucket(t, g) == bucket(t, g - n);
      if (!repeats) lanes |= row_mask << (g * slots);
    }
    return lanes;
  }
};

namespace word {
inline constexpr std::uint32_t kPlaceBits = 40;
inline constexpr std::uint64_t kPlaceMask = (std::uint64_t{1} << kPlaceBits) - 1;
inline constexpr std::uint64_t kEmpty = 0;

PERDURE_FN std::uint64_t fingerprint(std::uint64_t hash) {
  std::uint64_t const low = hash & 0xffffffu;  // bucket numbers use the top bits
  return (low == 0 ? 1 : low) << kPlaceBits;
}
PERDURE_FN std::uint64_t make(std::uint64_t hash, Offset record) {
  return fingerprint(hash) | record.bytes / pm::kRecordAlign;
}
PERDURE_FN Offset record(std::uint64_t word) { return Offset{(word & kPlaceMask) * pm::kRecordAlign}; }
}  // namespace word

namespace in_place {
inline constexpr std::uint64_t kEmpty = 0;
inline constexpr std::uint64_t kInsert = 1;

/// The two states are taken out of the hash's range, not out of the users' keys.
PERDURE_FN std::uint64_t fingerprint(std::uint64_t hash) { return hash < 2 ? hash + 2 : hash; }
PERDURE_FN std::uint32_t key_stride(std::uint32_t key_bytes) { return (key_bytes + 7) / 8 * 8; }

PERDURE_FN std::uint64_t level_slots(Level const& level, std::uint32_t slots) {
  return (std::uint64_t{1} << level.log2_buckets) * slots;
}
PERDURE_FN Offset key(TableView const& t, Level const& level, std::uint64_t slot) {
  return level.base + level_slots(level, t.slots) * 8 + slot * key_stride(t.key_bytes);
}
PERDURE_FN Offset place(TableView const& t, Level const& level, std::uint64_t slot) {
  return level.base + level_slots(level, t.slots) * (8 + key_stride(t.key_bytes)) + slot * 8;
}
}  // namespace in_place

/// Bytes a level takes. `layout_in_place` and key_bytes as above.
PERDURE_FN std::uint64_t level_bytes(bool layout_in_place, std::uint32_t key_bytes, std::uint32_t slots,
                                     std::uint32_t log2_buckets) {
  std::uint64_t const a_slot = layout_in_place ? 16 + in_place::key_stride(key_bytes) : 8;
  return (std::uint64_t{slots} << log2_buckets) * a_slot;
}

}  // namespace perdure::gphash
