// The pool file's own structures. docs/format.md draws them. Little-endian; every struct is free of
// padding, and reserved bytes are zero and covered by the checksum.
//
//   superblock 0   PoolHeader | Root A | Root B | epoch, ClosingNote, change word, log word |
//                  RepairNote and its lines | unused
//   superblock k   of a run that an entry of the root names, a heap superblock (it begins with a
//                  SuperblockHeader), or free
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <type_traits>

namespace perdure::pm {

inline constexpr std::array<char, 8> kPoolMagic{'P', 'E', 'R', 'D', 'U', 'R', 'E', '\n'};
inline constexpr std::uint32_t kFormatVersion = 4;  // older ones: older_format.hpp
inline constexpr std::uint64_t kHeaderOffset = 0;
inline constexpr std::uint64_t kRootOffset[2] = {4096, 8192};
// 8 bytes: number of the last transaction that ended, and whether it can be taken back
inline constexpr std::uint64_t kEpochOffset = 12288;
inline constexpr std::uint64_t kEpochRevertible = std::uint64_t{1} << 63;
inline constexpr std::uint64_t kClosingNoteOffset = kEpochOffset + 64;  // a line of its own
// 8 bytes, of no close: changes.hpp
inline constexpr std::uint64_t kChangeWordOffset = kClosingNoteOffset + 64;
// 8 bytes, of no close either: log_word.hpp
inline constexpr std::uint64_t kLogWordOffset = kChangeWordOffset + 64;
// header, both roots, epoch and closing note: a page each
inline constexpr std::uint64_t kHeadBytes = 4 * 4096;
inline constexpr std::uint64_t kRepairNoteOffset = kHeadBytes;
inline constexpr std::uint32_t kMaxRootEntries = 64;
inline constexpr std::uint64_t kMinSuperblock = 1u << 20;
inline constexpr std::uint64_t kMaxSuperblock = 4u << 20;
/// What a pool may have, and of the text of a repair's note the most. The explorer's are smaller,
/// where it looks at all that is in a pool.
#if defined(PERDURE_EXPLORE)
inline constexpr std::uint64_t kLeastSuperblock = 32u << 10;
inline constexpr std::uint32_t kMostRepairText = 8u << 10;
#else
inline constexpr std::uint64_t kLeastSuperblock = kMinSuperblock;
inline constexpr std::uint32_t kMostRepairText = 64u << 10;
#endif

/// Constant after creation.
struct PoolHeader {  // bytes
  std::array<char, 8> magic;  //   0
  std::uint32_t format_version;  //   8
  std::uint32_t hash_id;  //  12  which hash places the keys
  std::array<std::uint8_t, 16> pool_id;  //  16  random
  std::uint64_t created_unix_s;  //  32
  std::uint64_t superblock_bytes;  //  40
  std::uint64_t max_bytes;  //  48  0 = no limit of its own
  std::uint32_t key_bytes;  //  56  0 = variable
  std::uint32_t value_bytes;  //  60  0 = variable
  std::uint32_t max_key_bytes;  //  64
  std::uint32_t max_value_bytes;  //  68
  std::uint8_t layout;  //  72  perdure::Layout
  std::uint8_t durability;  //  73  perdure::Durability
  std::uint8_t levels;  //  74
  std::uint8_t hashes;  //  75
  std::uint8_t slots;  //  76
  std::uint8_t index;  //  77  perdure::Index
  std::uint8_t value_kind;  //  78  perdure::ValueKind; 0 = bytes, and so the next three
  std::uint8_t element_bytes;  //  79  of an element of a value
  std::uint32_t extents[8];  //  80  of a value; those from value_rank on are 0
  std::uint8_t value_rank;  // 112  how many extents
  std::uint8_t key_order;  // 113  perdure::KeyOrder; other than 0 with index btree alone
  std::uint8_t persist;  // 114  perdure::Persist; other than 0 with index btree alone
  std::uint8_t reserved[9];  // 115  zero
  std::uint32_t crc;  // 124  CRC-32C of bytes 0..123

  /// Layout in_place: keys of a fixed length stand in the slots, and not in the records.
  [[nodiscard]] constexpr bool in_place() const { return layout == 1; }
  /// Layout log: the index is durable as a log of entries (wal/entries.hpp), and has no levels
  /// here.
  [[nodiscard]] constexpr bool logged() const { return layout == 2; }
  /// Layout log: keys that an entry has no room for; it has their hashes, and records lie whole.
  static constexpr std::uint32_t kMostLoggedKey = 32;  // bytes
  [[nodiscard]] constexpr bool logs_hashes() const {
    return logged() && (key_bytes == 0 || key_bytes > kMostLoggedKey);
  }
  /// Index btree: records lie whole, and headers of superblocks are never half there.
  [[nodiscard]] constexpr bool btree() const { return index == 3; }
  /// Nothing of the index is durable, so records say themselves whether they count
  /// (sequenced_record.hpp).
  [[nodiscard]] constexpr bool records_alone() const { return btree() && persist == 0; }
  /// Persist::full: which records are in use is durable, too (record_shape.hpp).
  [[nodiscard]] constexpr bool has_maps() const { return btree() && persist == 2; }
};
static_assert(offsetof(PoolHeader, magic) == 0 && offsetof(PoolHeader, format_version) == 8 &&
              offsetof(PoolHeader, hash_id) == 12 && offsetof(PoolHeader, pool_id) == 16 &&
              offsetof(PoolHeader, created_unix_s) == 32 &&
              offsetof(PoolHeader, superblock_bytes) == 40 &&
              offsetof(PoolHeader, max_bytes) == 48 && offsetof(PoolHeader, key_bytes) == 56 &&
              offsetof(PoolHeader, value_bytes) == 60 &&
              offsetof(PoolHeader, max_key_bytes) == 64 &&
              offsetof(PoolHeader, max_value_bytes) == 68 && offsetof(PoolHeader, layout) == 72 &&
              offsetof(PoolHeader, durability) == 73 && offsetof(PoolHeader, levels) == 74 &&
              offsetof(PoolHeader, hashes) == 75 && offsetof(PoolHeader, slots) == 76 &&
              offsetof(PoolHeader, index) == 77 && offsetof(PoolHeader, value_kind) == 78 &&
              offsetof(PoolHeader, element_bytes) == 79 && offsetof(PoolHeader, extents) == 80 &&
              offsetof(PoolHeader, value_rank) == 112 && offsetof(PoolHeader, key_order) == 113 &&
              offsetof(PoolHeader, persist) == 114 && offsetof(PoolHeader, reserved) == 115 &&
              offsetof(PoolHeader, crc) == 124);
static_assert(sizeof(PoolHeader) == 128);
static_assert(std::has_unique_object_representations_v<PoolHeader>);

/// Something that a pool has one of: where it lies, and a number. What they mean is known where the
/// entry is read: there the name stands, too.
struct RootEntry {  // bytes
  std::array<char, 16> name;  //   0  zeros after it, one at least
  std::uint64_t offset;  //  16  in the file; 0 = it lies nowhere
  std::uint64_t value;  //  24

  [[nodiscard]] std::string_view text() const;  // the name
};
static_assert(offsetof(RootEntry, name) == 0 && offsetof(RootEntry, offset) == 16 &&
              offsetof(RootEntry, value) == 24);
static_assert(sizeof(RootEntry) == 32);
static_assert(std::has_unique_object_representations_v<RootEntry>);

/// What changes as a whole: a directory of named entries. Two copies; the valid one with the higher
/// sequence counts, so a torn write of one leaves the other. Only entries in use are written, and
/// what lies behind them in the file means nothing. Invariants: each name is there once; entries
/// that are not in use are zero in memory.
struct Root {  // bytes
  std::uint64_t sequence;  //   0
  std::uint64_t superblocks;  //   8  that the file holds
  std::uint32_t clean;  //  16  1 = closed in order
  std::uint32_t entries;  //  20  in use
  std::uint32_t reserved;  //  24  zero
  std::uint32_t crc;  //  28  CRC-32C of bytes 0..27 and of the entries in use
  RootEntry entry[kMaxRootEntries];  //  32  in no order

  [[nodiscard]] std::span<RootEntry const> in_use() const { return {entry, entries}; }
  /// Null: there is none of that name.
  [[nodiscard]] RootEntry const* find(std::string_view name) const;
  /// Changes the entry of that name, or adds it.
  void set(std::string_view name, std::uint64_t offset, std::uint64_t value);
  /// There is none of that name from here on.
  void remove(std::string_view name);
  /// How much of it is written.
  [[nodiscard]] std::size_t bytes() const;
  /// What `crc` has to be.
  [[nodiscard]] std::uint32_t checksum() const;
};
inline constexpr std::size_t kRootHead = offsetof(Root, entry);  // the least that is written
static_assert(offsetof(Root, sequence) == 0 && offsetof(Root, superblocks) == 8 &&
              offsetof(Root, clean) == 16 && offsetof(Root, entries) == 20 &&
              offsetof(Root, reserved) == 24 && offsetof(Root, crc) == 28 &&
              offsetof(Root, entry) == 32);
static_assert(sizeof(Root) == 2080 && sizeof(Root) <= kRootOffset[1] - kRootOffset[0]);
static_assert(std::has_unique_object_representations_v<Root>);

/// What an orderly close leaves for the next opening to compare with what it finds, so that nothing
/// that changed in between goes unnoticed. It speaks for roots of two sequences, its own and the
/// one before, and for no others; so a build that does not know it leaves none that counts. Zeros:
/// there is none.
struct ClosingNote {  // bytes
  std::uint32_t magic;  //   0
  std::uint32_t astray;  //   4  slots that led to no record even then
  std::uint64_t sequence;  //   8  of the newer copy of the root that says `clean`
  std::uint64_t records;  //  16
  std::uint64_t sum;  //  24  of all slots, in any order; Dash: of the index superblock's words
  std::uint64_t epoch;  //  32  the epoch word
  std::uint64_t dense;  //  40  the dense room's word; 0 where there is no room
  std::uint64_t log_lsn;  //  48  durability power: where the log ended; 0 where it is not known
  std::uint32_t reserved;  //  56  zero
  std::uint32_t crc;  //  60  CRC-32C of bytes 0..59
};
inline constexpr std::uint32_t kClosingMagic = 0x4e435250u;  // "PRCN"
static_assert(offsetof(ClosingNote, magic) == 0 && offsetof(ClosingNote, astray) == 4 &&
              offsetof(ClosingNote, sequence) == 8 && offsetof(ClosingNote, records) == 16 &&
              offsetof(ClosingNote, sum) == 24 && offsetof(ClosingNote, epoch) == 32 &&
              offsetof(ClosingNote, dense) == 40 && offsetof(ClosingNote, log_lsn) == 48 &&
              offsetof(ClosingNote, reserved) == 56 && offsetof(ClosingNote, crc) == 60);
static_assert(sizeof(ClosingNote) == 64 && kClosingNoteOffset + sizeof(ClosingNote) <= kHeadBytes);
static_assert(std::has_unique_object_representations_v<ClosingNote>);

/// What a repair changed of this pool, until somebody acknowledges it: `text_bytes` of lines follow
/// (repairs.hpp).
struct RepairNote {  // bytes
  std::uint64_t state;  //   0  0 = nothing waits to be acknowledged; else kRepaired
  std::uint64_t repaired_unix_s;  //   8
  std::uint64_t count;  //  16  lines there would be, were there room for all
  std::uint32_t text_bytes;  //  24
  std::uint32_t text_crc;  //  28  CRC-32C of them
  std::uint8_t reserved[28];  //  32  zero
  std::uint32_t crc;  //  60  CRC-32C of bytes 0..59
};
inline constexpr std::uint64_t kRepaired = 0x6465726961706572u;  // "repaired"
static_assert(offsetof(RepairNote, state) == 0 && offsetof(RepairNote, repaired_unix_s) == 8 &&
              offsetof(RepairNote, count) == 16 && offsetof(RepairNote, text_bytes) == 24 &&
              offsetof(RepairNote, text_crc) == 28 && offsetof(RepairNote, reserved) == 32 &&
              offsetof(RepairNote, crc) == 60);
static_assert(sizeof(RepairNote) == 64 &&
              kRepairNoteOffset + sizeof(RepairNote) + kMostRepairText <= kLeastSuperblock);
static_assert(std::has_unique_object_representations_v<RepairNote>);

/// First bytes of a heap superblock. Records of `record_bytes` each follow at kFirstRecord
/// (record_shape.hpp).
struct SuperblockHeader {  // bytes
  std::uint32_t magic;  //   0
  std::uint32_t record_bytes;  //   4  stride; a multiple of kStrideAlign
  std::array<std::uint8_t, 16> pool_id;  //   8
  std::uint8_t reserved[36];  //  24  zero
  std::uint32_t crc;  //  60  CRC-32C of bytes 0..59
};
inline constexpr std::uint32_t kSuperblockMagic = 0x42535250u;  // "PRSB"
inline constexpr std::uint64_t kFirstRecord = 128;  // a multiple of a line
// of a superblock with a map: a multiple of what tree nodes are aligned to
inline constexpr std::uint64_t kFirstMapped = 256;
inline constexpr std::uint64_t kRecordAlign = 16;  // of places
inline constexpr std::uint64_t kStrideAlign = 8;
static_assert(offsetof(SuperblockHeader, magic) == 0 &&
              offsetof(SuperblockHeader, record_bytes) == 4 &&
              offsetof(SuperblockHeader, pool_id) == 8 &&
              offsetof(SuperblockHeader, reserved) == 24 && offsetof(SuperblockHeader, crc) == 60);
static_assert(sizeof(SuperblockHeader) == 64 && sizeof(SuperblockHeader) <= kFirstRecord);
static_assert(std::has_unique_object_representations_v<SuperblockHeader>);

/// First bytes of a superblock of blocks (blocks.hpp). Blocks of `block_bytes` each follow at
/// kBlockAlign.
struct BlocksHeader {  // bytes
  std::uint32_t magic;  //   0
  std::uint32_t block_bytes;  //   4
  std::array<std::uint8_t, 16> pool_id;  //   8
  std::uint8_t reserved[36];  //  24  zero
  std::uint32_t crc;  //  60  CRC-32C of bytes 0..59
};
inline constexpr std::uint32_t kBlocksMagic = 0x4b425250u;  // "PRBK"
inline constexpr std::uint64_t kBlockAlign = 256;
static_assert(offsetof(BlocksHeader, magic) == 0 && offsetof(BlocksHeader, block_bytes) == 4 &&
              offsetof(BlocksHeader, pool_id) == 8 && offsetof(BlocksHeader, reserved) == 24 &&
              offsetof(BlocksHeader, crc) == 60);
static_assert(sizeof(BlocksHeader) == 64 && sizeof(BlocksHeader) <= kBlockAlign);
static_assert(std::has_unique_object_representations_v<BlocksHeader>);

/// A record that lies whole: this header, the key, the value. Layout `in_place` with fixed keys
/// leaves the key out (key_bytes 0), for it stands in the slot.
struct RecordHeader {  // bytes
  std::uint32_t crc;  //   0  CRC-32C of everything after it
  std::uint32_t value_bytes;  //   4
  std::uint32_t key_bytes;  //   8
  std::uint32_t tag;  //  12  zero; in a log segment: value_log/layout.hpp
  std::uint64_t sequence;  //  16  number of the batch that wrote it
};
static_assert(offsetof(RecordHeader, crc) == 0 && offsetof(RecordHeader, value_bytes) == 4 &&
              offsetof(RecordHeader, key_bytes) == 8 && offsetof(RecordHeader, tag) == 12 &&
              offsetof(RecordHeader, sequence) == 16);
static_assert(sizeof(RecordHeader) == 24);
static_assert(std::has_unique_object_representations_v<RecordHeader>);

/// Of a record that lies split, before the key; the pool says its sizes.
struct RecordHead {  // bytes
  std::uint32_t crc;  //   0  CRC-32C of the sequence, the key and the value
  std::uint32_t sequence;  //   4  number of the batch that wrote it, low half
};
static_assert(offsetof(RecordHead, crc) == 0 && offsetof(RecordHead, sequence) == 4);
static_assert(sizeof(RecordHead) == 8);
static_assert(std::has_unique_object_representations_v<RecordHead>);

/// At the beginning of the dense room, constant once the root names it: DenseEntry after DenseEntry
/// from kDenseEntries on, and behind them, a line each, copy 0 of every buffer, then copy 1
/// (pm/dense.hpp).
struct DenseHeader {  // bytes
  std::uint32_t magic;  //   0
  std::uint32_t buffers;  //   4
  std::uint8_t reserved[52];  //   8  zero
  std::uint32_t crc;  //  60  CRC-32C of bytes 0..59 and of all entries
};
inline constexpr std::uint32_t kDenseMagic = 0x4e445250u;  // "PRDN"
inline constexpr std::uint64_t kDenseAlign = 128;  // of a buffer's copies: a line
static_assert(offsetof(DenseHeader, magic) == 0 && offsetof(DenseHeader, buffers) == 4 &&
              offsetof(DenseHeader, reserved) == 8 && offsetof(DenseHeader, crc) == 60);
// 8 bytes: which copy counts, and of which step it is
inline constexpr std::uint64_t kDenseWord = 128;
inline constexpr std::uint64_t kDenseEntries = 256;
static_assert(sizeof(DenseHeader) == 64 && sizeof(DenseHeader) <= kDenseWord);
static_assert(std::has_unique_object_representations_v<DenseHeader>);

struct DenseEntry {  // bytes
  std::array<char, 112> name;  //   0  zeros after it, one at least
  std::uint64_t bytes;  // 112  of one copy
  std::uint64_t reserved;  // 120  zero
};
static_assert(offsetof(DenseEntry, name) == 0 && offsetof(DenseEntry, bytes) == 112 &&
              offsetof(DenseEntry, reserved) == 120);
static_assert(sizeof(DenseEntry) == 128);
static_assert(std::has_unique_object_representations_v<DenseEntry>);

}  // namespace perdure::pm
