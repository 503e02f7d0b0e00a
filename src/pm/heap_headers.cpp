#include "pm/heap_headers.hpp"

#include <bit>
#include <cstddef>
#include <cstring>

#include "base/assert.hpp"
#include "base/crc32c.hpp"
#include "base/hooks.hpp"
#include "pm/superblock_front.hpp"

namespace perdure::pm {

SuperblockHeader HeapHeaders::read(Offset superblock) const {
  SuperblockHeader header;
  read_bytes(&header, pool_->base() + superblock.bytes, sizeof header);
  return header;
}

bool HeapHeaders::is_ours(SuperblockHeader const& header) const {
  return header.magic == kSuperblockMagic && header.pool_id == pool_->header().pool_id &&
         header.crc == crc32c(0, &header, offsetof(SuperblockHeader, crc)) &&
         header.record_bytes % kStrideAlign == 0 && header.record_bytes > 0 &&
         shape_.capacity(header.record_bytes) > 0 &&
         (!shape_.split() || header.record_bytes == shape_.split_stride());
}

bool HeapHeaders::has_record(Offset record, std::uint64_t stride) const {
  PERDURE_ASSERT(stride > 0);
  return room(record) == stride;
}

std::uint64_t HeapHeaders::room(Offset record) const {
  std::uint64_t const index = record.bytes / pool_->superblock_bytes();
  if (index == 0 || index >= pool_->superblocks() || !pool_->is_free(at(index))) return 0;
  SuperblockHeader const header = read(at(index));
  std::uint64_t const inside = record.bytes % pool_->superblock_bytes();
  std::uint64_t number = 0;
  return is_ours(header) && shape_.index(header.record_bytes, inside, number) ? header.record_bytes
                                                                              : 0;
}

void HeapHeaders::write(Offset superblock, std::uint64_t stride) const {
  SuperblockHeader header{};
  header.magic = kSuperblockMagic;
  header.record_bytes = static_cast<std::uint32_t>(stride);
  header.pool_id = pool_->header().pool_id;
  header.crc = crc32c(0, &header, offsetof(SuperblockHeader, crc));
  if (!mutated("superblock_header_missing")) write_front(*pool_, superblock, header);
}

std::vector<Offset> HeapHeaders::broken() const {
  PERDURE_ASSERT(pool_->header().btree());
  std::vector<Offset> found;
  for (std::uint64_t i = 1; i < pool_->superblocks(); ++i) {
    if (!pool_->is_free(at(i)) || load_word(pool_->base() + at(i).bytes) == 0 ||
        is_ours(read(at(i))))
      continue;
    BlocksHeader header;
    read_bytes(&header, pool_->base() + at(i).bytes, sizeof header);
    BlocksHeader const blocks = blocks_front(pool_->header(), header.block_bytes);
    if (std::memcmp(&header, &blocks, sizeof header) != 0) found.push_back(at(i));
  }
  return found;
}

std::vector<HeapHeaders::Mend> HeapHeaders::damaged() const {
  std::vector<Mend> found;
  for (std::uint64_t i = 1; i < pool_->superblocks(); ++i) {
    SuperblockHeader header = read(at(i));
    int wrong = std::popcount(header.magic ^ kSuperblockMagic);
    for (std::size_t b = 0; b < header.pool_id.size(); ++b)
      wrong +=
          std::popcount(static_cast<std::uint8_t>(header.pool_id[b] ^ pool_->header().pool_id[b]));
    if (wrong > 2 || is_ours(header) || !pool_->is_free(at(i))) continue;
    if (mended(header)) found.push_back({at(i), header});
  }
  return found;
}

/// Whether one bit flipped back, or two, make it whole; then they are.
bool HeapHeaders::mended(SuperblockHeader& header) const {
  auto* const bytes = reinterpret_cast<std::uint8_t*>(&header);
  auto const flip = [&](std::uint32_t bit) {
    bytes[bit / 8] ^= static_cast<std::uint8_t>(1u << bit % 8);
  };
  for (std::uint32_t a = 0; a < sizeof header * 8; ++a) {
    flip(a);
    if (is_ours(header)) return true;
    for (std::uint32_t b = a + 1; b < sizeof header * 8; ++b) {
      flip(b);
      if (is_ours(header)) return true;
      flip(b);
    }
    flip(a);
  }
  return false;
}

void HeapHeaders::mend(std::vector<Mend> const& headers) const {
  for (Mend const& one : headers) {
    PERDURE_ASSERT(one.at.bytes > 0 && one.at.bytes % pool_->superblock_bytes() == 0);
    PERDURE_ASSERT(is_ours(one.header) && pool_->is_free(one.at));
    write_bytes(pool_->base() + one.at.bytes, &one.header, sizeof one.header);
  }
  order();
}

void HeapHeaders::keep_damaged() const {
  for (std::uint64_t i = 1; i < pool_->superblocks(); ++i) {
    if (!pool_->is_free(at(i))) continue;
    SuperblockHeader const header = read(at(i));
    if (header.magic == kSuperblockMagic || header.pool_id == pool_->header().pool_id)
      pool_->claim_run(at(i), 1);
  }
}

}  // namespace perdure::pm
