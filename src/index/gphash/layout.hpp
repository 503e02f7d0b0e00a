// GPHash on the medium (GPHash section 3.1): levels of buckets, level i with 2^i of them, several
// adjacent levels live, H hash functions, S slots a bucket. Two slot layouts:
//
//   word      8 bytes a slot: fingerprint and address of the record, which holds the key. A row
//   (one
//             bucket) is S words.
//             63        40 39                 0
//             | fingerprint | record address / 16 |   0 = empty; a fingerprint is never 0
//   in_place  as published: per level three arrays, each [bucket][slot]: state/fingerprint (8
//             bytes: 0 EMPTY, 1 INSERT, else the hash), key (key_bytes rounded up to 8; none for
//             variable keys), and the address of the record.
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
    PERDURE_ASSERT(!kCostlyAssertions || !records.bare());
    (void)mem.read(at);
    return pm::view_record(mem.peek(Offset{0}), records, at, room(at));
  }

  /// Its value; of layout `log` there is nothing else.
  template <class M>
  PERDURE_FN std::byte const* value_of(M& mem, Offset at) const {
    return records.bare() ? mem.read(at) : record(mem, at).value;
  }

  template <class W, class M>
  PERDURE_FN void prefetch_record(W& warp, M& mem, Offset at, std::uint64_t value_most) const {
    if (records.split()) {
      if (!records.bare()) mem.prefetch(warp, records.head(at), records.head_stride);
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

namespace word {
inline constexpr std::uint32_t kAddressBits = 40;
inline constexpr std::uint64_t kAddressMask = (std::uint64_t{1} << kAddressBits) - 1;
inline constexpr std::uint64_t kEmpty = 0;

PERDURE_FN std::uint64_t fingerprint(std::uint64_t hash) {
  std::uint64_t const low = hash & 0xffffffu;  // bucket numbers use the top bits
  return (low == 0 ? 1 : low) << kAddressBits;
}
PERDURE_FN std::uint64_t make(std::uint64_t hash, Offset record) {
  PERDURE_ASSERT(!kCostlyAssertions || record.bytes / pm::kRecordAlign <= kAddressMask);
  return fingerprint(hash) | record.bytes / pm::kRecordAlign;
}
PERDURE_FN Offset record(std::uint64_t word) {
  return Offset{(word & kAddressMask) * pm::kRecordAlign};
}
/// A mirror's word, with the address of its record where that is in the cache.
PERDURE_FN std::uint64_t on_pm(Mirror const& mirror, std::uint64_t word) {
  if ((word & Mirror::kCached) == 0) return word;
  return (word & ~kAddressMask) | mirror.sources[word & Mirror::kEntryMask];
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
PERDURE_FN Offset address(TableView const& t, Level const& level, std::uint64_t slot) {
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
