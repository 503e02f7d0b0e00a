// Reads of RocksDB through the block cache.
//
// Invariant: what is answered is what RocksDB would answer, in one state of it: that of the
// snapshot in the options, or the present, which is the state of RocksDB's last sequence number as
// long as that stays the same.
#pragma once

#include <rocksdb/db.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "lsm/cache/block_cache.hpp"
#include "lsm/rocks/families.hpp"

namespace perdure::lsm {

class CachedReads {
 public:
  /// `cache` is null where there is none.
  CachedReads(rocksdb::DB& base, Families const& families, BlockCache* cache)
      : base_(base), families_(families), cache_(cache) {}

  rocksdb::Status get(rocksdb::ReadOptions const& options, rocksdb::ColumnFamilyHandle* family,
                      rocksdb::Slice const& key, rocksdb::PinnableSlice* value);
  void multi_get(rocksdb::ReadOptions const& options, rocksdb::ColumnFamilyHandle* family,
                 std::span<rocksdb::Slice const> keys, rocksdb::PinnableSlice* values,
                 rocksdb::Status* statuses, bool sorted);

  // Piece by piece, for who has columns rather than slices.
  /// Nothing: the cache does not know what these options see.
  std::optional<CacheTicket> ticket(rocksdb::ReadOptions const& options, std::uint32_t family,
                                    std::uint64_t keys);
  [[nodiscard]] BlockCache* cache() { return cache_; }
  /// Of a read by RocksDB itself, after the ticket was taken: whether it saw the ticket's state.
  [[nodiscard]] bool saw(CacheTicket const& ticket, rocksdb::ReadOptions const& options) const;
  /// What RocksDB said; statuses other than OK and NotFound are not kept.
  void keep(CacheTicket const& ticket, std::uint32_t family, rocksdb::Slice const& key,
            rocksdb::Slice const& value, rocksdb::Status const& status);

 private:
  [[nodiscard]] std::uint64_t sequence(rocksdb::ReadOptions const& options) const;
  /// Answers what the cache knows, and notes the others. Whether that can be believed.
  bool look_up(CacheTicket const& ticket, std::uint32_t family,
               std::span<rocksdb::Slice const> keys, rocksdb::PinnableSlice* values,
               rocksdb::Status* statuses, std::vector<std::uint32_t>& missing);

  rocksdb::DB& base_;
  Families const& families_;
  BlockCache* const cache_;
};

}  // namespace perdure::lsm
