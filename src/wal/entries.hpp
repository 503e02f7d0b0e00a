// The entry log, as kernels write it: what each operation of a batch did to the index, in 16 bytes.
// Where this log is the durable index (layout `log`), nothing else of the index is durable.
//
//   segment   SegmentHeader (4 cells) | cells of 16 bytes ...
//   extent    ExtentHead (2 cells) | entry of operation 0 | ... | entry of operation n - 1
//
// An extent is what one batch came to. It may go on in the segments that follow. Entries lie where
// their operations stand in the batch, so no two of them contend for a cell; an operation that
// changed nothing has an entry of zeros. Batches of a transaction are parts, one behind the other,
// and a commit follows them.
//
// Invariants: an extent is there if its head and the sum of its entries match, and so it is there
// whole or not at all, by one ordering point; parts that no commit follows do not count, and
// nothing but parts and their commit is written behind one; a key has one entry in an extent at
// most; numbers of extents rise, and none is used twice.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "base/annotate.hpp"
#include "base/assert.hpp"
#include "base/hash.hpp"
#include "base/offset.hpp"
#include "pm/pool_format.hpp"
#include "pm/record.hpp"

namespace perdure::wal {

struct LogEntry {  // bytes
  std::uint64_t key;  //   0  zeros behind it
  std::uint64_t what;  //   8  bits 0..39: the value's address / 16; above: pm::short_sum() of its
                       //      CRC-32C. kErases: the key is gone
};
static_assert(offsetof(LogEntry, key) == 0 && offsetof(LogEntry, what) == 8);
static_assert(sizeof(LogEntry) == 16 && std::has_unique_object_representations_v<LogEntry>);

inline constexpr std::uint32_t kMostEntryKey = sizeof(LogEntry::key);  // bytes
inline constexpr std::uint32_t kEntryAddressBits = 64 - pm::kShortSumBits;
inline constexpr std::uint64_t kEntryAddressMask = (std::uint64_t{1} << kEntryAddressBits) - 1;
inline constexpr std::uint64_t kErases = std::uint64_t{1} << kEntryAddressBits;  // and no address

/// `value_sum`: short.
PERDURE_FN LogEntry put_entry(std::byte const* key, std::uint32_t key_bytes, Offset record,
                              std::uint32_t value_sum) {
  PERDURE_ASSERT(!kCostlyAssertions || (record && record.bytes % pm::kRecordAlign == 0));
  PERDURE_ASSERT(!kCostlyAssertions || record.bytes / pm::kRecordAlign <= kEntryAddressMask);
  PERDURE_ASSERT(!kCostlyAssertions || pm::short_sum(value_sum) == value_sum);
  return {hash_detail::load_tail(key, key_bytes),
          record.bytes / pm::kRecordAlign | std::uint64_t{value_sum} << kEntryAddressBits};
}
PERDURE_FN LogEntry erase_entry(std::byte const* key, std::uint32_t key_bytes) {
  return {hash_detail::load_tail(key, key_bytes), kErases};
}

// Of LogEntry::what, whatever its kind; one of zeros says nothing.
PERDURE_FN constexpr bool says_put(std::uint64_t what) { return (what & kEntryAddressMask) != 0; }
PERDURE_FN constexpr bool says_erase(std::uint64_t what) { return what != 0 && !says_put(what); }
PERDURE_FN constexpr Offset record_of(std::uint64_t what) {
  return Offset{(what & kEntryAddressMask) * pm::kRecordAlign};
}
PERDURE_FN constexpr std::uint32_t value_sum_of(std::uint64_t what) {
  return static_cast<std::uint32_t>(what >> kEntryAddressBits);
}

/// An entry's part of its extent's sum. One of zeros has none.
PERDURE_FN std::uint64_t sum_of(LogEntry const& entry) {
  if (entry.what == 0) return 0;
  std::byte bytes[sizeof entry];
  memcpy(bytes, &entry, sizeof entry);
  return hash_bytes(bytes, sizeof entry);
}

/// A superblock of the log begins with it.
struct SegmentHeader {  // bytes
  std::uint32_t magic;  //   0
  std::uint32_t crc;  //   4  CRC-32C of all 64 bytes, with 0 for itself and for `next`
  std::uint64_t log_id;  //   8  random, of the whole log
  std::uint64_t number;  //  16  one more than that of the segment before
  std::uint64_t next;  //  24  where the segment after it begins; 0 = there is none
  std::uint8_t reserved[32];  //  32  zero
};
inline constexpr std::uint32_t kSegmentMagic = 0x4c565250u;  // "PRVL"
static_assert(offsetof(SegmentHeader, magic) == 0 && offsetof(SegmentHeader, crc) == 4 &&
              offsetof(SegmentHeader, log_id) == 8 && offsetof(SegmentHeader, number) == 16 &&
              offsetof(SegmentHeader, next) == 24 && offsetof(SegmentHeader, reserved) == 32);
static_assert(sizeof(SegmentHeader) == 64 &&
              std::has_unique_object_representations_v<SegmentHeader>);

/// What an extent holds.
enum class ExtentKind : std::uint32_t {
  batch = 0,  // what a batch of writes did
  copy = 1,  // entries that stand further up, written again so that those can go
  part = 2,  // what a batch of a transaction did: counts with its commit. Behind its entries as
             // many follow that undo them, for the process that wrote them alone
  commit = 3,  // no entries: the parts directly before it count
};
inline constexpr auto kLastExtentKind = static_cast<std::uint32_t>(ExtentKind::commit);

struct ExtentHead {  // bytes
  std::uint64_t number;  //   0  of the batch
  std::uint32_t entries;  //   8
  std::uint32_t kind;  //  12  ExtentKind
  std::uint64_t sum;  //  16  of sum_of() of all entries, but those that undo; of a commit, the
                      //      number of the undo log's transaction that it commits too, or 0
  std::uint64_t check;  //  24  hash_bytes() of the 24 bytes before it and the log's id
};
static_assert(offsetof(ExtentHead, number) == 0 && offsetof(ExtentHead, entries) == 8 &&
              offsetof(ExtentHead, kind) == 12 && offsetof(ExtentHead, sum) == 16 &&
              offsetof(ExtentHead, check) == 24);
static_assert(sizeof(ExtentHead) == 32 && std::has_unique_object_representations_v<ExtentHead>);

/// Where the entries of one extent go.
struct EntryRegion {
  std::uint64_t const* segments = nullptr;  // machine memory: where each begins in the pool
  std::uint64_t first = 0;  // operation 0's cell, counted from cell 0 of the first of them
  std::uint32_t cells_each = 0;  // of a segment

  PERDURE_FN Offset cell(std::uint64_t operation) const;
};

inline constexpr std::uint64_t kCellBytes = sizeof(LogEntry);
inline constexpr std::uint64_t kHeaderCells = sizeof(SegmentHeader) / kCellBytes;
inline constexpr std::uint64_t kHeadCells = sizeof(ExtentHead) / kCellBytes;

PERDURE_FN Offset cell_in(std::uint64_t segment, std::uint64_t cell) {
  return Offset{segment + (kHeaderCells + cell) * kCellBytes};
}

PERDURE_FN Offset EntryRegion::cell(std::uint64_t operation) const {
  PERDURE_ASSERT(!kCostlyAssertions || (segments != nullptr && cells_each > 0));
  std::uint64_t const at = first + operation;
  PERDURE_ASSERT(!kCostlyAssertions || at <= ~std::uint32_t{0});
  auto const cell = static_cast<std::uint32_t>(at);  // divisions of 32 bits are the cheaper ones
  return cell_in(segments[cell / cells_each], cell % cells_each);
}

/// Writes an operation's entry; ordered by whoever launches this.
template <class W, class M>
PERDURE_FN void append_entry(W& warp, M& mem, EntryRegion const& region, std::uint64_t operation,
                             LogEntry const& entry) {
  mem.store_pair(warp, region.cell(operation), entry.key, entry.what);
}

}  // namespace perdure::wal
