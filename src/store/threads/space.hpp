// Room for the records of a Dash table, shared by its writers. Invariants: whatever takes from the
// pool holds `memory`; a record comes back only when no thread can be reading it any more
// (exec/epochs.hpp).
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <span>
#include <vector>

#include "base/assert.hpp"
#include "base/mutex.hpp"
#include "pm/heap.hpp"
#include "pm/pool.hpp"

namespace perdure::threads {

class Space {
 public:
  Space(pm::Pool& pool, Mutex& memory)
      : pool_(&pool), memory_(&memory), transactions_(pool.header().has_maps()), heap_(pool) {
    note_size();
  }
  Space(Space const&) = delete;
  Space& operator=(Space const&) = delete;

  /// `n` more records of that stride, or none and why.
  Status take(std::uint64_t stride, std::size_t n, std::vector<std::uint64_t>& to);
  /// Records that no slot leads to.
  void give(std::span<std::uint64_t const> records);

  /// Notes that so many records wait until nobody reads them; answers how many do.
  std::uint64_t wait_for_readers(std::uint64_t records) {
    return waiting_.fetch_add(records) + records;
  }
  void give_waiting(std::span<std::uint64_t const> records);

  // Of a pool whose batches are transactions (PoolHeader::has_maps): what is given when readers are
  // done, or by unlink(), comes back at the commit.
  void unlink(std::span<std::uint64_t const> records);
  /// What was unlinked is free; the maps are to say so. Nobody takes anything before the commit.
  /// Code::no_space: it is not known of all that is.
  Status free_unlinked();
  void lose() { lost_ = true; }
  /// Why the last take() had nothing.
  [[nodiscard]] Status refusal() {
    std::lock_guard const lock(*memory_);
    return refusal_;
  }
  /// For whoever writes the maps or looks at all of it, with nobody beside it.
  [[nodiscard]] pm::RecordHeap& heap_alone() { return heap(); }
  /// Superblocks without a record serve others of the pool; the caller holds its memory.
  void give_back_empty() {
    memory_->is_held();
    heap().give_back_empty();
  }
  /// The transaction was undone: what is known is what the maps say.
  void load_anew();
  /// After an opening: the maps are read when something first depends on them.
  void load_later();

  // After an opening, see RecordHeap. Its superblocks are claimed when something first depends on
  // them.
  void claim_later();
  void begin_sweep();
  void mark(std::span<std::uint64_t const> records);
  void finish_sweep();

  // An opening that goes through all records, by itself, see RecordHeap: what is noted, from any
  // number of threads between the other two, is in use.
  void find_superblocks();
  pm::RecordHeap::Mark note_used(std::uint64_t record) {
    return pm::RecordHeap::mark(heap_.bit_to_mark(Offset{record}));
  }
  /// Whether a record may lie there.
  [[nodiscard]] bool is_record(std::uint64_t at) const { return heap_.is_record(Offset{at}); }
  void finish_recovery();

  [[nodiscard]] std::vector<pm::RecordHeap::Superblock> superblocks();

  /// Whether a record is anybody's, or not known to be free yet.
  [[nodiscard]] bool in_use(std::uint64_t record);

  /// Of the pool; records that a slot leads to lie below it.
  [[nodiscard]] std::atomic<std::uint64_t> const& pool_bytes() const { return pool_bytes_; }
  [[nodiscard]] pm::RecordShape const& shape() const { return heap_.shape(); }

 private:
  /// `memory` is held.
  pm::RecordHeap& heap();
  void note_size() {
    PERDURE_ASSERT(pool_->bytes() >= pool_bytes_.load(std::memory_order_relaxed));
    pool_bytes_.store(pool_->bytes(), std::memory_order_release);
  }

  pm::Pool* pool_;
  Mutex* memory_;
  std::atomic<std::uint64_t> pool_bytes_{0};
  std::atomic<std::uint64_t> waiting_{0};
  bool const transactions_;
  pm::RecordHeap heap_;  // guarded by memory_; through heap()
  std::vector<std::uint64_t> unlinked_;  // guarded by memory_
  // memory was lacking for something that nobody could be told of
  std::atomic<bool> lost_{false};
  Status refusal_;  // guarded by memory_
};

}  // namespace perdure::threads
