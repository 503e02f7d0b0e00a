// Records as a Dash table's slots lead to them, read and written by threads of the host. The bytes
// are those of every pool (pm/record.hpp). Invariant: what a damaged slot leads to is never
// followed out of the pool.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>

#include "base/assert.hpp"
#include "base/crc32c.hpp"
#include "base/hash.hpp"
#include "base/prefetch.hpp"
#include "pm/flush.hpp"
#include "pm/record.hpp"
#include "pm/stream.hpp"

namespace perdure::threads {

/// A thread of the host in place of a warp: what pm/record.hpp asks of one.
struct HostThread {
  static constexpr bool kReadsBackCheaply = true;
  static std::uint32_t crc32c(std::uint32_t crc, std::byte const* data, std::size_t bytes) {
    return perdure::crc32c(crc, data, bytes);
  }
  static std::uint32_t copy_crc32c(std::uint32_t crc, std::byte* to, std::byte const* from,
                                   std::size_t bytes) {
    return perdure::copy_crc32c(crc, to, from, bytes);
  }
  static void copy(std::byte* to, std::byte const* from, std::size_t bytes) {
    if (bytes != 0) pm::write_bytes(to, from, bytes);
  }
  static void stream(std::byte* to, std::byte const* from, std::size_t bytes) {
    pm::stream_bytes(to, from, bytes);
  }
  template <class F>
  static std::uint64_t elect(F f) {
    return f();
  }
};

/// Plain data, which every table has a copy of.
class Records {
 public:
  Records(std::byte* base, pm::RecordShape const& shape,
          std::atomic<std::uint64_t> const& pool_bytes)
      : base_(base), shape_(shape), pool_bytes_(&pool_bytes) {}

  /// None: no record can lie there.
  [[nodiscard]] std::optional<pm::RecordView> view(std::uint64_t address) const {
    std::uint64_t const inside = address & (shape_.superblock_bytes - 1);
    std::uint64_t const room = shape_.superblock_bytes - inside;
    std::uint64_t const least = shape_.split() ? shape_.value_bytes : sizeof(pm::RecordHeader);
    bool const possible = address >= shape_.superblock_bytes && address % pm::kRecordAlign == 0 &&
                          inside >= pm::kFirstRecord && room >= least &&
                          address + room <= pool_bytes_->load(std::memory_order_acquire);
    if (!possible) return std::nullopt;
    return pm::view_record(base_, shape_, Offset{address}, room);
  }
  [[nodiscard]] static bool intact(pm::RecordView const& record) {
    HostThread thread;
    return pm::intact(thread, record);
  }

  /// Whether a record of this key lies there.
  [[nodiscard]] bool has(std::uint64_t address, std::byte const* key, std::size_t bytes) const {
    auto const record = view(address);
    return record && is_of(*record, key, bytes);
  }
  [[nodiscard]] static bool is_of(pm::RecordView const& record, std::byte const* key,
                                  std::size_t bytes) {
    if (record.header.key_bytes != bytes) return false;
    // The usual size without a call.
    if (bytes == 8) return std::memcmp(record.key, key, 8) == 0;
    return std::memcmp(record.key, key, bytes) == 0;
  }

  // What dash::RecordKeys asks, of slots and keys of equal hashes.
  /// A slot whose record has not that hash is the key's as well: damaged, and to be told from one
  /// that is not there.
  template <class Host>
  [[nodiscard]] bool equal(Host& host, std::uint64_t address, std::byte const* key,
                           std::size_t bytes, std::uint64_t hash) const {
    auto const record = view(address);
    if (!record) return true;
    host.read(record->key, bytes);
    if (is_of(*record, key, bytes)) return true;
    return hash_bytes(record->key, record->header.key_bytes) != hash;
  }
  template <class Host>
  [[nodiscard]] bool same(Host&, std::uint64_t a, std::uint64_t b) const {
    auto const record = view(b);
    return record && has(a, record->key, record->header.key_bytes);
  }

  /// A record that may lie there, of so many bytes with its head, which may lie apart.
  void prefetch(std::uint64_t address, std::uint64_t bytes) const {
    if (address % pm::kRecordAlign != 0 || address < shape_.superblock_bytes ||
        address + bytes > pool_bytes_->load(std::memory_order_relaxed))
      return;
    pm::RecordAddress const record_at = pm::address_at(base_, shape_, Offset{address});
    if (record_at.head != nullptr) prefetch_line(record_at.head);
    // Its lines and no more: the one after a value that ends with a line is another record's.
    std::byte const* const end =
        record_at.to + (record_at.head != nullptr ? shape_.value_stride : bytes);
    std::byte const* line = record_at.to - address % pm::kCacheLine;
    for (; line < end; line += pm::kCacheLine) prefetch_line(line);
  }

  /// Writes a whole record, and orders it.
  template <class Host>
  void write(Host& host, std::uint64_t address, pm::RecordView const& record) const {
    PERDURE_ASSERT(address >= shape_.superblock_bytes &&
                   address < pool_bytes_->load(std::memory_order_relaxed));
    HostThread thread;
    pm::RecordAddress const record_at = pm::address_at(base_, shape_, Offset{address});
    pm::write_record(thread, record_at, record, false);
    std::uint64_t const front =
        (record_at.head != nullptr ? sizeof(pm::RecordHead) : sizeof(pm::RecordHeader));
    if (record_at.head != nullptr) {
      host.flush(record_at.head, front + record.header.key_bytes);
      host.flush(record_at.to, record.header.value_bytes);
    } else {
      host.flush(record_at.to, front + record.header.key_bytes + record.header.value_bytes);
    }
    host.fence();
  }

 private:
  std::byte* base_;
  pm::RecordShape shape_;
  std::atomic<std::uint64_t> const* pool_bytes_;
};

}  // namespace perdure::threads
