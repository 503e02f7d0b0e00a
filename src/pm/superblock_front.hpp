// What a superblock begins with: a SuperblockHeader of the record heap, or a BlocksHeader.
// Invariant: in a pool of index btree it is never half there, so that one which is no header is
// damage, whatever the pool lived through.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/crc32c.hpp"
#include "base/offset.hpp"
#include "pm/host_verbs.hpp"
#include "pm/pool.hpp"

namespace perdure::pm {

template <class Header>
void write_front(Pool& pool, Offset superblock, Header const& header) {
  static_assert(sizeof header == 64);
  std::byte* const to = pool.base() + superblock.bytes;
  if (!pool.header().btree()) return write_bytes(to, &header, sizeof header);
  std::uint64_t first = 0;
  std::memcpy(&first, &header, sizeof first);
  auto* const word = reinterpret_cast<std::uint64_t*>(to);
  if (load_word(to) != 0) {
    store_word(word, 0);
    order();
  }
  write_bytes(to + sizeof first, reinterpret_cast<std::byte const*>(&header) + sizeof first,
              sizeof header - sizeof first);
  order();
  store_word(word, first);
}

/// The header of blocks of so many bytes in this pool: all of it is known.
[[nodiscard]] inline BlocksHeader blocks_front(PoolHeader const& pool, std::uint64_t block_bytes) {
  BlocksHeader header{};
  header.magic = kBlocksMagic;
  header.block_bytes = static_cast<std::uint32_t>(block_bytes);
  header.pool_id = pool.pool_id;
  header.crc = crc32c(0, &header, offsetof(BlocksHeader, crc));
  return header;
}

}  // namespace perdure::pm
