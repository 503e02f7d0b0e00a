// GPHash on the medium (GPHash section 3.1): levels of buckets, level i with 2^i of them, several
// adjacent levels live, H hash functions, S slots a bucket. Two slot layouts:
//
//   word      8 bytes a slot: fingerprint and place of the record, which holds the key. A row (one
//             bucket) is S words.
//             63        40 39                 0
//             | fingerprint | record place / 16 |   0 = empty; a fingerprint is never 0
//   in_place  as published: per level three arrays, each [bucket][slot]: state/fingerprint (8
//             bytes: 0 EMPTY, 1 INSERT, else the hash), key (key_bytes rounded up to 8; none for
//             variable keys), and the place of the record.
//
// A key's buckets of one level lie in one window of 2^kWindowBits: its first hash says which
// window, its other hashes where in it. So a batch in hash order walks every level in address order
// for all hashes, and the pages it touches stay in the TLB (of a CPU: 2 MiB a window) for their
// neighbours.
//
// While the table grows, one level more is there: the lowest, which retires. Its windows are
// *units*, which move one by one: keys of a unit that has not moved stand on the levels below the
// new top, all others on those above the retiring one. Windows nest, so a unit is a contiguous part
// of every level, and none shares a bucket with another.
//
// Invariant: lanes order candidates by (level from the top, hash, slot), so the lowest lane that
// matches is the valid one of duplicates (section 3.2.2).
#pragma once

#include <cstdint>

#include "base/annotate.hpp"
#include "base/assert.hpp"
#include "base/hash.hpp"
#include "base/hooks.hpp"
#include "base/offset.hpp"
#include "index/gphash/bucket_cache.hpp"
#include "index/gphash/mirror.hpp"
#include "pm/pool_format.hpp"
#include "pm/record.hpp"

namespace perdure::gphash {

inline constexpr std::uint32_t kMaxLevels = 32;  // of which keys may stand on
// buckets beyond 2^40 would run into the fingerprint's bits
inline constexpr std::uint32_t kMaxTop = 40;

struct Level {
  Offset base;
  std::uint64_t first_slot = 0;  // number of its first slot among all slots
  std::uint32_t log2_buckets = 0;
};

/// The same buckets, whatever numbers their slots have.
PERDURE_FN bool same_level(Level const& a, Level const& b) {
  return a.base == b.base && a.log2_buckets == b.log2_buckets;
}

/// What the algorithms need to know of a table; plain data that travels to any machine.
struct TableView {
  Level level[kMaxLevels + 1];  // highest first; behind them the retiring one, if there is one
  std::uint32_t* claims = nullptr;  // volatile, one bit a slot; see WordOps
  // volatile, one bit a unit; read only while a level retires
  std::uint32_t const* moved = nullptr;
  std::uint32_t* refused = nullptr;  // volatile, one bit a unit: some key of it found no room
  Mirror mirror;  // residency `mirrored` only
  pm::RecordShape records;
  BucketCache buckets;  // layout `in_place` with a cache only
  std::uint64_t pool_bytes = 0;
  std::uint32_t levels = 0;
  std::uint32_t retiring = 0;  // 1 = level[levels] retires
  // 2^unit_bits units, of the level that retires or will be the next to
  std::uint32_t unit_bits = 0;
  std::uint32_t hashes = 0;
  std::uint32_t slots = 0;
  std::uint32_t key_bytes = 0;  // fixed key size; 0 = variable
  std::uint32_t value_bytes = 0;
  std::uint32_t max_record = 0;  // bytes the largest record spans

  PERDURE_FN std::uint32_t all_levels() const { return levels + retiring; }
  PERDURE_FN Level const& retiring_level() const { return level[levels]; }

  /// The unit of keys with this first hash.
  PERDURE_FN std::uint64_t unit_of(std::uint64_t hash) const {
    return unit_bits == 0 ? 0 : hash >> (64 - unit_bits);
  }
  PERDURE_FN bool unit_moved(std::uint64_t unit) const {
    PERDURE_ASSERT(!kCostlyAssertions || unit >> unit_bits == 0);
    return (moved[unit / 32] >> (unit % 32) & 1) != 0;
  }

  /// Bytes a whole record at this place may span; 0 if no record can be there (a damaged pool says
  /// anything).
  PERDURE_FN std::uint64_t room(Offset record) const {
    if (record.bytes % pm::kRecordAlign != 0) return 0;
    std::uint64_t const left = record.bytes < pool_bytes ? pool_bytes - record.bytes : 0;
    return left < max_record ? left : max_record;
  }

  /// Whether a record can be at this place: then record() may read there.
  PERDURE_FN bool may_hold(Offset record) const {
    if (!records.split()) return room(record) >= sizeof(pm::RecordHeader);
    return record.bytes % pm::kRecordAlign == 0 && record.bytes >= records.superblock_bytes &&
           record.bytes < pool_bytes && pool_bytes - record.bytes >= records.value_bytes;
  }
  /// Of fixed sizes: whether all of it can.
  PERDURE_FN bool may_hold_all(Offset record) const {
    return records.split() ? may_hold(record) : room(record) >= max_record;
  }

  /// The record at a place that may_hold() one, as one access.
  template <class M>
  PERDURE_FN pm::RecordView record(M& mem, Offset at) const {
    (void)mem.read(at);
    return pm::view_record(mem.peek(Offset{0}), records, at, room(at));
  }

  template <class W, class M>
  PERDURE_FN void prefetch_record(W& warp, M& mem, Offset at, std::uint64_t value_most) const {
    if (records.split()) {
      mem.prefetch(warp, records.head(at), records.head_stride);
      mem.prefetch(warp, at, value_bytes < value_most ? value_bytes : value_most);
    } else {
      std::uint64_t const bytes = room(at), most = 64 + value_most;
      mem.prefetch(warp, at, bytes < most ? bytes : most);
    }
  }

  // Entries of the record cache: a value and its head, or a whole record.
  PERDURE_FN std::uint32_t entry_bytes() const {
    return records.split() ? records.split_stride() : max_record;
  }
  PERDURE_FN std::byte const* entry_value(std::byte const* entry) const {
    return entry + records.to_value(key_bytes);
  }
  PERDURE_FN std::byte const* entry_key(std::byte const* entry) const {
    return entry + (records.split() ? records.value_stride + sizeof(pm::RecordHead)
                                    : sizeof(pm::RecordHeader));
  }
  PERDURE_FN pm::RecordView entry(std::byte const* entry) const {
    return records.split() ? pm::view_split(records, entry + records.value_stride, entry)
                           : pm::view_whole(entry, max_record);
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

#if defined(PERDURE_EXPLORE)
// so that small tables have several units
inline thread_local std::uint32_t explored_window_bits = kWindowBits;
inline std::uint32_t window_bits() { return explored_window_bits; }
#else
PERDURE_FN constexpr std::uint32_t window_bits() { return kWindowBits; }
#endif

/// A key's candidate buckets. Group g of lanes is the key's level g / H, hash g % H.
template <class Shape>
struct Candidates {
  std::uint64_t hash[Shape::kMaxHashes];
  std::uint32_t first_level;  // 1 of a key whose unit has not moved yet

  Candidates() = default;
  PERDURE_FN Candidates(TableView const& t, std::uint64_t key_hash) { set(t, key_hash); }
  PERDURE_FN void set(TableView const& t, std::uint64_t key_hash) {
    set_moved(t, key_hash);
    first_level = t.retiring != 0 && !t.unit_moved(t.unit_of(key_hash)) ? 1 : 0;
    if (mutated("unmoved_key_in_new_levels")) first_level = 0;
  }
  /// As if the key's unit had moved: where a growth brings it.
  PERDURE_FN void set_moved(TableView const& t, std::uint64_t key_hash) {
    for (std::uint32_t n = 0; n < Shape::hashes(t); ++n) hash[n] = nth_hash(key_hash, n);
    first_level = 0;
  }

  PERDURE_FN static std::uint32_t groups(TableView const& t) {
    return Shape::levels(t) * Shape::hashes(t);
  }

  /// Top bits of the first hash address its bucket, so hash order is address order on every level.
  PERDURE_FN std::uint64_t bucket(TableView const& t, std::uint32_t group) const {
    PERDURE_ASSERT(!kCostlyAssertions || group < groups(t));
    std::uint32_t const bits = level(t, group).log2_buckets;
    std::uint32_t const n = group % Shape::hashes(t);
    if (bits == 0) return 0;
    if (n == 0 || bits <= window_bits()) return hash[n] >> (64 - bits);
    std::uint64_t const window = hash[0] >> (64 - (bits - window_bits()));
    return window << window_bits() | hash[n] >> (64 - window_bits());
  }

  /// Number of the group's first slot within its level.
  PERDURE_FN std::uint64_t slot_in_level(TableView const& t, std::uint32_t group) const {
    return bucket(t, group) * Shape::slots(t);
  }

  /// Chosen among two, not looked up: of a view that travels as a kernel's argument, known places
  /// stay in registers.
  PERDURE_FN Level level(TableView const& t, std::uint32_t group) const {
    std::uint32_t const l = group / Shape::hashes(t);
    PERDURE_ASSERT(!kCostlyAssertions || first_level + l < t.all_levels());
    return first_level == 0 ? t.level[l] : t.level[l + 1];
  }

  /// Where the 8-byte words of the group's row begin: slot words, or states in `in_place`.
  PERDURE_FN Offset row(TableView const& t, std::uint32_t group) const {
    return level(t, group).base + slot_in_level(t, group) * 8;
  }

  PERDURE_FN Offset slot(TableView const& t, std::uint32_t lane) const {
    return row(t, lane / Shape::slots(t)) + (lane % Shape::slots(t)) * 8;
  }

  /// Number of the lane's slot among all slots.
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
      for (std::uint32_t n = 1; n <= g % Shape::hashes(t); ++n)
        repeats |= bucket(t, g) == bucket(t, g - n);
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
  PERDURE_ASSERT(!kCostlyAssertions || record.bytes / pm::kRecordAlign <= kPlaceMask);
  return fingerprint(hash) | record.bytes / pm::kRecordAlign;
}
PERDURE_FN Offset record(std::uint64_t word) {
  return Offset{(word & kPlaceMask) * pm::kRecordAlign};
}
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
PERDURE_FN std::uint64_t level_bytes(bool layout_in_place, std::uint32_t key_bytes,
                                     std::uint32_t slots, std::uint32_t log2_buckets) {
  std::uint64_t const a_slot = layout_in_place ? 16 + in_place::key_stride(key_bytes) : 8;
  return (std::uint64_t{slots} << log2_buckets) * a_slot;
}

}  // namespace perdure::gphash
