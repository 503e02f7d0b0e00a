#include "baseline_pool.hpp"

#include <algorithm>
#include <memory>
#include <sstream>

namespace perdure::cpu_baselines {

Result<std::unique_ptr<BaselinePool>> BaselinePool::create(std::string const& path,
                                                           Options const& options) {
  pm::PoolHeader shape{};
  shape.superblock_bytes = kSuperblock;
  shape.max_bytes = options.max_bytes / kSuperblock * kSuperblock;
  shape.key_bytes = options.key_bytes;
  shape.value_bytes = options.value_bytes;
  shape.max_key_bytes = options.key_bytes == 0 ? 256 : options.key_bytes;
  shape.max_value_bytes = options.value_bytes;
  shape.levels = shape.hashes = shape.slots = 1;
  auto pool = pm::Pool::create(
      path, shape, std::max<std::uint64_t>(2, superblocks_of(options.reserve_bytes)), {}, {});
  if (!pool) return pool.status();
  std::unique_ptr<BaselinePool> made(new BaselinePool(std::move(*pool), options));
  if (auto index = made->take_run(1); !index) return index.status();
  pm::Root root = made->pool.root();
  root.set("baseline", made->index().bytes, 0);  // which no store takes for its own
  made->pool.publish_root(root);
  if (Status s = made->pool.keep(); !s.ok()) return s;
  return Result<std::unique_ptr<BaselinePool>>(std::move(made));
}

Result<std::unique_ptr<BaselinePool>> BaselinePool::open(std::string const& path,
                                                         Options const& options) {
  auto pool = pm::Pool::open(path, {});
  if (!pool) return pool.status();
  pm::PoolHeader const& header = pool->header();
  if (header.key_bytes != options.key_bytes || header.value_bytes != options.value_bytes) {
    std::ostringstream why;
    why << "pool " << path << " has keys of " << header.key_bytes << " bytes and values of "
        << header.value_bytes << " (0 = of any length): open it with those";
    return Status{Code::invalid_argument, why.str()};
  }
  std::unique_ptr<BaselinePool> opened(new BaselinePool(std::move(*pool), options));
  opened->claim_run(opened->index(), 1);
  opened->keys.find_superblocks_later();
  return Result<std::unique_ptr<BaselinePool>>(std::move(opened));
}

std::uint64_t BaselinePool::key_block(Options const& options) {
  if (!options.reuse_records) return kKeyBlock;
  std::uint64_t const bytes = 8 + options.value_bytes + (options.key_bytes + 7) / 8 * 8;
  return (bytes + pm::kBlockAlign - 1) / pm::kBlockAlign * pm::kBlockAlign;
}

Result<Offset> BaselinePool::take_run(std::uint64_t bytes) {
  std::lock_guard const lock(memory);
  return pool.take_run(superblocks_of(bytes));
}
void BaselinePool::give_run(Offset first, std::uint64_t bytes) {
  std::lock_guard const lock(memory);
  pool.give_run(first, superblocks_of(bytes));
}
void BaselinePool::claim_run(Offset first, std::uint64_t bytes) {
  std::lock_guard const lock(memory);
  pool.claim_run(first, superblocks_of(bytes));
}

}  // namespace perdure::cpu_baselines
