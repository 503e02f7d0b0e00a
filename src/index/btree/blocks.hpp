// Blocks of one size in DRAM, cut from slabs of 2 MiB that come from the system and go back to it
// once they are empty. Invariants: a block's slab is found by its address, for slabs are aligned
// to their size; a slab with room is among the open ones; nothing here throws.
//
// Slabs but the first are huge pages where the system has them: a descent through a tree of some
// hundred megabytes otherwise misses the TLB at each node.
#pragma once

#include <sys/mman.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/mutex.hpp"

namespace perdure::btree {

class Blocks {
 public:
  explicit Blocks(std::size_t block_bytes) : block_bytes_(block_bytes) {}
  Blocks(Blocks const&) = delete;
  Blocks& operator=(Blocks const&) = delete;
  ~Blocks() {
    while (all_ != nullptr) unmap(all_);
  }

  /// nullptr: the system has no memory. What the block holds is anything.
  [[nodiscard]] void* take() noexcept {
    MutexLock const lock(mutex_);
    if (open_ == nullptr && !add_slab()) return nullptr;
    Slab& slab = *open_;
    ++slab.used;
    void* block = slab.free;
    if (block != nullptr)
      slab.free = slab.free->next;
    else
      block = reinterpret_cast<std::byte*>(&slab) + block_bytes_ * ++slab.fresh;
    if (slab.used == blocks_a_slab()) close(slab);
    return block;
  }
  void give(void* block) noexcept {
    MutexLock const lock(mutex_);
    auto const address = reinterpret_cast<std::uintptr_t>(block);
    Slab& slab = *reinterpret_cast<Slab*>(address & ~(kSlabBytes - 1));
    if (slab.used == blocks_a_slab()) open(slab);
    slab.free = new (block) Free{slab.free};
    bool const another = open_ != &slab || slab.next_open != nullptr;
    if (--slab.used != 0 || !another) return;  // one stays: who comes and goes takes no system call
    close(slab);
    unmap(&slab);
  }
  /// Taken from the system.
  [[nodiscard]] std::uint64_t bytes() const {
    return slabs_.load(std::memory_order_relaxed) * kSlabBytes;
  }

 private:
  static constexpr std::size_t kSlabBytes = std::size_t{2} << 20;
  struct Free {
    Free* next;
  };
  struct Slab {  // in its first block
    Free* free;
    std::uint32_t used;
    std::uint32_t fresh;  // blocks that have been taken at least once: the first ones
    Slab *next, *last;  // of all slabs
    Slab *next_open, *last_open;
  };

  [[nodiscard]] std::uint32_t blocks_a_slab() const {
    return static_cast<std::uint32_t>(kSlabBytes / block_bytes_ - 1);
  }
  bool add_slab() PERDURE_REQUIRES(mutex_) {
    void* const room = mmap(nullptr, 2 * kSlabBytes, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (room == MAP_FAILED) return false;
    auto const from = reinterpret_cast<std::uintptr_t>(room);
    std::uintptr_t const at = (from + kSlabBytes - 1) & ~(kSlabBytes - 1);
    if (at != from) munmap(room, at - from);
    munmap(reinterpret_cast<void*>(at + kSlabBytes), from + kSlabBytes - at);
    if (all_ != nullptr) madvise(reinterpret_cast<void*>(at), kSlabBytes, MADV_HUGEPAGE);
    auto* const slab = new (reinterpret_cast<void*>(at)) Slab{};
    slab->next = all_;
    if (all_ != nullptr) all_->last = slab;
    all_ = slab;
    open(*slab);
    slabs_.fetch_add(1, std::memory_order_relaxed);
    return true;
  }
  void unmap(Slab* slab) {
    (slab->last != nullptr ? slab->last->next : all_) = slab->next;
    if (slab->next != nullptr) slab->next->last = slab->last;
    munmap(slab, kSlabBytes);
    slabs_.fetch_sub(1, std::memory_order_relaxed);
  }
  void open(Slab& slab) PERDURE_REQUIRES(mutex_) {
    slab.last_open = nullptr;
    slab.next_open = open_;
    if (open_ != nullptr) open_->last_open = &slab;
    open_ = &slab;
  }
  void close(Slab& slab) PERDURE_REQUIRES(mutex_) {
    (slab.last_open != nullptr ? slab.last_open->next_open : open_) = slab.next_open;
    if (slab.next_open != nullptr) slab.next_open->last_open = slab.last_open;
  }

  std::size_t const block_bytes_;
  Mutex mutex_;  // guards the slabs
  Slab* all_ = nullptr;
  Slab* open_ PERDURE_GUARDED_BY(mutex_) = nullptr;
  std::atomic<std::uint64_t> slabs_{0};
};

}  // namespace perdure::btree
