// Where a pool whose batches are transactions keeps what undoes them (docs/format.md, "Undo log of
// lines"). The root's entry kUndoLines leads to the first superblock of the log; each leads to the
// next. Invariant: a chunk's entries of the transaction that is open stand at its beginning,
// without a gap; whatever follows them is of earlier ones, or was torn by a crash.
//
//   superblock   UndoRoomHeader | state (a line, of the first superblock) | from byte 4096 on
//   chunks chunk        entry after entry, each of them a line
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <type_traits>

#include "pm/flush.hpp"

namespace perdure::pm {

/// Of the root's entry. A log of another form has another name, so that no build reads it.
inline constexpr std::string_view kUndoLines = "undo.pieces";

struct UndoRoomHeader {  // bytes
  std::uint32_t magic;  //   0
  std::uint32_t chunk_bytes;  //   4
  std::uint64_t next;  //   8  offset of the next superblock of the log; 0 = the last
  std::uint8_t reserved[44];  //  16  zero
  std::uint32_t crc;  //  60  CRC-32C of bytes 0..59, with 0 for `next`
};
inline constexpr std::uint32_t kUndoMagic = 0x50545250u;  // "PRTP"
static_assert(offsetof(UndoRoomHeader, chunk_bytes) == 4 && offsetof(UndoRoomHeader, next) == 8 &&
              offsetof(UndoRoomHeader, reserved) == 16 && offsetof(UndoRoomHeader, crc) == 60);
static_assert(sizeof(UndoRoomHeader) == 64);
static_assert(std::has_unique_object_representations_v<UndoRoomHeader>);

inline constexpr unsigned kLineWords = kCacheLine / 8;

/// Which words of which line a piece has. Its head is one word, never 0; the words that it names
/// follow, from the lowest on, as they were before the transaction first stored to them.
struct UndoPiece {
  std::uint64_t line = 0;  // its offset
  unsigned words = 0;  // a bit each

  static constexpr unsigned kWordsAt = 56;  // bits of the head above the offset

  [[nodiscard]] static constexpr UndoPiece of(std::uint64_t head) {
    return {head & ((std::uint64_t{1} << kWordsAt) - 1), static_cast<unsigned>(head >> kWordsAt)};
  }
  [[nodiscard]] constexpr std::uint64_t head() const {
    return line | std::uint64_t{words} << kWordsAt;
  }
  [[nodiscard]] constexpr unsigned count() const {
    return static_cast<unsigned>(std::popcount(words));
  }
};

/// A line of the log: so one flush makes an entry durable, whatever pieces it has.
struct UndoEntry {  // bytes
  static constexpr unsigned kRoom = 7;  // words

  std::uint32_t transaction;  //   0  low half of its number
  std::uint32_t crc;  //   4  CRC-32C of the whole number and `pieces`
  std::array<std::uint64_t, kRoom> pieces;  //   8  one behind the other, then zeros
};
static_assert(offsetof(UndoEntry, crc) == 4 && offsetof(UndoEntry, pieces) == 8);
static_assert(sizeof(UndoEntry) == kCacheLine);
static_assert(std::has_unique_object_representations_v<UndoEntry>);

/// A line for whoever the transactions are of, in the first superblock.
inline constexpr std::uint64_t kUndoState = 64;
inline constexpr std::uint64_t kFirstChunk = 4096;
inline constexpr std::uint64_t kChunkEntries = 960;
inline constexpr std::uint64_t kChunkBytes = kChunkEntries * sizeof(UndoEntry);
static_assert(kFirstChunk % kCacheLine == 0);
static_assert(((1u << 20) - kFirstChunk) % kChunkBytes == 0, "no byte of a superblock is lost");

}  // namespace perdure::pm
