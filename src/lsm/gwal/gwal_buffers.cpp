#include "lsm/gwal/gwal_buffers.hpp"

#include <algorithm>
#include <utility>

namespace perdure::lsm {

struct GwalBuffers::Lent {
  Lent(std::shared_ptr<GwalBuffers> its_pool, wal::AlignedBuffer buffer)
      : pool(std::move(its_pool)), memory(std::move(buffer)), bytes(memory.span()) {}
  ~Lent() { pool->put_back(std::move(memory)); }
  Lent(Lent const&) = delete;
  Lent& operator=(Lent const&) = delete;

  std::shared_ptr<GwalBuffers> pool;
  wal::AlignedBuffer memory;
  std::span<std::byte> bytes;
};

Result<std::shared_ptr<std::span<std::byte> const>> GwalBuffers::take(std::uint64_t bytes) {
  auto memory = find_or_make(wal::round_up(std::max<std::uint64_t>(bytes, 1)));
  if (!memory.ok()) return memory.status();
  auto lent = std::make_shared<Lent>(shared_from_this(), std::move(memory).value());
  std::span<std::byte> const* const seen = &lent->bytes;
  return std::shared_ptr<std::span<std::byte> const>(std::move(lent), seen);
}

Result<wal::AlignedBuffer> GwalBuffers::find_or_make(std::uint64_t bytes) {
  {
    MutexLock const lock(mutex_);
    auto const fits = std::find_if(free_.begin(), free_.end(), [&](wal::AlignedBuffer const& one) {
      return one.size() >= bytes;
    });
    if (fits != free_.end()) {
      wal::AlignedBuffer found = std::move(*fits);
      free_.erase(fits);
      return found;
    }
  }
  return wal::AlignedBuffer::make(bytes);
}

void GwalBuffers::trim(std::size_t left) {
  MutexLock const lock(mutex_);
  if (free_.size() > left)
    free_.erase(free_.begin() + static_cast<std::ptrdiff_t>(left), free_.end());
}

void GwalBuffers::put_back(wal::AlignedBuffer memory) {
  MutexLock const lock(mutex_);
  if (memory.size() <= most_bytes_ && free_.size() < most_) free_.push_back(std::move(memory));
}

}  // namespace perdure::lsm
