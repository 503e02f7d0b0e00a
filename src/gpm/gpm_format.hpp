// The bytes of libGPM's files (GPM section 5.2 and 5.3): logs and checkpoints. docs/format.md draws
// them.
//
// Log invariant: an entry counts if its check matches its words, its place, its size and the log's
// transaction; so it needs one ordering point and no tail on the medium, and one store of the
// transaction word ends all entries at once. Its last bytes are taken off by storing another check,
// one word: it has them all or lacks just those.
//
// Checkpoint invariant: of a group's two headers the valid one of the higher epoch says which copy
// counts, and that copy is not written while it does.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "base/annotate.hpp"
#include "base/hash.hpp"
#include "base/hooks.hpp"

namespace perdure::gpm {

inline constexpr std::uint32_t kGpmLogVersion = 2;
inline constexpr std::uint32_t kGpmCheckpointVersion = 1;
inline constexpr std::uint64_t kGpmPage = 4096;
inline constexpr std::uint64_t kGpmLine = 128;

enum class GpmLogKind : std::uint32_t { conventional = 1, hcl = 2 };

/// Of an entry, besides its check.
inline constexpr std::uint32_t kMostEntryBytes = 256;
inline constexpr std::uint32_t kMostEntryWords = kMostEntryBytes / 4;

struct GpmLogHeader {  // bytes
  char magic[8];  //   0  "PRDGLOG1"
  std::uint32_t version;  //   8
  GpmLogKind kind;  //  12
  std::uint64_t file_bytes;  //  16
  std::uint64_t partitions;  //  24  hcl: blocks * threads
  std::uint32_t blocks;  //  32  hcl; else 0
  std::uint32_t threads;  //  36  hcl: of a block; else 0
  std::uint64_t words;  //  40  4-byte words that a partition holds, checks among them
  std::uint64_t data;  //  48  where the first partition begins
  std::uint64_t check;  //  56  hash_bytes() of the 56 bytes before it
  std::byte zero1[64];  //  64
  std::uint64_t transaction;  // 128  entries of this one count; from 1 on
  std::byte zero2[120];  // 136
  std::uint32_t
      sizes[kMostEntryBytes];  //  256  [n-1] is 1: an entry of n bytes may have been written
  std::uint32_t parts[kMostEntryBytes];  // 1280  [n-1] is 1: such an entry may lack its last bytes
  std::byte zero3[kGpmPage - 2304];
};
static_assert(offsetof(GpmLogHeader, magic) == 0 && offsetof(GpmLogHeader, version) == 8 &&
              offsetof(GpmLogHeader, kind) == 12 && offsetof(GpmLogHeader, file_bytes) == 16 &&
              offsetof(GpmLogHeader, partitions) == 24 && offsetof(GpmLogHeader, blocks) == 32 &&
              offsetof(GpmLogHeader, threads) == 36 && offsetof(GpmLogHeader, words) == 40 &&
              offsetof(GpmLogHeader, data) == 48 && offsetof(GpmLogHeader, check) == 56 &&
              offsetof(GpmLogHeader, zero1) == 64 && offsetof(GpmLogHeader, transaction) == 128 &&
              offsetof(GpmLogHeader, zero2) == 136 && offsetof(GpmLogHeader, sizes) == 256 &&
              offsetof(GpmLogHeader, parts) == 1280);
static_assert(sizeof(GpmLogHeader) == kGpmPage && offsetof(GpmLogHeader, transaction) == 128 &&
              offsetof(GpmLogHeader, sizes) == 256 && offsetof(GpmLogHeader, parts) == 1280);
static_assert(std::has_unique_object_representations_v<GpmLogHeader>);

inline constexpr char kGpmLogMagic[8] = {'P', 'R', 'D', 'G', 'L', 'O', 'G', '1'};

/// Words that hold so many bytes.
PERDURE_FN std::uint32_t gpm_words_of(std::uint64_t bytes) {
  return static_cast<std::uint32_t>((bytes + 3) / 4);
}

/// Words of a partition that takes `bytes` bytes of entries, each counted in whole words: the
/// smallest have one, and a check each.
PERDURE_FN std::uint64_t gpm_partition_words(std::uint64_t bytes) { return (bytes + 3) / 4 * 2; }

// hcl: tiles of 32 partitions, a row of 32 lanes x 4 bytes for each word of a partition (GPM
// figures 4 and 5).
inline constexpr std::uint64_t kHclLanes = 32;

/// Byte of word `word` of partition `partition`.
PERDURE_FN std::uint64_t gpm_word_at(GpmLogKind kind, std::uint64_t data, std::uint64_t words,
                                     std::uint64_t partition, std::uint64_t word) {
  if (kind == GpmLogKind::conventional) return data + (partition * words + word) * 4;
  return data + ((partition / kHclLanes * words + word) * kHclLanes + partition % kHclLanes) * 4;
}

/// An entry's check, word by word. Intact entries of earlier transactions, and places that were
/// never written, are told apart exactly (for 2^31 transactions); a torn one passes by chance once
/// in 2^32, and where parts of entries of its size were taken off, once for each of its bytes.
struct GpmCheck {
  std::uint64_t state;

  PERDURE_FN GpmCheck(std::uint64_t partition, std::uint64_t first)
      : state(hash_detail::fold(partition ^ hash_detail::k0, first + hash_detail::k3)) {}
  PERDURE_FN void add(std::uint32_t word) {
    if (!mutated("gpm_check_without_words"))
      state = hash_detail::fold(state ^ word, hash_detail::k1);
  }
  /// Of an entry of `size` bytes of which the last `taken` were taken off.
  PERDURE_FN std::uint32_t of(std::uint64_t transaction, std::uint32_t size,
                              std::uint32_t taken) const {
    std::uint64_t const shape = size | std::uint64_t{taken} << 32;
    auto const sum =
        static_cast<std::uint32_t>(hash_detail::fold(state ^ shape, hash_detail::k2)) +
        (mutated("gpm_check_without_transaction") ? 0 : static_cast<std::uint32_t>(transaction));
    return sum != 0 ? sum : 0x80000000u;  // 0 is what a fresh or removed entry has
  }
  /// How many of its bytes an entry with that check lacks; `size`: it is no such entry.
  PERDURE_FN std::uint32_t taken(std::uint32_t check, std::uint64_t transaction, std::uint32_t size,
                                 bool parts) const {
    std::uint32_t const most = parts ? size : 1;
    for (std::uint32_t taken = 0; taken < most; ++taken)
      if (check == of(transaction, size, taken)) return taken;
    return size;
  }
};

// ------------------------------------------------------------------------------------------------
// Checkpoints

struct GpmCheckpointHeader {  // bytes
  char magic[8];  //   0  "PRDGCKP1"
  std::uint32_t version;  //   8
  std::uint32_t groups;  //  12
  std::uint32_t elements;  //  16  of a group, at most
  std::uint32_t
      spare;  //  20  of the groups the last so many: the file has their copies once they are used
  std::uint64_t copy_bytes;  //  24  room of one copy of a group, a multiple of 128
  std::uint64_t file_bytes;  //  32
  std::uint64_t check;  //  40  hash_bytes() of the 40 bytes before it
  std::byte zero[kGpmPage - 48];
};
static_assert(
    offsetof(GpmCheckpointHeader, magic) == 0 && offsetof(GpmCheckpointHeader, version) == 8 &&
    offsetof(GpmCheckpointHeader, groups) == 12 && offsetof(GpmCheckpointHeader, elements) == 16 &&
    offsetof(GpmCheckpointHeader, spare) == 20 && offsetof(GpmCheckpointHeader, copy_bytes) == 24 &&
    offsetof(GpmCheckpointHeader, file_bytes) == 32 && offsetof(GpmCheckpointHeader, check) == 40);
static_assert(sizeof(GpmCheckpointHeader) == kGpmPage);
static_assert(std::has_unique_object_representations_v<GpmCheckpointHeader>);

inline constexpr char kGpmCheckpointMagic[8] = {'P', 'R', 'D', 'G', 'C', 'K', 'P', '1'};

/// One of a group's two headers; the sizes of its elements, 8 bytes each, follow it.
struct GpmGroupHeader {  // bytes
  std::uint64_t epoch;  //   0  counts the group's checkpoints from 1; 0 = none
  std::uint64_t word;  //   8  the application's: how far it had come
  std::uint32_t copy;  //  16  which of the two copies
  std::uint32_t elements;  //  20
  std::uint64_t bytes;  //  24  of the copy that are used
  std::uint64_t check;  //  32  hash_bytes() of the 32 bytes before it and the sizes, chained
  std::byte zero[88];  //  40
};
static_assert(offsetof(GpmGroupHeader, epoch) == 0 && offsetof(GpmGroupHeader, word) == 8 &&
              offsetof(GpmGroupHeader, copy) == 16 && offsetof(GpmGroupHeader, elements) == 20 &&
              offsetof(GpmGroupHeader, bytes) == 24 && offsetof(GpmGroupHeader, check) == 32 &&
              offsetof(GpmGroupHeader, zero) == 40);
static_assert(sizeof(GpmGroupHeader) == kGpmLine);
static_assert(std::has_unique_object_representations_v<GpmGroupHeader>);

[[nodiscard]] constexpr std::uint64_t gpm_lines(std::uint64_t bytes) {
  return (bytes + kGpmLine - 1) / kGpmLine * kGpmLine;
}

}  // namespace perdure::gpm
