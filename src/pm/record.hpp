// Records: how one is written whole, and how one is checked. Invariant: a record's bytes are written
// and ordered before the first word that leads to it, and never change while one does.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/annotate.hpp"
#include "base/mutants.hpp"
#include "base/offset.hpp"
#include "exec/bits.hpp"
#include "exec/crc_tables.hpp"
#include "pm/format.hpp"
#include "pm/watch.hpp"

namespace perdure::pm {

struct RecordView {
  RecordHeader header;
  std::byte const* key;
  std::byte const* value;
};

/// `room` is the most bytes this record may span; a header that claims more is answered with empty
/// key and value, which no checksum forgives.
PERDURE_FN RecordView view_record(std::byte const* at, std::uint64_t room) {
  will_read(at, sizeof(RecordHeader));
  RecordHeader header = *reinterpret_cast<RecordHeader const*>(at);
  if (sizeof(RecordHeader) + std::uint64_t{header.key_bytes} + header.value_bytes > room) {
    header.key_bytes = 0;
    header.value_bytes = 0;
  }
  std::byte const* const key = at + sizeof(RecordHeader);
  will_read(key, std::uint64_t{header.key_bytes} + header.value_bytes);
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

/// Completes a record whose value bytes stand at `to` already.
template <class W>
PERDURE_FN void seal_record(W& warp, std::byte* to, RecordView r) {
  std::byte* const key = to + sizeof(RecordHeader);
  wrote(key + r.header.key_bytes, r.header.value_bytes);
  warp.copy(key, r.key, r.header.key_bytes);
  auto const store_header = [&] {
    *reinterpret_cast<RecordHeader*>(to) = r.header;
    wrote(to, sizeof r.header);
    return std::uint64_t{0};
  };
  warp.once(store_header);
  std::size_t const bytes = sizeof(RecordHeader) + r.header.key_bytes + r.header.value_bytes;
  r.header.crc = warp.crc32c(0, to + kCrcSkip, bytes - kCrcSkip);
  warp.once(store_header);
}

PERDURE_FN std::uintptr_t place_of(void const* at) { return reinterpret_cast<std::uintptr_t>(at); }

inline constexpr std::size_t kAssembled = 1024;  // larger records are written in place

/// Writes the record at `to`, whole. A CPU puts a small one together in its cache and writes it in one
/// go; `streaming`, past the cache, which pays where neighbouring records follow (no line is fetched
/// only to be overwritten). A GPU sums its parts where they are, for the pool lies across the link, and
/// its lanes write 16 bytes each, so that few and full packets cross it.
template <class W>
PERDURE_FN void write_record(W& warp, std::byte* to, RecordView r, [[maybe_unused]] bool streaming) {
  std::size_t const bytes = sizeof(RecordHeader) + r.header.key_bytes + r.header.value_bytes;
  if constexpr (W::kReadsBackCheaply) {
    if (bytes <= kAssembled) {
      alignas(64) std::byte whole[kAssembled];
      warp.copy(whole + sizeof(RecordHeader), r.key, r.header.key_bytes);
      warp.copy(whole + sizeof(RecordHeader) + r.header.key_bytes, r.value, r.header.value_bytes);
      memcpy(whole, &r.header, sizeof r.header);
      std::uint32_t const crc = warp.crc32c(0, whole + kCrcSkip, bytes - kCrcSkip);
      memcpy(whole, &crc, sizeof crc);
      std::size_t const room = (bytes + kRecordAlign - 1) / kRecordAlign * kRecordAlign;
      for (std::size_t i = bytes; i < room; ++i) whole[i] = std::byte{0};
      return streaming ? warp.stream(to, whole, room) : warp.copy(to, whole, room);
    }
    warp.copy(to + sizeof(RecordHeader) + r.header.key_bytes, r.value, r.header.value_bytes);
    return seal_record(warp, to, r);
  } else {
    std::uint32_t const crc =
        warp.crc32c(0, reinterpret_cast<std::byte const*>(&r.header) + kCrcSkip, sizeof(RecordHeader) - kCrcSkip);
    r.header.crc = warp.crc32c(warp.crc32c(crc, r.key, r.header.key_bytes), r.value, r.header.value_bytes);
    if (mutated(Mutant::record_without_checksum)) r.header.crc = crc;
    std::byte* const key = to + sizeof(RecordHeader);
    if (warp.join(to, r.header, r.key, r.header.key_bytes, r.value, r.header.value_bytes)) return;
    warp.copy(key, r.key, r.header.key_bytes);
    warp.copy(key + r.header.key_bytes, r.value, r.header.value_bytes);
    warp.once([&] {
      *reinterpret_cast<RecordHeader*>(to) = r.header;
      wrote(to, sizeof r.header);
      return std::uint64_t{0};
    });
  }
}

/// Where a record goes, and what it is made of.
struct RecordParts {
  std::byte* to;
  std::byte const* key;
  std::byte const* value;
};

/// Writes a record for each lane of the mask, all with the header's sizes and sequence; `sums` gets the CRC-32C of
/// their values. A GPU's lanes write all of them as one run of words, so that records side by side fill lines.
template <class W>
PERDURE_FN void write_each(W& warp, std::uint32_t mask, RecordHeader const& header,
                           typename W::template Each<RecordParts> const& parts,
                           typename W::template Each<std::uint32_t>& sums) {
  if constexpr (W::kJoinsEach) {
    std::size_t const sizes = std::size_t{header.key_bytes} | header.value_bytes;
    bool const even = sizes % 8 == 0 && header.value_bytes != 0;
    std::uint32_t const odd = warp.vote([&](std::uint32_t lane) {
      RecordParts const& p = parts[lane];
      return (mask >> lane & 1) != 0 && (place_of(p.to) % 16 | (place_of(p.key) | place_of(p.value)) % 8) != 0;
    });
    if (even && odd == 0) {
      warp.sum_each(mask, header.value_bytes, [&](std::uint32_t lane) { return parts[lane].value; }, sums);
      typename W::template Each<RecordHeader> headers;
      warp.each([&](std::uint32_t lane) {
        if ((mask >> lane & 1) == 0) return;
        headers[lane] = header;
        auto const* const bytes = reinterpret_cast<std::byte const*>(&headers[lane]);
        std::uint32_t const head = exec::crc_serial(0, bytes + kCrcSkip, sizeof(RecordHeader) - kCrcSkip);
        std::uint32_t const front = exec::crc_serial(head, parts[lane].key, header.key_bytes);
        headers[lane].crc = W::joined_sum(front, sums[lane], header.value_bytes);
      });
      return warp.join_each(mask, headers, parts, header.key_bytes, header.value_bytes);
    }
  }
  for (; mask != 0; mask &= mask - 1) {
    std::uint32_t const lane = exec::lowest_bit(mask);
    RecordParts const p = warp.pick(parts, lane);
    std::uint32_t const sum = warp.crc32c(0, p.value, header.value_bytes);
    write_record(warp, p.to, {header, p.key, p.value}, false);
    warp.each([&](std::uint32_t each) {
      if (each == lane) sums[each] = sum;
    });
  }
}

PERDURE_FN constexpr std::uint64_t record_bytes(std::uint64_t key_bytes, std::uint64_t value_bytes) {
  return sizeof(RecordHeader) + key_bytes + value_bytes;
}

}  // namespace perdure::pm
