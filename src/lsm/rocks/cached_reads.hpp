// Reads of RocksDB through the block cache.
//
// Invariant: what is answered is what RocksDB would answer, in one state of it: that of the
// snapshot in the options, or the present, which is the state of RocksDB's last sequence number as
// long as that stays the same.
#pragma once

#include <rocksdb/db.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "lsm/cache/block_cache.hpp"
#include "lsm/rocks/families.hpp"

namespace perdure::lsm {

/// Of one thread's single Gets, which ask the cache: a Get that it does not answer costs half as
/// much again, at a low rate, when nothing of the cache is near. So one of eight tries it, and the
/// others as long as it answers one of three.
class SingleGets {
 public:
  [[nodiscard]] bool ask();
  void answered(bool hit);

 private:
  static constexpr std::uint32_t kTried = 8, kMostTrust = 16;
  std::uint32_t gets_ = 0;
  std::uint32_t trust_ = 0;
};

class CachedReads {
 public:
  /// `cache` is null where there is none.
  CachedReads(rocksdb::DB& base, Families const& families, BlockCache* cache)
      : base_(base), families_(families), cache_(cache) {}

  rocksdb::Status get(rocksdb::ReadOptions const& options, rocksdb::ColumnFamilyHandle* family,
                      rocksdb::Slice const& key, rocksdb::PinnableSlice* value);
  /// The answer is how many of them the block cache knew.
  std::size_t multi_get(rocksdb::ReadOptions const& options, rocksdb::ColumnFamilyHandle* family,
                        std::span<rocksdb::Slice const> keys, rocksdb::PinnableSlice* values,
                        rocksdb::Status* statuses, bool sorted);

  /// Whether the cache may answer reads of the family with such options.
  [[nodiscard]] bool may_answer(rocksdb::ReadOptions const& options, std::uint32_t family) const;
  // Piece by piece, for who has columns rather than slices, and reads at a snapshot.
  /// Nothing: the cache does not know what these options see.
  std::optional<CacheTicket> ticket(rocksdb::ReadOptions const& options, std::uint32_t family,
                                    std::uint64_t keys);
  /// Of n keys, keys.at(i) and keys.size(i): known(i, OK or NotFound, value) or unknown(i) of each,
  /// in their order.
  template <class Keys, class Known, class Unknown>
  void look_up(CacheTicket const& ticket, std::uint32_t family, Keys const& keys, std::size_t n,
               Known known, Unknown unknown);

 private:
  static constexpr std::size_t kPart = 256;  // keys whose values fit a core's cache

  [[nodiscard]] std::uint64_t sequence(rocksdb::ReadOptions const& options) const;
  static rocksdb::Status status_of(CacheAnswer const& known) {
    return known.found == Cached::value ? rocksdb::Status::OK() : rocksdb::Status::NotFound();
  }
  static rocksdb::Slice value_of(CacheAnswer const& known, std::uint64_t const* at) {
    return {reinterpret_cast<char const*>(at), known.size};
  }
  /// A thread's own room for values.
  static std::uint64_t* room(std::size_t words);
  /// Of a read by RocksDB itself, after the ticket was taken: whether it saw the ticket's state.
  [[nodiscard]] bool saw(CacheTicket const& ticket, rocksdb::ReadOptions const& options) const;
  /// What RocksDB said; statuses other than OK and NotFound are not kept.
  void keep(CacheTicket const& ticket, std::uint32_t family, rocksdb::Slice const& key,
            rocksdb::Slice const& value, rocksdb::Status const& status);

  rocksdb::DB& base_;
  Families const& families_;
  BlockCache* const cache_;
};

template <class Keys, class Known, class Unknown>
void CachedReads::look_up(CacheTicket const& ticket, std::uint32_t family, Keys const& keys,
                          std::size_t n, Known known, Unknown unknown) {
  struct Shifted {
    Keys const& all;
    std::size_t first;
    [[nodiscard]] std::byte const* at(std::size_t i) const { return all.at(first + i); }
    [[nodiscard]] std::uint32_t size(std::size_t i) const { return all.size(first + i); }
  };
  std::array<CacheAnswer, kPart> answers;
  std::uint64_t* const values = room(kPart * cache_->value_words());
  for (std::size_t first = 0; first < n; first += kPart) {
    std::size_t const here = std::min(kPart, n - first);
    bool const believed =
        cache_->look_up(ticket, family, Shifted{keys, first}, here, answers.data(), values) > 0 &&
        cache_->holds(ticket);
    for (std::size_t i = 0; i < here; ++i) {
      CacheAnswer const& one = answers[i];
      if (believed && is_known(one.found))
        known(first + i, status_of(one), value_of(one, values + i * cache_->value_words()));
      else
        unknown(first + i);
    }
  }
}

}  // namespace perdure::lsm
