#include "pm/blocks.hpp"

#include <bit>
#include <cstddef>
#include <cstring>

#include "base/assert.hpp"
#include "pm/host_verbs.hpp"
#include "pm/superblock_front.hpp"

namespace perdure::pm {

Blocks::Blocks(Pool& pool, Mutex& memory, std::uint64_t block_bytes)
    : pool_(&pool), memory_(&memory), block_bytes_(block_bytes) {
  PERDURE_ASSERT(block_bytes > 0 && block_bytes % kBlockAlign == 0 && capacity() > 0);
}

std::uint64_t Blocks::capacity() const {
  return (pool_->superblock_bytes() - kBlockAlign) / block_bytes_;
}

Offset Blocks::block_at(std::uint64_t superblock, std::uint64_t index) const {
  PERDURE_ASSERT(superblock > 0 && index < capacity());
  return Offset{superblock * pool_->superblock_bytes() + kBlockAlign + index * block_bytes_};
}

std::uint64_t Blocks::index_in_superblock(Offset block) const {
  return (block.bytes % pool_->superblock_bytes() - kBlockAlign) / block_bytes_;
}

Status Blocks::add_superblock() {
  auto run = pool_->take_run(1);
  if (!run && give_back_) {
    give_back_();
    run = pool_->take_run(1);
  }
  if (!run) return run.status();
  write_front(*pool_, *run, blocks_front(pool_->header(), block_bytes_));
  order();
  std::uint64_t const index = run->bytes / pool_->superblock_bytes();
  ++superblocks_;
  for (std::uint64_t i = capacity(); i-- > 0;) free_.push_back(block_at(index, i));
  return {};
}

Result<Offset> Blocks::take() {
  MutexLock const lock(*memory_);
  if (free_.empty()) {
    if (Status s = add_superblock(); !s.ok()) return s;
  }
  PERDURE_ASSERT(!free_.empty());
  Offset const block = free_.back();
  PERDURE_ASSERT(!unswept_.contains(block.bytes / pool_->superblock_bytes()));
  free_.pop_back();
  return block;
}

void Blocks::give(Offset block) {
  MutexLock const lock(*memory_);
  PERDURE_ASSERT(block.bytes >= pool_->superblock_bytes() && block.bytes < pool_->bytes());
  PERDURE_ASSERT(block.bytes % kBlockAlign == 0 && index_in_superblock(block) < capacity());
  pool_->find_owners();  // it may be of those that a sweep frees
  bool const unswept = unswept_.contains(block.bytes / pool_->superblock_bytes());
  (unswept ? given_ : free_).push_back(block);
}

BlocksHeader Blocks::header_of(std::uint64_t superblock) const {
  BlocksHeader header;
  read_bytes(&header, pool_->base() + superblock * pool_->superblock_bytes(), sizeof header);
  return header;
}

bool Blocks::is_whole(BlocksHeader const& header) const {
  BlocksHeader const whole = blocks_front(pool_->header(), block_bytes_);
  return std::memcmp(&header, &whole, sizeof header) == 0;
}

std::vector<Offset> Blocks::damaged() const {
  std::vector<Offset> found;
  BlocksHeader const whole = blocks_front(pool_->header(), block_bytes_);
  for (std::uint64_t i = 1; i < pool_->superblocks(); ++i) {
    BlocksHeader const header = header_of(i);
    unsigned wrong = 0;
    for (std::size_t b = 0; b < sizeof header && wrong <= kMostFlips; ++b) {
      int const differs = reinterpret_cast<std::uint8_t const*>(&header)[b] ^
                          reinterpret_cast<std::uint8_t const*>(&whole)[b];
      wrong += static_cast<unsigned>(std::popcount(static_cast<unsigned>(differs)));
    }
    if (wrong != 0 && wrong <= kMostFlips) found.push_back(Offset{i * pool_->superblock_bytes()});
  }
  return found;
}

void Blocks::mend(std::vector<Offset> const& superblocks) {
  for (Offset const at : superblocks)
    write_front(*pool_, at, blocks_front(pool_->header(), block_bytes_));
  order();
}

bool Blocks::is_block(Offset at) const {
  MutexLock const lock(*memory_);
  std::uint64_t const superblock = at.bytes / pool_->superblock_bytes();
  std::uint64_t const inside = at.bytes % pool_->superblock_bytes();
  bool const possible = superblock != 0 && superblock < pool_->superblocks() &&
                        inside >= kBlockAlign && (inside - kBlockAlign) % block_bytes_ == 0 &&
                        index_in_superblock(at) < capacity();
  return possible && is_whole(header_of(superblock));
}

std::uint64_t Blocks::blocks() const {
  MutexLock const lock(*memory_);
  return superblocks_ * capacity();
}

void Blocks::find_superblocks_later() {
  MutexLock const lock(*memory_);
  pool_->find_owners_later([this] {
    memory_->is_held();  // by whoever takes from the pool
    find_superblocks();
  });
}

/// A superblock of the pool whose header is damaged, though not all of it, is kept from everybody.
void Blocks::find_superblocks() {
  for (std::uint64_t i = 1; i < pool_->superblocks(); ++i) {
    Offset const at{i * pool_->superblock_bytes()};
    if (!pool_->is_free(at)) continue;
    BlocksHeader const header = header_of(i);
    if (is_whole(header)) {
      unswept_[i];
      ++superblocks_;
      pool_->claim_run(at, 1);
    } else if (header.magic == kBlocksMagic ||
               (header.magic != kSuperblockMagic && header.pool_id == pool_->header().pool_id)) {
      pool_->claim_run(at, 1);
    }
  }
}

void Blocks::begin_sweep() {
  MutexLock const lock(*memory_);
  pool_->find_owners();
  for (auto& [index, unswept] : unswept_) unswept.reached.assign(capacity(), false);
}

Blocks::Mark Blocks::mark(Offset block) {
  std::uint64_t const inside = block.bytes % pool_->superblock_bytes();
  if (inside < kBlockAlign || (inside - kBlockAlign) % block_bytes_ != 0 ||
      index_in_superblock(block) >= capacity())
    return Mark::invalid;
  MutexLock const lock(*memory_);
  auto const found = unswept_.find(block.bytes / pool_->superblock_bytes());
  if (found == unswept_.end()) return Mark::invalid;
  auto reached = found->second.reached[index_in_superblock(block)];
  if (reached) return Mark::again;
  reached = true;
  return Mark::first;
}

void Blocks::finish_sweep() {
  MutexLock const lock(*memory_);
  for (Offset const block : given_) {
    std::uint64_t const superblock = block.bytes / pool_->superblock_bytes();
    PERDURE_ASSERT(unswept_.contains(superblock));
    unswept_[superblock].reached[index_in_superblock(block)] = false;
  }
  for (auto const& [index, unswept] : unswept_) {
    PERDURE_ASSERT(unswept.reached.size() == capacity());  // begin_sweep() came before
    for (std::uint64_t i = capacity(); i-- > 0;) {
      if (!unswept.reached[i]) free_.push_back(block_at(index, i));
    }
  }
  given_.clear();
  unswept_.clear();
}

}  // namespace perdure::pm
