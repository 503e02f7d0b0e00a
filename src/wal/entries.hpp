// The entry log, as kernels write it: what each operation of a batch did to the index, in 16 bytes
// for keys of up to 8, in 32 for keys of up to 24, in 48 for keys of up to 32; and of longer keys,
// and those of any length, by their hashes, in 32. Where this log is the durable index (layout
// `log`), nothing else of the index is durable.
//
//   segment   SegmentHeader (64 bytes) | cells, each as large as an entry ...
//   extent    ExtentHead (as many cells as it fills) | entry of operation 0 | ... | of n - 1
//
// An extent is what one batch came to. It may go on in the segments that follow. Entries lie where
// their operations stand in the batch, so no two of them contend for a cell; an operation that
// changed nothing has an entry of zeros. Batches of a transaction are parts, one behind the other,
// and a commit follows them.
//
// Invariants: an extent is there if its head and the sum of its entries match, and so it is there
// whole or not at all, by one ordering point; parts that no commit follows do not count, and
// nothing but parts and their commit is written behind one; a key has one entry in an extent at
// most; numbers of extents rise, and none is used twice. A device session's extent is there with
// its head, which is ordered before its first entry. Each entry counts by itself, once its `what`
// does: that is stored last. Of a key's entries there the last one counts. Nothing but the
// session's end is written behind it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "base/annotate.hpp"
#include "base/assert.hpp"
#include "base/hash.hpp"
#include "base/hooks.hpp"
#include "base/offset.hpp"
#include "pm/pool_format.hpp"
#include "pm/record.hpp"

namespace perdure::wal {

struct LogEntry {  // bytes
  std::uint64_t key;  //   0  its first 8 bytes; zeros behind shorter ones
  std::uint64_t what;  //   8  bits 0..39: the record's address / 16; above: pm::short_sum() of its
                       //      value's CRC-32C, or, where values have any length, of its own
                       //      checksum, which covers that length. kErases: the key is gone
};
/// Entries of longer keys go on with the rest of them, in as many of these as it takes.
struct KeyPart {
  std::uint64_t words[2];  // zeros behind the key
};
static_assert(offsetof(LogEntry, key) == 0 && offsetof(LogEntry, what) == 8);
static_assert(sizeof(LogEntry) == 16 && std::has_unique_object_representations_v<LogEntry>);
static_assert(sizeof(KeyPart) == sizeof(LogEntry));

inline constexpr std::uint32_t kMostEntryKey = pm::PoolHeader::kMostLoggedKey;
inline constexpr std::uint32_t kEntryAddressBits = 64 - pm::kShortSumBits;
inline constexpr std::uint64_t kEntryAddressMask = (std::uint64_t{1} << kEntryAddressBits) - 1;
inline constexpr std::uint64_t kErases = std::uint64_t{1} << kEntryAddressBits;  // and no address

/// Of keys that it has no room for. A table's slots are a set of pairs, a hash and a record; an
/// entry takes one of them out, where the key was there, and puts one in, unless it erases. So
/// pairs alone say what it changes: keys of equal hashes are never taken for one another, and to
/// replay it no record is looked at, which may have been written anew since.
struct HashCell {  // bytes
  std::uint64_t hash;  //   0  hash_bytes() of the key
  std::uint64_t what;  //   8  as LogEntry's; the sum is always of the record's checksum
  std::uint64_t old;  //  16  address of the record that it replaces or erases; 0: an insert
  std::uint64_t reserved;  //  24  zero
};
static_assert(offsetof(HashCell, hash) == 0 && offsetof(HashCell, what) == 8 &&
              offsetof(HashCell, old) == 16 && offsetof(HashCell, reserved) == 24);
static_assert(sizeof(HashCell) == 32 && std::has_unique_object_representations_v<HashCell>);

/// Of a log of such keys (0: of any length): an entry's size, and so a cell's.
PERDURE_FN constexpr std::uint32_t cell_bytes_for(std::uint32_t key_bytes) {
  constexpr auto kPart = static_cast<std::uint32_t>(sizeof(LogEntry));
  if (key_bytes == 0 || key_bytes > kMostEntryKey) return sizeof(HashCell);
  auto const all = static_cast<std::uint32_t>(sizeof(LogEntry::what)) + key_bytes;
  return (all + kPart - 1) / kPart * kPart;
}

/// An entry that is to be written; without a key it is zeros.
struct NewEntry {
  std::byte const* key = nullptr;
  std::uint32_t key_bytes = 0;
  std::uint64_t what = 0;

  [[nodiscard]] PERDURE_FN LogEntry first() const { return {key_word(0), what}; }
  /// Its bytes from there on, a multiple of 16 other than 0.
  [[nodiscard]] PERDURE_FN KeyPart part(std::uint32_t at) const {
    auto const from = at - static_cast<std::uint32_t>(sizeof(LogEntry::what));
    return {{key_word(from), key_word(from + 8)}};
  }

 private:
  [[nodiscard]] PERDURE_FN std::uint64_t key_word(std::uint32_t from) const {
    return from < key_bytes ? hash_detail::load_tail(key + from, key_bytes - from) : 0;
  }
};

/// LogEntry::what of a put; `value_sum`: short.
PERDURE_FN std::uint64_t putting(Offset record, std::uint32_t value_sum) {
  PERDURE_ASSERT(!kCostlyAssertions || (record && record.bytes % pm::kRecordAlign == 0));
  PERDURE_ASSERT(!kCostlyAssertions || record.bytes / pm::kRecordAlign <= kEntryAddressMask);
  PERDURE_ASSERT(!kCostlyAssertions || pm::short_sum(value_sum) == value_sum);
  return record.bytes / pm::kRecordAlign | std::uint64_t{value_sum} << kEntryAddressBits;
}
PERDURE_FN NewEntry put_entry(std::byte const* key, std::uint32_t key_bytes, Offset record,
                              std::uint32_t value_sum) {
  return {key, key_bytes, putting(record, value_sum)};
}
PERDURE_FN NewEntry erase_entry(std::byte const* key, std::uint32_t key_bytes) {
  return {key, key_bytes, kErases};
}

/// As NewEntry, of a key that an entry has no room for.
struct NewHashEntry {
  std::uint64_t hash = 0;
  std::uint64_t what = 0;
  Offset old;

  [[nodiscard]] PERDURE_FN LogEntry first() const { return {hash, what}; }
  [[nodiscard]] PERDURE_FN KeyPart part(std::uint32_t) const { return {{old.bytes, 0}}; }
};

/// The only entry of an undoable commit. What undoes its parts is in no extent's sum: this says
/// what it must add up to.
struct CommitEntry {
  std::uint64_t undo_number = 0;  // of the undo log's transaction, with pm::kEpochRevertible
  std::uint64_t undo_sum = 0;

  /// Not 0, so that the extent's sum covers both.
  [[nodiscard]] PERDURE_FN std::uint64_t sum_said() const { return undo_sum == 0 ? 1 : undo_sum; }
  [[nodiscard]] PERDURE_FN LogEntry first() const { return {undo_number, sum_said()}; }
  [[nodiscard]] PERDURE_FN KeyPart part(std::uint32_t) const { return {{0, 0}}; }
};

// Of LogEntry::what, whatever its kind; one of zeros says nothing.
PERDURE_FN constexpr bool says_put(std::uint64_t what) { return (what & kEntryAddressMask) != 0; }
PERDURE_FN constexpr bool says_erase(std::uint64_t what) { return what != 0 && !says_put(what); }
PERDURE_FN constexpr Offset record_of(std::uint64_t what) {
  return Offset{(what & kEntryAddressMask) * pm::kRecordAlign};
}
/// Whether HashCell::old can be an address; a damaged entry may say anything.
PERDURE_FN constexpr bool can_be_record(std::uint64_t old) {
  return old % pm::kRecordAlign == 0 && old / pm::kRecordAlign <= kEntryAddressMask;
}
PERDURE_FN constexpr std::uint32_t value_sum_of(std::uint64_t what) {
  return static_cast<std::uint32_t>(what >> kEntryAddressBits);
}

/// An entry's part of its extent's sum: of its first 16 bytes, and those from `at` on are part(at).
/// One of zeros has none.
template <class Part>
PERDURE_FN std::uint64_t sum_of_parts(LogEntry const& first, std::uint32_t cell_bytes, Part part) {
  if (first.what == 0) return 0;
  std::byte bytes[sizeof(std::uint64_t) + sizeof(KeyPart)];
  memcpy(bytes, &first, sizeof first);
  std::uint64_t sum = hash_bytes(bytes, sizeof first);
  if (mutated("entry_sum_without_rest")) return sum;
  for (std::uint32_t at = sizeof first; at < cell_bytes; at += sizeof(KeyPart)) {
    KeyPart const more = part(at);
    memcpy(bytes, &sum, sizeof sum);
    memcpy(bytes + sizeof sum, &more, sizeof more);
    sum += hash_bytes(bytes, sizeof bytes);
  }
  return sum;
}
template <class Entry>
  requires requires(Entry const& e) { e.first(); }
PERDURE_FN std::uint64_t sum_of(Entry const& entry, std::uint32_t cell_bytes) {
  return sum_of_parts(entry.first(), cell_bytes, [&](std::uint32_t at) { return entry.part(at); });
}
/// Of one that has been written.
PERDURE_FN std::uint64_t sum_of(std::byte const* cell, std::uint32_t cell_bytes) {
  LogEntry first;
  memcpy(&first, cell, sizeof first);
  return sum_of_parts(first, cell_bytes, [&](std::uint32_t at) {
    KeyPart part;
    memcpy(&part, cell + at, sizeof part);
    return part;
  });
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
  undoable_commit = 4,  // the same, of one that can be taken back: a CommitEntry
  session = 5,  // of a device session: cells that its kernels take one by one, zeros at first. It
                // counts as it stands: each entry that says something is there durably
  session_end = 6,  // no entries: the session directly before it is over
};
inline constexpr auto kLastExtentKind = static_cast<std::uint32_t>(ExtentKind::session_end);
PERDURE_FN constexpr bool is_commit(ExtentKind kind) {
  return kind == ExtentKind::commit || kind == ExtentKind::undoable_commit;
}

struct ExtentHead {  // bytes
  std::uint64_t number;  //   0  of the batch
  std::uint32_t entries;  //   8
  std::uint32_t kind;  //  12  ExtentKind
  std::uint64_t sum;  //  16  of sum_of() of all entries, but those that undo; of a commit, the
                      //      number of the undo log's transaction that it commits too, or 0; one
                      //      of an older build with pm::kEpochRevertible if it can be taken back;
                      //      of a session 0, and of its end what the session's entries came to
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
  std::uint32_t cell_bytes = 0;

  PERDURE_FN Offset cell(std::uint64_t operation) const;
};

/// Cells that an extent's head takes.
PERDURE_FN constexpr std::uint32_t head_cells_of(std::uint32_t cell_bytes) {
  return (static_cast<std::uint32_t>(sizeof(ExtentHead)) + cell_bytes - 1) / cell_bytes;
}
/// Whole ones, that a segment of so many bytes has.
constexpr std::uint64_t cells_in(std::uint64_t segment_bytes, std::uint32_t cell_bytes) {
  return (segment_bytes - sizeof(SegmentHeader)) / cell_bytes;
}

PERDURE_FN Offset cell_in(std::uint64_t segment, std::uint64_t cell, std::uint32_t cell_bytes) {
  return Offset{segment + sizeof(SegmentHeader) + cell * cell_bytes};
}

PERDURE_FN Offset EntryRegion::cell(std::uint64_t operation) const {
  PERDURE_ASSERT(!kCostlyAssertions || (segments != nullptr && cells_each > 0 && cell_bytes > 0));
  std::uint64_t const at = first + operation;
  PERDURE_ASSERT(!kCostlyAssertions || at <= ~std::uint32_t{0});
  auto const cell = static_cast<std::uint32_t>(at);  // divisions of 32 bits are the cheaper ones
  return cell_in(segments[cell / cells_each], cell % cells_each, cell_bytes);
}

/// Writes an operation's entry; ordered by whoever launches this.
template <class W, class M, class Entry>
PERDURE_FN void append_entry(W& warp, M& mem, EntryRegion const& region, std::uint64_t operation,
                             Entry const& entry) {
  Offset const cell = region.cell(operation);
  LogEntry const first = entry.first();
  mem.store_pair(warp, cell, first.key, first.what);
  if (mutated("entry_rest_skipped")) return;
  for (std::uint32_t at = sizeof first; at < region.cell_bytes; at += sizeof(KeyPart)) {
    KeyPart const part = entry.part(at);
    mem.store_pair(warp, cell + at, part.words[0], part.words[1]);
  }
}

template <class Entry>
struct CellRun {
  std::byte* to;
  Entry entry;

  [[nodiscard]] PERDURE_FN std::uint64_t word(std::uint32_t w) const {
    LogEntry const first = entry.first();
    if (w < 2) return w == 0 ? first.key : first.what;
    KeyPart const part = entry.part(w / 2 * static_cast<std::uint32_t>(sizeof(KeyPart)));
    return w % 2 == 0 ? part.words[0] : part.words[1];
  }
};

/// Those of the mask's lanes, cell(lane) each.
template <class W, class M, class Cell, class Entries>
PERDURE_FN void append_each(W& warp, M& mem, std::uint32_t mask, std::uint32_t cell_bytes,
                            Cell cell, Entries const& entry) {
  using Run = CellRun<std::remove_cvref_t<decltype(entry[0])>>;
  typename W::template Each<Run> runs;
  warp.each([&](std::uint32_t lane) {
    if ((mask >> lane & 1) != 0) runs[lane] = {mem.address(cell(lane)), entry[lane]};
  });
  constexpr auto kWord = static_cast<std::uint32_t>(sizeof(std::uint64_t));
  mem.store_runs(warp, mask, runs, cell_bytes / kWord,
                 [](Run const& run, std::uint32_t w) { return run.word(w); });
}

}  // namespace perdure::wal
