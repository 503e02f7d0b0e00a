// A directory on durable memory that doubles: what CCEH and the tables after it have. Entries are
// offsets of segments, by the highest bits of hashes. Invariants: a doubled directory is durable
// before a thread sees it (published ports show it first); entries change under the shared lock,
// the directory itself under the exclusive one; a directory that was replaced is given back once no
// reader can be in it.
#pragma once

#include <cstdint>
#include <mutex>

#include "baseline_pool.hpp"
#include "exec/epochs.hpp"
#include "locks.hpp"

namespace perdure::cpu_baselines {

class SegmentDirectory {
 public:
  /// `root`: a word of the table's superblock, depth << 56 | place.
  SegmentDirectory(BaselinePool& pool, exec::Epochs& epochs, std::uint64_t* root)
      : pool_(&pool), epochs_(&epochs), root_(root) {}

  template <class Host, class SegmentOf>
  Status create(Host& host, std::uint32_t depth, SegmentOf segment_of) {
    auto place = room(depth);
    if (!place) return place.status();
    for (std::uint64_t i = 0; i < std::uint64_t{1} << depth; ++i)
      host.store(pool_->words(*place) + i, segment_of(i));
    return publish(host, depth, *place);
  }
  template <class Host>
  void open(Host& host) {
    std::uint64_t const root = host.load(root_);
    if (in_run(depth_of(root)))
      pool_->claim_run(Offset{place_of(root)}, std::uint64_t{8} << depth_of(root));
    host.store(&now_, root);
  }

  template <class Host>
  [[nodiscard]] std::uint32_t depth(Host& host) const {
    return depth_of(host.load(&now_));
  }
  /// The segment of a hash, for now.
  template <class Host>
  [[nodiscard]] std::uint64_t segment(Host& host, std::uint64_t hash) const {
    std::uint64_t const now = host.load(&now_);
    std::uint64_t const* const entry = pool_->words(place_of(now)) + index(hash, depth_of(now));
    host.read(entry, sizeof *entry);
    return host.load(entry);
  }
  [[nodiscard]] std::uint64_t* entries(std::uint64_t& size) const {
    size = std::uint64_t{1} << depth_of(now_);
    return pool_->words(place_of(now_));
  }

  /// Entries of hashes from `start` on that share `depth` bits lead to `segment` from now on; the
  /// last one first.
  template <class Host>
  void turn(Host& host, std::uint64_t start, std::uint32_t depth, std::uint64_t segment) {
    LockWord const lock(&lock_, 0);
    lock.lock_shared(host);
    std::uint64_t const now = host.load(&now_);
    std::uint64_t* const first = pool_->words(place_of(now)) + index(start, depth_of(now));
    std::uint64_t const n = std::uint64_t{1} << (depth_of(now) - depth);
    for (std::uint64_t i = n; i-- > 0;) host.store(first + i, segment);
    host.persist(first, n * 8);
    lock.unlock_shared(host);
  }

  /// Twice the entries, unless another has made them already.
  template <class Host>
  Status grow(Host& host, std::uint32_t from) {
    LockWord const lock(&lock_, 0);
    lock.lock(host);
    Status status;
    if (depth(host) == from) status = grow_locked(host, from);
    lock.unlock(host);
    return status;
  }

 private:
  static constexpr std::uint64_t kPlace = (std::uint64_t{1} << 56) - 1;
  // directories that fit into the table's superblock lie from here on
  static constexpr std::uint64_t kSmall = 4096;

  static std::uint32_t depth_of(std::uint64_t root) {
    return static_cast<std::uint32_t>(root >> 56);
  }
  static std::uint64_t place_of(std::uint64_t root) { return root & kPlace; }
  static std::uint64_t index(std::uint64_t hash, std::uint32_t depth) {
    return depth == 0 ? 0 : hash >> (64 - depth);
  }
  /// Depth d lies at kSmall + 8 * 2^d, so that none touches another.
  static bool in_run(std::uint32_t depth) {
    return kSmall + (std::uint64_t{16} << depth) > BaselinePool::kSuperblock;
  }

  Result<std::uint64_t> room(std::uint32_t depth) {
    if (!in_run(depth)) return pool_->index().bytes + kSmall + (std::uint64_t{8} << depth);
    auto run = pool_->take_run(std::uint64_t{8} << depth);
    if (!run) return run.status();
    return run->bytes;
  }
  template <class Host>
  Status grow_locked(Host& host, std::uint32_t from) {
    auto place = room(from + 1);
    if (!place) return place.status();
    std::uint64_t const before = host.load(&now_);
    std::uint64_t const* const old = pool_->words(place_of(before));
    std::uint64_t* const made = pool_->words(*place);
    for (std::uint64_t i = 0; i < std::uint64_t{2} << from; ++i)
      host.store(made + i, host.load(old + i / 2));
    if (Status s = publish(host, from + 1, *place); !s.ok()) return s;
    if (in_run(from)) {
      epochs_->retire([pool = pool_, before, from] {
        pool->give_run(Offset{place_of(before)}, std::uint64_t{8} << from);
      });
    }
    return {};
  }
  template <class Host>
  Status publish(Host& host, std::uint32_t depth, std::uint64_t place) {
    host.persist(pool_->words(place), std::uint64_t{8} << depth);
    std::uint64_t const root = std::uint64_t{depth} << 56 | place;
    host.store(root_, root);
    host.persist(root_, sizeof root);
    host.store(&now_, root);
    return {};
  }

  BaselinePool* pool_;
  exec::Epochs* epochs_;
  std::uint64_t* root_;
  std::uint64_t now_ = 0;  // volatile copy of *root_, stored when that is durable
  std::uint64_t lock_ = 0;  // volatile
};

}  // namespace perdure::cpu_baselines
