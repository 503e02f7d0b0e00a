#include "store/gphash/frozen_pool.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/assert.hpp"
#include "base/hooks.hpp"

namespace perdure {
namespace {

/// All of a superblock but the log word, which the log's thread may be storing: an opening replays
/// the log, and knows it anew.
void copy(std::byte* to, std::byte const* pool, std::uint64_t at, std::uint64_t bytes) {
  constexpr std::uint64_t kBehind = pm::kLogWordOffset + sizeof(std::uint64_t);
  if (at != 0) {
    std::memcpy(to, pool + at, bytes);
    return;
  }
  std::memcpy(to, pool, pm::kLogWordOffset);
  std::memset(to + pm::kLogWordOffset, 0, sizeof(std::uint64_t));
  std::memcpy(to + kBehind, pool + kBehind, bytes - kBehind);
}

}  // namespace

Status FrozenPool::freeze(pm::Pool& pool, pm::RecordHeap const& heap, exec::Workers& workers) {
  std::uint64_t const each = pool.superblock_bytes();
  pool.find_owners();  // else those that are not known yet look free
  std::vector<std::uint64_t> copied(pool.superblocks(), 0);
  for (auto const& of_records : heap.superblocks()) copied[of_records.at / each] = kNotCopied;
  std::vector<std::uint64_t> which;
  for (std::uint64_t i = 0; i < copied.size(); ++i) {
    bool const records = copied[i] == kNotCopied;
    copied[i] = kNotCopied;
    if (records || (i > 0 && pool.is_free(Offset{i * each})) || mutated("words_not_frozen"))
      continue;
    copied[i] = which.size() * each;
    which.push_back(i);
  }
  if (copies_.size() < which.size() * each) {
    auto memory = wal::AlignedBuffer::make(which.size() * each);
    if (!memory) return memory.status();
    copies_ = std::move(*memory);
  }
  pool_ = &pool;
  bytes_ = pool.bytes();
  copy_of_ = std::move(copied);
  workers.for_chunks(which.size(), 1, [&](std::size_t begin, std::size_t end) {
    for (std::size_t k = begin; k < end; ++k)
      copy(copies_.data() + k * each, pool.base(), which[k] * each, each);
  });
  return {};
}

void FrozenPool::read(std::uint64_t at, std::span<std::byte> into) const {
  PERDURE_ASSERT(pool_ != nullptr && at + into.size() <= bytes_ &&
                 bytes_ == copy_of_.size() * pool_->superblock_bytes());
  std::uint64_t const each = pool_->superblock_bytes();
  while (!into.empty()) {
    std::uint64_t const inside = at % each;
    std::uint64_t const n = std::min<std::uint64_t>(into.size(), each - inside);
    std::uint64_t const copy = copy_of_[at / each];
    std::byte const* const from =
        copy == kNotCopied ? pool_->base() + at : copies_.data() + copy + inside;
    std::memcpy(into.data(), from, n);
    into = into.subspan(n);
    at += n;
  }
}

}  // namespace perdure
