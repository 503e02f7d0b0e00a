// Where a pool whose batches are transactions keeps what undoes them (docs/format.md, "Undo log of
// lines"). The root's entry kUndoLines leads to the first superblock of the log; each leads to the
// next. Invariant: a chunk's entries of the transaction that is open stand at its beginning,
// without a gap; whatever follows them is of earlier ones, or was torn by a crash.
//
//   superblock   UndoRoomHeader | state (a line, of the first superblock) | from byte 4096 on
//   chunks chunk        entry after entry
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <type_traits>

#include "pm/flush.hpp"

namespace perdure::pm {

/// Of the root's entry.
inline constexpr std::string_view kUndoLines = "undo.lines";

struct UndoRoomHeader {  // bytes
  std::uint32_t magic;  //   0
  std::uint32_t chunk_bytes;  //   4
  std::uint64_t next;  //   8  offset of the next superblock of the log; 0 = the last
  std::uint8_t reserved[44];  //  16  zero
  std::uint32_t crc;  //  60  CRC-32C of bytes 0..59, with 0 for `next`
};
inline constexpr std::uint32_t kUndoMagic = 0x58545250u;  // "PRTX"
static_assert(offsetof(UndoRoomHeader, chunk_bytes) == 4 && offsetof(UndoRoomHeader, next) == 8 &&
              offsetof(UndoRoomHeader, reserved) == 16 && offsetof(UndoRoomHeader, crc) == 60);
static_assert(sizeof(UndoRoomHeader) == 64);
static_assert(std::has_unique_object_representations_v<UndoRoomHeader>);

/// What a line held before the transaction first stored to it.
struct UndoLine {  // bytes
  std::uint64_t line;  //   0  its offset
  std::uint32_t transaction;  //   8  low half of its number
  std::uint32_t crc;  //  12  CRC-32C of the whole number, `line` and `old`
  std::array<std::uint64_t, kCacheLine / 8> old;  //  16
};
static_assert(offsetof(UndoLine, transaction) == 8 && offsetof(UndoLine, crc) == 12 &&
              offsetof(UndoLine, old) == 16);
static_assert(sizeof(UndoLine) == 80);
static_assert(std::has_unique_object_representations_v<UndoLine>);

/// A line for whoever the transactions are of, in the first superblock.
inline constexpr std::uint64_t kUndoState = 64;
inline constexpr std::uint64_t kFirstChunk = 4096;
inline constexpr std::uint64_t kChunkEntries = 768;
inline constexpr std::uint64_t kChunkBytes = kChunkEntries * sizeof(UndoLine);
static_assert(((1u << 20) - kFirstChunk) % kChunkBytes == 0, "no byte of a superblock is lost");

}  // namespace perdure::pm
