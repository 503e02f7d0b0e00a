// Records: how one is read, checked and written whole, whichever way it lies (record_shape.hpp).
// Invariant: a record's bytes are written and ordered before the first word that leads to it, and
// never change while one does.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/annotate.hpp"
#include "base/assert.hpp"
#include "base/hooks.hpp"
#include "base/offset.hpp"
#include "exec/bits.hpp"
#include "exec/crc_tables.hpp"
#include "pm/host_verbs.hpp"
#include "pm/pool_format.hpp"
#include "pm/record_shape.hpp"

namespace perdure::pm {

/// A record that lies split has no sizes of its own: the header says those of the pool. One that is
/// bare has no header and no key either: whoever knows them says them, and the header's checksum is
/// a short one, of the value alone.
struct RecordView {
  RecordHeader header;
  std::byte const* key;
  std::byte const* value;
  bool split = false;
  bool bare = false;
};

/// What an entry of the log has room for (wal/entries.hpp): of the CRC-32C of a bare record's
/// value, or of a whole record's checksum. It is the former's only checksum.
inline constexpr std::uint32_t kShortSumBits = 24;
PERDURE_FN constexpr std::uint32_t short_sum(std::uint32_t value_sum) {
  return value_sum & ((1u << kShortSumBits) - 1);
}

/// `room` is the most bytes this record may span; a header that claims more is answered with empty
/// key and value, which no checksum forgives.
PERDURE_FN RecordView view_whole(std::byte const* at, std::uint64_t room) {
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

PERDURE_FN RecordView view_split(RecordShape const& shape, std::byte const* head,
                                 std::byte const* value) {
  will_read(head, sizeof(RecordHead) + shape.key_bytes);
  will_read(value, shape.value_bytes);
  RecordHead const front = *reinterpret_cast<RecordHead const*>(head);
  return {{front.crc, shape.value_bytes, shape.key_bytes, 0, front.sequence},
          head + sizeof(RecordHead),
          value,
          true};
}

/// `sum`: short.
PERDURE_FN RecordView view_bare(RecordShape const& shape, std::byte const* key, std::uint32_t sum,
                                std::byte const* value) {
  return {{sum, shape.value_bytes, shape.key_bytes, 0, 0}, key, value, true, true};
}

/// The record at a place of the pool that is mapped at `base`; not a bare one.
PERDURE_FN RecordView view_record(std::byte const* base, RecordShape const& shape, Offset at,
                                  std::uint64_t room) {
  if (shape.split()) return view_split(shape, base + shape.head(at).bytes, base + at.bytes);
  return view_whole(base + at.bytes, room);
}

inline constexpr std::uint32_t kCrcSkip = sizeof(RecordHeader::crc);
static_assert(sizeof(RecordHead::crc) == kCrcSkip);

/// What the checksum covers before the key, of a record that stands in memory: it ends where the
/// key begins.
PERDURE_FN std::uint32_t summed_before_key(bool split) {
  return static_cast<std::uint32_t>(split ? sizeof(RecordHead) : sizeof(RecordHeader)) - kCrcSkip;
}

/// A record's checksum by sum(crc, bytes, n), with other bytes in place of the value.
template <class Sum>
PERDURE_FN std::uint32_t record_sum(RecordView const& r, std::byte const* value, Sum sum) {
  if (r.bare) return short_sum(sum(0, value, r.header.value_bytes));
  std::uint32_t const before = summed_before_key(r.split);
  std::byte const* const front = r.key - before;
  std::size_t const front_bytes = std::size_t{before} + r.header.key_bytes;
  if (value == front + front_bytes) return sum(0, front, front_bytes + r.header.value_bytes);
  return sum(sum(0, front, front_bytes), value, r.header.value_bytes);
}

/// Whether a record is whole, of which `value` is a copy of the value.
template <class W>
PERDURE_FN bool intact(W& warp, RecordView const& r, std::byte const* value) {
  auto const sum = [&](std::uint32_t crc, std::byte const* data, std::size_t bytes) {
    return warp.crc32c(crc, data, bytes);
  };
  return record_sum(r, value, sum) == r.header.crc;
}

/// Whether a record that stands in the pool is whole.
template <class W>
PERDURE_FN bool intact(W& warp, RecordView const& r) {
  return intact(warp, r, r.value);
}

/// Whether a record that lies split, with a head, is whole; `value_sum` is the CRC-32C of its
/// value. By one lane.
template <class W>
PERDURE_FN bool head_says(W& warp, RecordShape const& shape, std::byte const* head,
                          std::byte const* value, [[maybe_unused]] std::uint32_t value_sum) {
  RecordView const r = view_split(shape, head, value);
  if constexpr (requires { W::joined_sum(value_sum, value_sum, sizeof value_sum); }) {
    std::uint32_t const before = summed_before_key(true);
    std::uint32_t const front = exec::crc_serial(0, r.key - before, before + r.header.key_bytes);
    return W::joined_sum(front, value_sum, shape.value_bytes) == r.header.crc;
  } else {  // whose loads are near
    return intact(warp, r);
  }
}

/// Values so long are copied and summed in one pass, which is then as fast as a copy alone: a copy
/// for which every line is fetched that is to be overwritten, and a sum of what has left the caches
/// by then, take half as long again.
inline constexpr std::uint32_t kLongValue = 32u << 10;

/// The checksum of what comes before a record's value.
template <class W>
PERDURE_FN std::uint32_t front_sum(W& warp, RecordView const& r) {
  if (r.bare) return 0;
  std::uint32_t const before = summed_before_key(r.split);
  return warp.crc32c(0, r.key - before, std::size_t{before} + r.header.key_bytes);
}

/// Copies the value of a record that stands in the pool, and answers whether the record is whole.
/// Of one that is not, the copy may be anything.
template <class W>
PERDURE_FN bool copy_intact(W& warp, RecordView const& r, std::byte* to) {
  if constexpr (W::kReadsBackCheaply) {
    if (r.header.value_bytes >= kLongValue) {
      std::uint32_t const sum =
          warp.copy_crc32c(front_sum(warp, r), to, r.value, r.header.value_bytes);
      return (r.bare ? short_sum(sum) : sum) == r.header.crc;
    }
  }
  if (!intact(warp, r)) return false;
  warp.copy(to, r.value, r.header.value_bytes);
  return true;
}

/// Where a record is to be written.
struct RecordAddress {
  std::byte* to;  // its place
  std::byte* head;  // null: it lies whole, or is bare
  bool bare = false;

  [[nodiscard]] PERDURE_FN std::byte* value(std::uint32_t key_bytes) const {
    return bare || head != nullptr ? to : to + sizeof(RecordHeader) + key_bytes;
  }
};

PERDURE_FN RecordAddress address_at(std::byte* base, RecordShape const& shape, Offset at) {
  PERDURE_ASSERT(!kCostlyAssertions || (at.bytes > 0 && at.bytes % kStrideAlign == 0));
  if (shape.bare()) return {base + at.bytes, nullptr, true};
  return {base + at.bytes, shape.split() ? base + shape.head(at).bytes : nullptr};
}

/// What stands before the key: the header, or of a split record its part of it.
template <class Front>
PERDURE_FN Front front_of(RecordHeader const& header) {
  if constexpr (sizeof(Front) == sizeof(RecordHead))
    return {header.crc, static_cast<std::uint32_t>(header.sequence)};
  else
    return header;
}

template <class Front>
PERDURE_FN void store_front(std::byte* to, Front const& front) {
  *reinterpret_cast<Front*>(to) = front;
  wrote(to, sizeof front);
}

/// Completes a record whose value bytes stand in their place already. Returns its checksum; of a
/// bare one, which has none, 0.
template <class W>
PERDURE_FN std::uint32_t seal_record(W& warp, RecordAddress const& address, RecordView r) {
  if (address.bare) {
    wrote(address.to, r.header.value_bytes);
    return 0;
  }
  bool const split = address.head != nullptr;
  std::byte* const front = split ? address.head : address.to;
  std::byte* const key = front + (split ? sizeof(RecordHead) : sizeof(RecordHeader));
  std::byte* const value = address.value(r.header.key_bytes);
  wrote(value, r.header.value_bytes);
  warp.copy(key, r.key, r.header.key_bytes);
  auto const store_header = [&] {
    split ? store_front(front, front_of<RecordHead>(r.header)) : store_front(front, r.header);
    return std::uint64_t{0};
  };
  warp.elect(store_header);
  auto const sum = [&](std::uint32_t crc, std::byte const* data, std::size_t bytes) {
    return warp.crc32c(crc, data, bytes);
  };
  r.header.crc = record_sum({r.header, key, value, split}, value, sum);
  warp.elect(store_header);
  return r.header.crc;
}

PERDURE_FN std::uintptr_t address_of(void const* at) {
  return reinterpret_cast<std::uintptr_t>(at);
}

inline constexpr std::size_t kAssembled = 1024;  // larger records are written in place
static_assert(kAssembled >= RecordShape::kMostSplit);

/// The checksum of what is to be written before the value, from where its parts are.
template <class Front, class W>
PERDURE_FN std::uint32_t sum_front(W& warp, RecordView const& r) {
  Front const front = front_of<Front>(r.header);
  auto const* const bytes = reinterpret_cast<std::byte const*>(&front);
  std::uint32_t const before = warp.crc32c(0, bytes + kCrcSkip, sizeof front - kCrcSkip);
  return warp.crc32c(before, r.key, r.header.key_bytes);
}

/// The checksum of all that is to be written.
template <class Front, class W>
PERDURE_FN std::uint32_t sum_parts(W& warp, RecordView const& r) {
  std::uint32_t const before = sum_front<Front>(warp, r);
  if (mutated("record_without_checksum")) return before;
  return warp.crc32c(before, r.value, r.header.value_bytes);
}

/// A record with a long value: nothing of it is read back. Returns its checksum.
template <class W>
PERDURE_FN std::uint32_t write_long(W& warp, RecordAddress const& address, RecordView const& r) {
  PERDURE_ASSERT(address.head == nullptr && !address.bare);  // as long ones always lie
  std::byte* const value = address.value(r.header.key_bytes);
  will_write(address.to, sizeof(RecordHeader) + r.header.key_bytes + r.header.value_bytes);
  warp.copy(address.to + sizeof(RecordHeader), r.key, r.header.key_bytes);
  RecordHeader header = r.header;
  std::uint32_t const before = sum_front<RecordHeader>(warp, r);
  header.crc = warp.copy_crc32c(before, value, r.value, r.header.value_bytes);
  wrote(value, r.header.value_bytes);
  store_front(address.to, header);
  return header.crc;
}

/// Puts the record together in a CPU's cache, and writes it in one go. Returns its checksum.
template <class W>
PERDURE_FN std::uint32_t write_assembled(W& warp, RecordAddress const& address, RecordView const& r,
                                         bool streaming) {
  alignas(64) std::byte whole[kAssembled];
  std::size_t const front = r.split ? sizeof(RecordHead) : sizeof(RecordHeader);
  std::size_t const bytes = front + r.header.key_bytes + r.header.value_bytes;
  PERDURE_ASSERT(!kCostlyAssertions || bytes <= kAssembled);
  if (r.split) {
    auto const head = front_of<RecordHead>(r.header);
    memcpy(whole, &head, sizeof head);
  } else {
    memcpy(whole, &r.header, sizeof r.header);
  }
  std::byte* const value = whole + front + r.header.key_bytes;
  warp.copy(whole + front, r.key, r.header.key_bytes);
  warp.copy(value, r.value, r.header.value_bytes);
  std::uint32_t const crc = warp.crc32c(0, whole + kCrcSkip, bytes - kCrcSkip);
  memcpy(whole, &crc, sizeof crc);
  auto const room = static_cast<std::size_t>(aligned_up(bytes, kRecordAlign));
  for (std::size_t i = bytes; i < room; ++i) whole[i] = std::byte{0};
  if (!r.split) {
    streaming ? warp.stream(address.to, whole, room) : warp.copy(address.to, whole, room);
    return crc;
  }
  warp.copy(address.head, whole, front + r.header.key_bytes);
  auto const value_room = static_cast<std::size_t>(aligned_up(r.header.value_bytes, kRecordAlign));
  if (streaming && value_room == r.header.value_bytes)
    warp.stream(address.to, value, value_room);
  else
    warp.copy(address.to, value, r.header.value_bytes);
  return crc;
}

/// All of a bare record.
template <class W>
PERDURE_FN void write_value(W& warp, std::byte* to, std::byte const* value, std::uint32_t bytes,
                            [[maybe_unused]] bool streaming) {
  if constexpr (W::kReadsBackCheaply) {
    if (streaming && bytes % kRecordAlign == 0) return warp.stream(to, value, bytes);
  }
  warp.copy(to, value, bytes);
}

/// Writes the record, whole. A CPU puts a small one together in its cache and writes it in one
/// go; `streaming`, past the cache, which pays where neighbouring records follow (no line is
/// fetched only to be overwritten). A GPU sums its parts where they are, for the pool lies across
/// the link, and its lanes write 16 bytes each, so that few and full packets cross it. Returns the
/// record's checksum; of a bare one, which has none, 0.
template <class W>
PERDURE_FN std::uint32_t write_record(W& warp, RecordAddress const& address, RecordView r,
                                      [[maybe_unused]] bool streaming) {
  if (address.bare) {
    write_value(warp, address.to, r.value, r.header.value_bytes, streaming);
    return 0;
  }
  r.split = address.head != nullptr;
  if constexpr (W::kReadsBackCheaply) {
    if (sizeof(RecordHeader) + r.header.key_bytes + r.header.value_bytes <= kAssembled)
      return write_assembled(warp, address, r, streaming);
    if (r.header.value_bytes >= kLongValue) return write_long(warp, address, r);
    warp.copy(address.value(r.header.key_bytes), r.value, r.header.value_bytes);
    return seal_record(warp, address, r);
  } else {
    r.header.crc = r.split ? sum_parts<RecordHead>(warp, r) : sum_parts<RecordHeader>(warp, r);
    if (r.split) {
      warp.copy(address.to, r.value, r.header.value_bytes);
      auto const head = front_of<RecordHead>(r.header);
      if (warp.join(address.head, head, r.key, r.header.key_bytes, r.key, 0)) return r.header.crc;
      warp.copy(address.head + sizeof head, r.key, r.header.key_bytes);
      warp.elect([&] {
        store_front(address.head, head);
        return std::uint64_t{0};
      });
      return r.header.crc;
    }
    if (warp.join(address.to, r.header, r.key, r.header.key_bytes, r.value, r.header.value_bytes))
      return r.header.crc;
    std::byte* const key = address.to + sizeof(RecordHeader);
    warp.copy(key, r.key, r.header.key_bytes);
    warp.copy(key + r.header.key_bytes, r.value, r.header.value_bytes);
    warp.elect([&] {
      store_front(address.to, r.header);
      return std::uint64_t{0};
    });
    return r.header.crc;
  }
}

/// Where a record goes, and what it is made of.
struct RecordParts {
  RecordAddress address;
  std::byte const* key;
  std::byte const* value;
};

/// write_record() of one lane's; returns the CRC-32C of its value. A CPU reads a small value once,
/// so that what it sums is what it writes, whatever becomes of the caller's array meanwhile.
template <class W>
PERDURE_FN std::uint32_t write_lane(W& warp, RecordHeader const& header, RecordParts const& p,
                                    bool streaming) {
  if constexpr (W::kReadsBackCheaply) {
    if (header.value_bytes <= kAssembled) {
      alignas(64) std::byte value[kAssembled];
      warp.copy(value, p.value, header.value_bytes);
      write_record(warp, p.address, {header, p.key, value}, streaming);
      return warp.crc32c(0, value, header.value_bytes);
    }
  }
  write_record(warp, p.address, {header, p.key, p.value}, streaming);
  return warp.crc32c(0, p.value, header.value_bytes);
}

/// Writes a record for each lane of the mask, all with the header's sizes and sequence; `sums` gets
/// the CRC-32C of their values. A GPU's lanes write all of them as runs of words, so that records
/// side by side fill lines; `streaming` says which lanes' a CPU writes past the cache, see
/// write_record().
template <class W>
PERDURE_FN void write_each(W& warp, std::uint32_t mask, [[maybe_unused]] std::uint32_t streaming,
                           RecordShape const& shape, RecordHeader const& header,
                           typename W::template Each<RecordParts> const& parts,
                           typename W::template Each<std::uint32_t>& sums) {
  if constexpr (W::kJoinsEach) {
    std::size_t const sizes = std::size_t{header.key_bytes} | header.value_bytes;
    bool const even = sizes % 8 == 0 && header.value_bytes != 0;
    std::uint32_t const odd = warp.ballot([&](std::uint32_t lane) {
      RecordParts const& p = parts[lane];
      std::uintptr_t const addresses = address_of(p.address.to) | address_of(p.address.head);
      return (mask >> lane & 1) != 0 &&
             (addresses % 8 | (address_of(p.key) | address_of(p.value)) % 8) != 0;
    });
    if (even && odd == 0) return join_records(warp, mask, shape, header, parts, sums);
  }
  for (; mask != 0; mask &= mask - 1) {
    std::uint32_t const lane = exec::lowest_bit(mask);
    RecordParts const p = warp.broadcast(parts, lane);
    std::uint32_t const sum = write_lane(warp, header, p, (streaming >> lane & 1) != 0);
    warp.each([&](std::uint32_t each) {
      if (each == lane) sums[each] = sum;
    });
  }
}

/// The front of a record and its key, in words of 8 bytes.
template <class Front>
struct FrontParts {
  static constexpr std::uint32_t kWords = sizeof(Front) / 8;
  std::uint64_t front[kWords];
  std::byte* to;
  std::byte const* key;
  std::byte const* value;

  PERDURE_FN std::uint64_t word(std::uint32_t w, std::uint32_t key_words) const {
    for (std::uint32_t i = 0; i < kWords; ++i)
      if (w == i) return front[i];  // without an index, so that it stays in registers
    if (w < kWords + key_words) return reinterpret_cast<std::uint64_t const*>(key)[w - kWords];
    return reinterpret_cast<std::uint64_t const*>(value)[w - kWords - key_words];
  }
};

/// write_each() of fronts of one kind, the CRC-32C of all values known; with the values themselves
/// or without.
template <class Front, class W>
PERDURE_FN void join_fronts(W& warp, std::uint32_t mask, RecordHeader const& header,
                            typename W::template Each<RecordParts> const& parts,
                            typename W::template Each<std::uint32_t> const& sums,
                            std::uint32_t value_bytes) {
  typename W::template Each<FrontParts<Front>> fronts;
  warp.each([&](std::uint32_t lane) {
    if ((mask >> lane & 1) == 0) return;
    RecordParts const& p = parts[lane];
    Front front = front_of<Front>(header);
    auto const* const bytes = reinterpret_cast<std::byte const*>(&front);
    std::uint32_t const before = exec::crc_serial(0, bytes + kCrcSkip, sizeof front - kCrcSkip);
    front.crc = W::joined_sum(exec::crc_serial(before, p.key, header.key_bytes), sums[lane],
                              header.value_bytes);
    FrontParts<Front>& mine = fronts[lane];
    memcpy(mine.front, &front, sizeof front);
    mine.to = p.address.head != nullptr ? p.address.head : p.address.to;
    mine.key = p.key;
    mine.value = p.value;
  });
  std::uint32_t const key_words = header.key_bytes / 8;
  std::uint32_t const words = FrontParts<Front>::kWords + key_words + value_bytes / 8;
  warp.join_each(mask, fronts, words,
                 [&](FrontParts<Front> const& f, std::uint32_t w) { return f.word(w, key_words); });
}

struct ValueParts {
  std::byte* to;
  std::byte const* value;
};

template <class W>
PERDURE_FN void join_records(W& warp, std::uint32_t mask, RecordShape const& shape,
                             RecordHeader const& header,
                             typename W::template Each<RecordParts> const& parts,
                             typename W::template Each<std::uint32_t>& sums) {
  if (shape.bare() && header.value_bytes % 128 == 0) {  // each line whole, without the others' help
    return warp.copy_each(
        mask, header.value_bytes, [&](std::uint32_t lane) { return parts[lane].address.to; },
        [&](std::uint32_t lane) { return parts[lane].value; }, &sums);
  }
  warp.sum_each(
      mask, header.value_bytes, [&](std::uint32_t lane) { return parts[lane].value; }, sums);
  if (!shape.split())
    return join_fronts<RecordHeader>(warp, mask, header, parts, sums, header.value_bytes);
  typename W::template Each<ValueParts> values;
  warp.each(
      [&](std::uint32_t lane) { values[lane] = {parts[lane].address.to, parts[lane].value}; });
  warp.join_each(mask, values, header.value_bytes / 8, [](ValueParts const& p, std::uint32_t w) {
    return reinterpret_cast<std::uint64_t const*>(p.value)[w];
  });
  if (!shape.bare()) join_fronts<RecordHead>(warp, mask, header, parts, sums, 0);
}

PERDURE_FN constexpr std::uint64_t record_bytes(std::uint64_t key_bytes,
                                                std::uint64_t value_bytes) {
  return sizeof(RecordHeader) + key_bytes + value_bytes;
}

}  // namespace perdure::pm
