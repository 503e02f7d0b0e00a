// What Dash keeps in a pool (Lu et al., VLDB'20, section 4; docs/format.md draws it). Every word of
// 8 bytes is stored at once and by itself; which words are there after a crash is the algorithms'
// business (segment.hpp). A slot, which is all that counts of a bucket then, lies in one cache
// line.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "base/hash.hpp"

namespace perdure::dash {

inline constexpr std::uint32_t kSlots = 14;
// records that a bucket has before those of its own go to the next one
inline constexpr std::uint32_t kAtTarget = 11;
// fingerprints a bucket has for records in the stash
inline constexpr std::uint32_t kOverflows = 4;
// stash buckets a segment, of which a fingerprint can tell
inline constexpr std::uint32_t kMostStash = 4;

/// A key and its value, or the address of a record and the hash of its key.
struct Slot {  // bytes
  std::uint64_t first;  //   0
  std::uint64_t second;  //   8
};
static_assert(offsetof(Slot, first) == 0 && offsetof(Slot, second) == 8);

/// 256 bytes: four words of metadata, for finding records quickly, which recovery makes anew; then
/// the slots.
struct Bucket {  // bytes
  std::uint64_t state;  //   0  see State
  std::uint64_t prints[2];  //   8  fingerprints of slots 0..13, then of overflows 0 and 1
  std::uint64_t hints;  //  24  see Hints
  Slot slots[kSlots];  //  32
};
static_assert(offsetof(Bucket, state) == 0 && offsetof(Bucket, prints) == 8 &&
              offsetof(Bucket, hints) == 24 && offsetof(Bucket, slots) == 32);
static_assert(sizeof(Slot) == 16 && sizeof(Bucket) == 256 && offsetof(Bucket, slots) == 32);
static_assert(64 % sizeof(Slot) == 0 && offsetof(Bucket, slots) % sizeof(Slot) == 0,
              "a slot lies in one cache line");
static_assert(std::has_unique_object_representations_v<Bucket>);

/// Bits 0..13 slots in use, 14..27 those whose key belongs to the bucket before this one, 31
/// locked, 32..63 version.
struct State {
  static constexpr std::uint64_t kAll = (1u << kSlots) - 1;
  static constexpr std::uint64_t kLocked = std::uint64_t{1} << 31;
  static constexpr std::uint64_t kVersion = std::uint64_t{1} << 32;

  std::uint64_t word = 0;

  [[nodiscard]] bool locked() const { return (word & kLocked) != 0; }
  [[nodiscard]] std::uint32_t used() const { return static_cast<std::uint32_t>(word & kAll); }
  [[nodiscard]] std::uint32_t guests() const {
    return static_cast<std::uint32_t>(word >> kSlots & kAll);
  }
  /// Bits counted side by side: std::popcount is a call where the processor is any x86-64.
  [[nodiscard]] std::uint32_t count() const {
    std::uint32_t n = used();
    n -= n >> 1 & 0x5555;
    n = (n & 0x3333) + (n >> 2 & 0x3333);
    n = (n + (n >> 4)) & 0x0f0f;
    return (n + (n >> 8)) & 31;
  }
  [[nodiscard]] bool full() const { return used() == kAll; }
  [[nodiscard]] bool possible() const {
    return (word >> 2 * kSlots & 7) == 0 && (guests() & ~used()) == 0;
  }
  [[nodiscard]] std::uint32_t free_slot() const {
    return static_cast<std::uint32_t>(std::countr_one(used()));
  }
  /// Lock and version stay.
  [[nodiscard]] State with(std::uint32_t used, std::uint32_t guests) const {
    constexpr std::uint64_t kSlotBits = (std::uint64_t{1} << 2 * kSlots) - 1;
    return {(word & ~kSlotBits) | used | std::uint64_t{guests & used} << kSlots};
  }
  [[nodiscard]] State with_slot(std::uint32_t slot, bool guest) const {
    return with(used() | 1u << slot, (guests() & ~(1u << slot)) | static_cast<std::uint32_t>(guest)
                                                                      << slot);
  }
  [[nodiscard]] State without(std::uint32_t slots) const { return with(used() & ~slots, guests()); }
  [[nodiscard]] State unlocked() const { return {(word & ~kLocked) + kVersion}; }
};

/// Bits 0..15 fingerprints of overflows 2 and 3; 16..19 overflows in use; 20..23 those whose key
/// belongs to the bucket before this one; 24..31 two bits each, the stash bucket; 32..39 how many
/// records of this bucket are in the stash without a fingerprint; 40..63 bit filter_bit(hash) is
/// set for each record of this bucket that is in the next one, or has its overflow fingerprint
/// there.
struct Hints {
  static constexpr std::uint64_t kUntold = std::uint64_t{1} << 32;
  static constexpr std::uint32_t kFilterBits = 24;
  std::uint64_t word = 0;

  [[nodiscard]] std::uint32_t overflows() const {
    return static_cast<std::uint32_t>(word >> 16 & 15);
  }
  [[nodiscard]] std::uint32_t guests() const { return static_cast<std::uint32_t>(word >> 20 & 15); }
  [[nodiscard]] std::uint32_t stash_of(std::uint32_t i) const {
    return static_cast<std::uint32_t>(word >> (24 + 2 * i) & 3);
  }
  [[nodiscard]] std::uint32_t untold() const {
    return static_cast<std::uint32_t>(word >> 32 & 255);
  }
  [[nodiscard]] bool beyond(std::uint32_t bit) const { return (word >> (40 + bit) & 1) != 0; }
  [[nodiscard]] Hints with_overflow(std::uint32_t i, bool guest, std::uint32_t stash) const {
    std::uint64_t const cleared = without_overflow(i).word;
    return {cleared | std::uint64_t{1} << (16 + i) | std::uint64_t{guest} << (20 + i) |
            std::uint64_t{stash} << (24 + 2 * i)};
  }
  [[nodiscard]] Hints without_overflow(std::uint32_t i) const {
    return {word & ~(std::uint64_t{0x11} << (16 + i)) & ~(std::uint64_t{3} << (24 + 2 * i))};
  }
  /// A count that has come to 255 stays there until it is made anew.
  [[nodiscard]] Hints one_more_untold() const {
    return untold() == 255 ? *this : Hints{word + kUntold};
  }
  [[nodiscard]] Hints one_less_untold() const {
    return untold() == 255 ? *this : Hints{word - kUntold};
  }
  [[nodiscard]] Hints with_beyond(std::uint32_t bit) const {
    return {word | std::uint64_t{1} << (40 + bit)};
  }
};

/// Before a segment's buckets. Its keys are those whose hash begins as `start` does, `depth` bits
/// of it; one at least.
struct SegmentHeader {  // bytes
  std::uint64_t extent;  //   0  see Extent; the one word that commits a split or a merge
  std::uint64_t start;  //   8  least hash; constant
  std::uint64_t version;  //  16  of the opening that found the segment sound
  std::uint64_t chain;  //  24  address of the first bucket chained to it (linear.hpp); 0 = none
  std::uint64_t sum;  //  32  kSummed, and sum_of() (segment_sums.hpp) at the last orderly close
                      //  that changed it
  std::uint64_t reserved[27];  //  40  zero
};
inline constexpr std::uint64_t kSummed = std::uint64_t{0x4d555350u} << 32;  // "PSUM"
static_assert(offsetof(SegmentHeader, extent) == 0 && offsetof(SegmentHeader, start) == 8 &&
              offsetof(SegmentHeader, version) == 16 && offsetof(SegmentHeader, chain) == 24 &&
              offsetof(SegmentHeader, sum) == 32 && offsetof(SegmentHeader, reserved) == 40);
static_assert(sizeof(SegmentHeader) == 256 &&
              std::has_unique_object_representations_v<SegmentHeader>);

/// The version of the opening after one. A damaged version is followed by one that no segment has,
/// so that each is made sound.
[[nodiscard]] inline std::uint64_t next_version(std::uint64_t version) {
  return nth_hash(version, 1);
}

/// How far a segment reaches, and which comes after it in the order of hashes; in linear.hpp
/// instead of the latter a check.
struct Extent {
  static constexpr std::uint32_t kMostDepth = 40;
  std::uint64_t word = 0;

  static Extent of(std::uint32_t depth, std::uint64_t next) {
    return {std::uint64_t{depth} << 56 | next};
  }
  [[nodiscard]] std::uint32_t depth() const { return static_cast<std::uint32_t>(word >> 56); }
  [[nodiscard]] std::uint64_t next() const {
    return word & ((std::uint64_t{1} << 56) - 1);
  }  // bytes; 0 = none
};

/// Where an operation's hash leads inside a segment: bits 0..7 fingerprint, 8..16 bucket; the
/// directory takes the highest bits. The filter's bit follows from the fingerprint, so that
/// overflows of one bucket with equal fingerprints can stand for each other.
[[nodiscard]] inline std::uint8_t fingerprint(std::uint64_t hash) {
  return static_cast<std::uint8_t>(hash);
}
[[nodiscard]] inline std::uint32_t bucket_of(std::uint64_t hash, std::uint32_t buckets) {
  return static_cast<std::uint32_t>(hash >> 8) & (buckets - 1);
}
[[nodiscard]] inline std::uint32_t filter_bit(std::uint64_t hash) {
  return fingerprint(hash) * Hints::kFilterBits >> 8;
}

/// Buckets of a segment: a power of two from 4 to 512, and as many for what overflows.
struct SegmentShape {
  std::uint32_t buckets = 64;
  std::uint32_t stash = 2;
  [[nodiscard]] std::uint64_t bytes() const {
    return sizeof(SegmentHeader) + std::uint64_t{buckets + stash} * sizeof(Bucket);
  }
};

enum class Kind : std::uint32_t { extendible = 1, linear = 2 };

/// First bytes of the index superblock, which the pool's root names as its one level. The first 64
/// are constant.
struct IndexRoot {  // bytes
  std::uint32_t magic;  //   0
  std::uint32_t kind;  //   4  Kind
  std::uint32_t buckets;  //   8  SegmentShape
  std::uint32_t stash;  //  12
  std::uint32_t records;  //  16  1 = slots lead to records
  std::uint8_t reserved[40];  //  20  zero
  std::uint32_t crc;  //  60  CRC-32C of bytes 0..59
  std::uint64_t directory;  //  64  extendible: depth << 56 | place; linear: rounds << 32 | next
  std::uint64_t version;  //  72  of this opening; a segment of another has to be made sound
  std::uint64_t first;  //  80  address of the first segment
  std::uint64_t counted;  //  88  records when it was closed in order
};
inline constexpr std::uint32_t kIndexMagic = 0x48445250u;  // "PRDH"
static_assert(offsetof(IndexRoot, magic) == 0 && offsetof(IndexRoot, kind) == 4 &&
              offsetof(IndexRoot, buckets) == 8 && offsetof(IndexRoot, stash) == 12 &&
              offsetof(IndexRoot, records) == 16 && offsetof(IndexRoot, reserved) == 20 &&
              offsetof(IndexRoot, crc) == 60 && offsetof(IndexRoot, directory) == 64 &&
              offsetof(IndexRoot, version) == 72 && offsetof(IndexRoot, first) == 80 &&
              offsetof(IndexRoot, counted) == 88);
static_assert(sizeof(IndexRoot) == 96 && offsetof(IndexRoot, directory) == 64);
static_assert(std::has_unique_object_representations_v<IndexRoot>);

/// Directories of each depth have a place of their own, so that making one never touches the one
/// that counts: depth d lies at kDirectories + 8 * 2^d of the index superblock while it fits in
/// there, in a run of its own beyond.
inline constexpr std::uint64_t kDirectories = 4096;
// places of arrays that stand there instead: of 1, ..., 2^24 superblocks
inline constexpr std::uint32_t kLinearArrays = 200;

}  // namespace perdure::dash
