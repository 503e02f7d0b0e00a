// Where the records of a superblock lie. Records of any size lie whole, one after the other:
// header, key, value. Records that all have the same sizes lie split, in groups of kGroup: first
// their heads (checksum, sequence, key) side by side, then their values. Then a value of 128 bytes
// is one line of 128, which a GPU's link carries in one packet, and eight heads of 8-byte keys
// share another.
//
//   split group     head 0 | head 1 | ... | head 15 | value 0 | value 1 | ... | value 15
//
// Records of layout `log` whose values have one size are bare: values without heads, where the
// log's entries have their keys, too, and checksums. They count as split, with heads of no bytes.
//
// Where the pool's header says so, a superblock ends with a map, whole lines: bit i = record i is
// in use; bits past the last record are set. Records then begin at kFirstMapped.
//
// Invariant: a record's *place*, which slot words hold, is where its value begins if records lie
// split, else where its header begins; a multiple of kRecordAlign. Groups begin at multiples of
// kFirstRecord, and have a multiple of it, so values of 128 bytes never straddle a line.
#pragma once

#include <cstdint>

#include "base/annotate.hpp"
#include "base/assert.hpp"
#include "base/offset.hpp"
#include "pm/pool_format.hpp"

namespace perdure::pm {

PERDURE_FN constexpr std::uint64_t aligned_up(std::uint64_t bytes, std::uint64_t to) {
  return (bytes + to - 1) / to * to;
}

/// Divides numbers of 32 bits by one that is known for long, by a multiplication: a
/// record's head is found by two divisions, three times in a get. Exact, for the inverse is too
/// large by less than 2^-32 of what makes a whole.
class Divisor {
 public:
  Divisor() = default;
  explicit Divisor(std::uint32_t by) : inverse_(~std::uint64_t{0} / by + 1) {
    PERDURE_ASSERT(by > 1);
  }
  [[nodiscard]] PERDURE_FN std::uint32_t divides(std::uint32_t n) const {
    __extension__ using Wide = unsigned __int128;
    return static_cast<std::uint32_t>(static_cast<Wide>(inverse_) * n >> 64);
  }

 private:
  std::uint64_t inverse_ = 0;
};

/// Of a pool; plain data that travels to any machine.
struct RecordShape {
  std::uint64_t superblock_bytes = 0;  // a power of two
  std::uint32_t key_bytes = 0;  // that a record holds; split records only
  std::uint32_t value_bytes = 0;  // likewise
  std::uint32_t head_stride = 0;  // 0: they have no heads
  std::uint32_t value_stride = 0;  // 0: records lie whole
  Divisor by_group, by_value;  // group_bytes() and value_stride
  std::uint32_t first = kFirstRecord;  // where whole records begin
  bool maps = false;  // superblocks end with a map

  static constexpr std::uint32_t kGroup = 16;
  static constexpr std::uint32_t kMostSplit = 1024;  // bytes; longer records gain nothing

  RecordShape() = default;
  explicit RecordShape(PoolHeader const& h) : superblock_bytes(h.superblock_bytes) {
    maps = h.has_maps();
    if (maps) first = kFirstMapped;
    // A head has 32 bits of the sequence: too few where records are told apart by it.
    if (h.key_bytes == 0 || h.value_bytes == 0 || h.btree() || h.logs_hashes()) return;
    std::uint64_t const head = head_bytes(h), value = aligned_up(h.value_bytes, kRecordAlign);
    if (head + value > kMostSplit && !h.logged()) return;
    key_bytes = h.in_place() ? 0 : h.key_bytes;
    value_bytes = h.value_bytes;
    head_stride = static_cast<std::uint32_t>(head);
    value_stride = static_cast<std::uint32_t>(value);
    by_group = Divisor(group_bytes());
    by_value = Divisor(value_stride);
    PERDURE_ASSERT(group_bytes() % kFirstRecord == 0);  // so that values keep to their lines
  }

  [[nodiscard]] PERDURE_FN bool split() const { return value_stride != 0; }
  [[nodiscard]] PERDURE_FN bool bare() const { return split() && head_stride == 0; }
  [[nodiscard]] PERDURE_FN std::uint32_t split_stride() const { return head_stride + value_stride; }
  [[nodiscard]] PERDURE_FN std::uint32_t heads_bytes() const { return kGroup * head_stride; }
  [[nodiscard]] PERDURE_FN std::uint32_t group_bytes() const { return kGroup * split_stride(); }

  /// Records of `stride` bytes in a superblock; of split ones there is one stride.
  [[nodiscard]] PERDURE_FN std::uint64_t capacity(std::uint64_t stride) const {
    PERDURE_ASSERT(!kCostlyAssertions || (superblock_bytes > kFirstRecord && stride > 0));
    std::uint64_t const room = superblock_bytes - kFirstRecord;
    if (maps) return mapped_capacity(stride);
    return split() && !bare() ? room / group_bytes() * kGroup : room / stride;
  }
  /// The map of so many records.
  [[nodiscard]] PERDURE_FN static std::uint64_t map_bytes(std::uint64_t records) {
    return (records + 8 * kMapLine - 1) / (8 * kMapLine) * kMapLine;
  }
  /// Where it lies, within its superblock.
  [[nodiscard]] PERDURE_FN std::uint64_t map_address(std::uint64_t stride) const {
    return superblock_bytes - map_bytes(capacity(stride));
  }

  /// The place of record i, within its superblock.
  [[nodiscard]] PERDURE_FN std::uint64_t address(std::uint64_t stride, std::uint64_t i) const {
    PERDURE_ASSERT(!kCostlyAssertions || i < capacity(stride));
    if (!split()) return first + i * stride;
    return kFirstRecord + i / kGroup * group_bytes() + heads_bytes() + i % kGroup * value_stride;
  }

  /// Which record's address that is; false: no record's.
  [[nodiscard]] PERDURE_FN bool index(std::uint64_t stride, std::uint64_t inside,
                                      std::uint64_t& i) const {
    if (inside < first) return false;
    if (!split()) {
      i = (inside - first) / stride;
      return (inside - first) % stride == 0 && i < capacity(stride);
    }
    auto const from = static_cast<std::uint32_t>(inside - kFirstRecord);
    std::uint32_t const group = by_group.divides(from);
    std::uint32_t const within = from - group * group_bytes();
    if (within < heads_bytes()) return false;
    std::uint32_t const of_group = by_value.divides(within - heads_bytes());
    if (within - heads_bytes() != of_group * value_stride) return false;
    i = std::uint64_t{group} * kGroup + of_group;
    return i < capacity(stride);
  }

  /// Where the head of a split record is. Of what is no record's address: somewhere in its
  /// superblock.
  [[nodiscard]] PERDURE_FN Offset head(Offset at) const {
    PERDURE_ASSERT(!kCostlyAssertions || !bare());
    auto const inside = static_cast<std::uint32_t>(at.bytes & (superblock_bytes - 1));
    std::uint32_t const from =
        inside < kFirstRecord ? 0 : inside - static_cast<std::uint32_t>(kFirstRecord);
    std::uint32_t const within = from - by_group.divides(from) * group_bytes();
    std::uint32_t const i = within < heads_bytes() ? 0 : by_value.divides(within - heads_bytes());
    bool const fits = inside + std::uint64_t{group_bytes()} - within <= superblock_bytes;
    return Offset{at.bytes - inside + kFirstRecord + (fits ? from - within : 0) + i * head_stride};
  }

  /// Bytes from a record's address to its value, where keys are fixed.
  [[nodiscard]] PERDURE_FN std::uint32_t to_value(std::uint32_t fixed_key_bytes) const {
    return split() ? 0 : static_cast<std::uint32_t>(sizeof(RecordHeader)) + fixed_key_bytes;
  }

  /// The most bytes from one record's address to the next one's.
  [[nodiscard]] PERDURE_FN std::uint64_t reach(std::uint64_t most_whole) const {
    return split() ? heads_bytes() + value_stride : aligned_up(most_whole, kRecordAlign);
  }

 private:
  static constexpr std::uint64_t kMapLine = 64;

  static std::uint64_t head_bytes(PoolHeader const& h) {
    if (h.logged()) return 0;
    if (h.in_place()) return sizeof(RecordHead);
    return aligned_up(sizeof(RecordHead) + h.key_bytes, kRecordAlign);
  }

  [[nodiscard]] PERDURE_FN std::uint64_t mapped_capacity(std::uint64_t stride) const {
    std::uint64_t const room = superblock_bytes - first;
    std::uint64_t n = room * 8 / (stride * 8 + 1);
    while (n * stride + map_bytes(n) > room) --n;
    return n;
  }
};

/// Of a pool whose keys and values have fixed sizes: bytes a record takes.
inline std::uint64_t fixed_stride(PoolHeader const& h) {
  RecordShape const shape(h);
  if (shape.split()) return shape.split_stride();
  return aligned_up(sizeof(RecordHeader) + (h.in_place() ? 0 : h.key_bytes) + h.value_bytes,
                    kRecordAlign);
}

}  // namespace perdure::pm
