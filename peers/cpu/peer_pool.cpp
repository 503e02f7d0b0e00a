#include "peer_pool.hpp"

#include <algorithm>
#include <memory>

namespace perdure::cpu_peers {

Result<std::unique_ptr<PeerPool>> PeerPool::create(std::string const& path, Options const& options) {
  pm::PoolHeader shape{};
  shape.superblock_bytes = kSuperblock;
  shape.max_bytes = options.max_bytes / kSuperblock * kSuperblock;
  shape.key_bytes = options.variable_keys ? 0 : 8;
  shape.value_bytes = 8;
  shape.max_key_bytes = options.variable_keys ? 256 : 8;
  shape.max_value_bytes = 8;
  shape.levels = shape.hashes = shape.slots = 1;
  auto pool =
      pm::Pool::create(path, shape, std::max<std::uint64_t>(2, superblocks_of(options.reserve_bytes)), false, {});
  if (!pool) return pool.status();
  std::unique_ptr<PeerPool> made(new PeerPool(std::move(*pool)));
  if (auto index = made->take_run(1); !index) return index.status();
  pm::Root root = made->pool.root();
  root.levels = 1;
  root.level[0].offset = made->index().bytes;
  made->pool.publish_root(root);
  if (Status s = made->pool.keep(); !s.ok()) return s;
  return Result<std::unique_ptr<PeerPool>>(std::move(made));
}

Result<std::unique_ptr<PeerPool>> PeerPool::open(std::string const& path, Options const& options) {
  auto pool = pm::Pool::open(path, {});
  if (!pool) return pool.status();
  bool const variable = pool->header().key_bytes == 0;
  if (variable != options.variable_keys)
    return Status{Code::invalid_argument, "pool " + path + " has keys of the other kind: open it with those"};
  std::unique_ptr<PeerPool> opened(new PeerPool(std::move(*pool)));
  opened->claim_run(opened->index(), 1);
  opened->keys.find_superblocks();
  return Result<std::unique_ptr<PeerPool>>(std::move(opened));
}

Result<Offset> PeerPool::take_run(std::uint64_t bytes) {
  std::lock_guard const lock(memory);
  return pool.take_run(superblocks_of(bytes));
}
void PeerPool::give_run(Offset first, std::uint64_t bytes) {
  std::lock_guard const lock(memory);
  pool.give_run(first, superblocks_of(bytes));
}
void PeerPool::claim_run(Offset first, std::uint64_t bytes) {
  std::lock_guard const lock(memory);
  pool.claim_run(first, superblocks_of(bytes));
}

}  // namespace perdure::cpu_peers
