// Records: how one is written whole, and how one is checked. Invariant: a record's bytes are written
// and ordered before the first word that leads to it, and never change while one does.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/annotate.hpp"
#include "base/offset.hpp"
#include "pm/format.hpp"

namespace perdure::pm {

struct RecordView {
  RecordHeader header;
  std::byte const* key;
  std::byte const* value;
};

/// `room` is the most bytes this record may span; a header that claims more is answered with empty
/// key and value, which no checksum forgives.
PERDURE_FN RecordView view_record(std::byte const* at, std::uint64_t room) {
  RecordHeader header = *reinterpret_cast<RecordHeader const*>(at);
  if (sizeof(RecordHeader) + std::uint64_t{header.key_bytes} + header.value_bytes > room) {
    header.key_bytes = 0;
    header.value_bytes = 0;
  }
  std::byte const* const key = at + sizeof(RecordHeader);
  return {header, key, key + header.key_bytes};
}

inline constexpr std::uint32_t kCrcSkip = sizeof(RecordHeader::crc);

/// Whether a record that stands in the pool is whole.
template <class W>
PERDURE_FN bool intact(W& warp, RecordView const& r) {
  std::byte const* const at = r.key - sizeof(RecordHeader);
  std::size_t const bytes = sizeof(RecordHeader) + r.header.key_bytes + r.header.value_bytes;
  return warp.crc32c(0, at + kCrcSkip, bytes - kCrcSkip) == r.header.crc;
}

/// Writes the record at `to`, whole; its value bytes are there already or are copied from r.value.
template <class W>
PERDURE_FN void write_record(W& warp, std::byte* to, RecordView r) {
  std::byte* const key = to + sizeof(RecordHeader);
  std::byte* const value = key + r.header.key_bytes;
  warp.copy(key, r.key, r.header.key_bytes);
  if (value != r.value) warp.copy(value, r.value, r.header.value_bytes);
  auto const store_header = [&] {
    *reinterpret_cast<RecordHeader*>(to) = r.header;
    return std::uint64_t{0};
  };
  if constexpr (W::kReadsBackCheaply) {
    warp.once(store_header);
    std::size_t const bytes = sizeof(RecordHeader) + r.header.key_bytes + r.header.value_bytes;
    r.header.crc = warp.crc32c(0, to + kCrcSkip, bytes - kCrcSkip);
  } else {
    std::uint32_t const crc =
        warp.crc32c(0, reinterpret_cast<std::byte const*>(&r.header) + kCrcSkip, sizeof(RecordHeader) - kCrcSkip);
    r.header.crc = warp.crc32c(warp.crc32c(crc, r.key, r.header.key_bytes), r.value, r.header.value_bytes);
  }
  warp.once(store_header);
}

PERDURE_FN constexpr std::uint64_t record_bytes(std::uint64_t key_bytes, std::uint64_t value_bytes) {
  return sizeof(RecordHeader) + key_bytes + value_bytes;
}

}  // namespace perdure::pm
