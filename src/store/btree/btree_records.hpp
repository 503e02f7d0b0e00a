// Records as a B+-tree's entries lead to them, and keys as the tree compares them. The bytes are
// those of pm/sequenced_record.hpp. Invariant: a record that an entry led to is read only under a
// guard that was there before the entry went, so its bytes stay; its sequence alone may go.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "base/assert.hpp"
#include "base/prefetch.hpp"
#include "index/btree/keys.hpp"
#include "perdure/options.h"
#include "pm/lines.hpp"
#include "pm/sequenced_record.hpp"

namespace perdure {

/// Plain data, which every tree has a copy of.
class BtreeRecords {
 public:
  BtreeRecords(std::byte* base, std::uint64_t superblock_bytes)
      : base_(base), superblock_bytes_(superblock_bytes) {
    PERDURE_ASSERT((superblock_bytes & (superblock_bytes - 1)) == 0);
  }

  [[nodiscard]] std::byte* at(std::uint64_t word) const {
    PERDURE_ASSERT(!kCostlyAssertions || word >= superblock_bytes_);
    return base_ + word;
  }
  /// From there to the end of its superblock.
  [[nodiscard]] std::uint64_t room(std::uint64_t word) const {
    return superblock_bytes_ - (word & (superblock_bytes_ - 1));
  }
  template <class Host>
  [[nodiscard]] pm::SequencedRecord view(Host& host, std::uint64_t word) const {
    return pm::view_sequenced(host, at(word), room(word));
  }
  /// What btree::ByteKeys asks. No data: the record claims more room than there is.
  [[nodiscard]] std::span<std::byte const> key_at(std::uint64_t word) const {
    auto const& header = *reinterpret_cast<pm::RecordHeader const*>(at(word));
    pm::will_read(&header, sizeof header);
    std::uint64_t const bytes = sizeof header + std::uint64_t{header.key_bytes};
    if (bytes + header.value_bytes > room(word)) return {};
    pm::will_read(at(word) + sizeof header, header.key_bytes);
    return {at(word) + sizeof header, header.key_bytes};
  }
  /// The first lines of a record, of at most so many bytes.
  void prefetch(std::uint64_t word, std::uint64_t bytes) const {
    for (std::uint64_t at = 0; at < bytes; at += pm::kCacheLine) prefetch_line(base_ + word + at);
  }

 private:
  std::byte* base_;
  std::uint64_t superblock_bytes_;
};

/// Keys of a pool as its tree has them: bytes as they are, and integers as the bytes of the same
/// order.
template <class Keys>
class BtreeKeyMaker {
 public:
  explicit BtreeKeyMaker(KeyOrder order) : order_(order) {}

  [[nodiscard]] btree::Key operator()(std::span<std::byte const> key) const {
    if (order_ == KeyOrder::bytes) return Keys::key(key.data(), key.size());
    std::uint64_t number = 0;
    PERDURE_ASSERT(!Keys::kTails && key.size() <= sizeof number);
    std::memcpy(&number, key.data(), key.size());
    number <<= 64 - 8 * key.size();
    if (order_ == KeyOrder::signed_integer) number ^= std::uint64_t{1} << 63;
    return {number, key.data(), key.size()};
  }

 private:
  KeyOrder order_;
};

}  // namespace perdure
