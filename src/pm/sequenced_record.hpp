// Records of a pool whose index is rebuilt from them: a record says itself whether it counts. One
// with sequence 0 is free, whatever else stands there; any other is valid, and of two valid ones
// with one key the higher sequence counts (the thesis's section 2.4, minimal persistence with an
// allocator, where a freed item has a null checksum: here it is the sequence, so that one store of
// 8 bytes frees a record).
//
// Invariants: records lie whole. What is not in use is free in storage, too: so a superblock's
// records are freed before its header says that it is the heap's. A record becomes valid by one
// store of its sequence, after all else of it: so a kill leaves none that is valid in part, and a
// valid one whose checksum does not match is damaged.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/assert.hpp"
#include "base/crc32c.hpp"
#include "base/hooks.hpp"
#include "pm/host_verbs.hpp"
#include "pm/pool_format.hpp"
#include "pm/record_shape.hpp"

namespace perdure::pm {

struct SequencedRecord {
  RecordHeader header;  // of one that is free the sequence is 0
  std::byte const* key = nullptr;
  std::byte const* value = nullptr;

  [[nodiscard]] bool free() const { return header.sequence == 0; }
  [[nodiscard]] std::span<std::byte const> key_bytes() const { return {key, header.key_bytes}; }
  [[nodiscard]] std::span<std::byte const> value_bytes() const {
    return {value, header.value_bytes};
  }
};

[[nodiscard]] inline std::uint64_t* sequence_word(std::byte* record) {
  return reinterpret_cast<std::uint64_t*>(record + offsetof(RecordHeader, sequence));
}

/// The record that lies there, of at most `room` bytes. Others may free it meanwhile, and nothing
/// else. A header that claims more room has no key and no value, which no checksum forgives.
template <class Host>
[[nodiscard]] SequencedRecord view_sequenced(Host& host, std::byte* record, std::uint64_t room) {
  auto const& front = *reinterpret_cast<RecordHeader const*>(record);
  host.read(record, sizeof front);
  SequencedRecord r;
  r.header.sequence = host.load(sequence_word(record));
  r.header.crc = front.crc;
  r.header.value_bytes = front.value_bytes;
  r.header.key_bytes = front.key_bytes;
  r.header.tag = front.tag;
  if (sizeof front + std::uint64_t{front.key_bytes} + front.value_bytes > room)
    r.header.key_bytes = r.header.value_bytes = 0;
  r.key = record + sizeof front;
  r.value = r.key + r.header.key_bytes;
  return r;
}

[[nodiscard]] inline std::uint32_t sum_of(RecordHeader const& header, std::byte const* key,
                                          std::byte const* value) {
  std::uint32_t const front = crc32c(0, &header.value_bytes, sizeof header - sizeof header.crc);
  return crc32c(crc32c(front, key, header.key_bytes), value, header.value_bytes);
}
static_assert(offsetof(RecordHeader, value_bytes) == sizeof(RecordHeader::crc));

/// Of a valid one.
[[nodiscard]] inline bool intact(SequencedRecord const& r) {
  will_read(r.key, std::uint64_t{r.header.key_bytes} + r.header.value_bytes);
  return sum_of(r.header, r.key, r.value) == r.header.crc;
}

/// Not ordered yet.
template <class Host>
void write_parts(Host& host, std::byte* record, RecordHeader const& header, std::byte const* key,
                 std::byte const* value) {
  std::byte* const rest = record + sizeof header;
  host.write(record, &header, sizeof header);
  host.write(rest, key, header.key_bytes);
  if (header.value_bytes != 0) host.write(rest + header.key_bytes, value, header.value_bytes);
  host.flush(record, sizeof header + header.key_bytes + header.value_bytes);
}

/// Writes all of a free record that it has once it is valid by header.sequence, save that. It is
/// not ordered yet.
template <class Host>
void prepare_record(Host& host, std::byte* record, RecordHeader header, std::byte const* key,
                    std::byte const* value) {
  PERDURE_ASSERT(header.sequence != 0 && header.tag == 0);
  header.crc = sum_of(header, key, value);
  if (!mutated("btree_record_valid_before_whole")) header.sequence = 0;
  write_parts(host, record, header, key, value);
}

/// A whole record, ordered, which counts once an index that is durable leads to it.
template <class Host>
void write_whole(Host& host, std::byte* record, RecordHeader header, std::byte const* key,
                 std::byte const* value) {
  PERDURE_ASSERT(header.sequence != 0 && header.tag == 0);
  header.crc = sum_of(header, key, value);
  write_parts(host, record, header, key, value);
  host.fence();
}

/// The same record is to have another sequence.
template <class Host>
void prepare_again(Host& host, std::byte* record, std::uint64_t sequence) {
  RecordHeader header;
  read_bytes(&header, record, sizeof header);
  std::byte const* const key = record + sizeof header;
  header.sequence = sequence;
  header.crc = sum_of(header, key, key + header.key_bytes);
  host.write(record, &header.crc, sizeof header.crc);
  host.flush(record, sizeof header.crc);
}

/// From here on, durably, a record that was prepared counts. On a medium that keeps stores in their
/// order the fence between its bytes and its sequence costs nothing; elsewhere the checksum tells a
/// sequence that arrived alone.
template <class Host>
void make_valid(Host& host, std::byte* record, std::uint64_t sequence) {
  PERDURE_ASSERT(sequence != 0);
  host.store(sequence_word(record), sequence);
  if (mutated("btree_record_not_flushed")) return;
  host.flush(sequence_word(record), sizeof sequence);
  host.fence();
}

/// From here on, durably, it does not.
template <class Host>
void make_free(Host& host, std::byte* record) {
  host.store(sequence_word(record), 0);
  if (!mutated("btree_free_not_flushed"))
    host.persist(sequence_word(record), sizeof(std::uint64_t));
}

/// All records of a superblock that is nobody's, ordered.
inline void free_all_records(std::byte* superblock, RecordShape const& shape,
                             std::uint64_t stride) {
  PERDURE_ASSERT(!shape.split());
  for (std::uint64_t i = 0; i < shape.capacity(stride); ++i) {
    std::byte* const record = superblock + shape.address(stride, i);
    if (load_word(reinterpret_cast<std::byte*>(sequence_word(record))) != 0)
      store_word(sequence_word(record), 0);
  }
  order();
}

}  // namespace perdure::pm
