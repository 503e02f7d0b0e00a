// The bytes of log segments (thesis, section 2.3). docs/format.md draws them.
//
//   segment   LogSegmentHeader | record | record | ... | unused
//
// A segment is a run of superblocks that stays the log's for good. Records lie whole, as in the
// heap (pm/record.hpp), one after the other, each at a multiple of kRecordAlign; their tag says of
// which use of the segment they are. Invariants: a segment's state changes by one store; a record
// whose tag has another generation than its segment is of an earlier use, and nothing.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <type_traits>

#include "pm/pool_format.hpp"
#include "pm/record_shape.hpp"

namespace perdure::pm {

/// The root's entry: its value is the size of segments.
inline constexpr std::string_view kValueLogEntry = "value.log";
inline constexpr std::uint64_t kMostSegment = 4u << 20;

struct LogSegmentHeader {  // bytes
  std::uint32_t magic;  //   0
  std::uint32_t segment_bytes;  //   4
  std::array<std::uint8_t, 16> pool_id;  //   8
  std::uint64_t state;  //  24  LogState; 0 = never used
  std::uint8_t reserved[28];  //  32  zero
  std::uint32_t crc;  //  60  CRC-32C of bytes 0..59, with 0 for the state
};
inline constexpr std::uint32_t kLogMagic = 0x4c565250u;  // "PRVL"
inline constexpr std::uint64_t kFirstLogRecord = 64;
static_assert(offsetof(LogSegmentHeader, magic) == 0 &&
              offsetof(LogSegmentHeader, segment_bytes) == 4 &&
              offsetof(LogSegmentHeader, pool_id) == 8 && offsetof(LogSegmentHeader, state) == 24 &&
              offsetof(LogSegmentHeader, reserved) == 32 && offsetof(LogSegmentHeader, crc) == 60);
static_assert(sizeof(LogSegmentHeader) == 64 && sizeof(LogSegmentHeader) <= kFirstLogRecord);
static_assert(std::has_unique_object_representations_v<LogSegmentHeader>);

/// What a segment is used for, as one word:
///   bits 0..29 generation, 30..31 use, 32..50 end / kRecordAlign, 51..63 a check of the others
struct LogState {
  enum class Use : std::uint8_t {
    free,    // nothing in it counts
    open,    // records end where none that is whole follows
    sealed,  // records end at `end`, all of them durable
  };
  static constexpr std::uint32_t kGenerations = 1u << 30;

  std::uint32_t generation = 0;  // of its use; the next use has one more
  Use use = Use::free;
  std::uint64_t end = 0;  // sealed: where its records end

  [[nodiscard]] constexpr std::uint64_t word() const {
    std::uint64_t const rest =
        generation | std::uint64_t{static_cast<std::uint8_t>(use)} << 30 | end / kRecordAlign << 32;
    return rest | check(rest) << 51;
  }
  /// Whether the word is one that word() answers.
  static constexpr bool parse(std::uint64_t word, LogState& to) {
    std::uint64_t const rest = word & ((std::uint64_t{1} << 51) - 1);
    to.generation = static_cast<std::uint32_t>(rest & (kGenerations - 1));
    to.use = static_cast<Use>(rest >> 30 & 3);
    to.end = (rest >> 32) * kRecordAlign;
    return word >> 51 == check(rest) && to.use <= Use::sealed;
  }

 private:
  static constexpr std::uint64_t check(std::uint64_t rest) {
    return (rest + 1) * 0x9e3779b97f4a7c15u >> 51;
  }
};
static_assert(kMostSegment / kRecordAlign < 1u << 19);
static_assert(LogState{}.word() != 0);

/// RecordHeader::tag in a log segment. A record that begins a piece says that all records before it
/// in the segment had been ordered when it was written: so a hole before it is damage, and not what
/// a crash left.
struct LogTag {
  std::uint32_t generation = 0;
  bool begins_piece = false;
  bool tombstone = false;

  [[nodiscard]] constexpr std::uint32_t word() const {
    return generation | std::uint32_t{begins_piece} << 30 | std::uint32_t{tombstone} << 31;
  }
  static constexpr LogTag of(std::uint32_t word) {
    return {word & (LogState::kGenerations - 1), (word >> 30 & 1) != 0, word >> 31 != 0};
  }
};

/// Bytes that a record takes of a segment.
constexpr std::uint64_t log_bytes(std::uint64_t key_bytes, std::uint64_t value_bytes) {
  return aligned_up(sizeof(RecordHeader) + key_bytes + value_bytes, kRecordAlign);
}

}  // namespace perdure::pm
