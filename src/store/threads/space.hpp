// Room for the records of a Dash table or a B+-tree, shared by its writers. Invariants: whatever
// takes from the pool holds `memory`; a record comes back only when no thread can be reading it any
// more (exec/epochs.hpp). Small batches take from, and give to, a hand of their thread's, which
// goes to the heap for many at a time: one lock that every operation of all threads waits for bound
// them. To the heap, records in hands are in use; before room is refused, hands are emptied.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>
#include <vector>

#include "base/assert.hpp"
#include "base/mutex.hpp"
#include "exec/epochs.hpp"
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
  /// What some threads took and have not handed out, and what they gave and the heap has not got.
  struct alignas(64) Hand {
    static constexpr std::size_t kSome = 16;  // from the heap at a time; calls for less use a hand
    Mutex mutex;
    std::uint64_t stride PERDURE_GUARDED_BY(mutex) = 0;  // of `taken`
    std::array<std::uint64_t, 2 * kSome> taken PERDURE_GUARDED_BY(mutex) = {};
    std::array<std::uint64_t, 2 * kSome> given PERDURE_GUARDED_BY(mutex) = {};
    std::size_t to_take PERDURE_GUARDED_BY(mutex) = 0;
    std::size_t to_give PERDURE_GUARDED_BY(mutex) = 0;
  };
  static constexpr std::size_t kHands = 16;
  // The explorer asks of each record whether it is in use, and its threads are to see records used
  // again: there nothing lies in hands, before a simulation begins either.
#if defined(PERDURE_EXPLORE)
  static constexpr bool kHasHands = false;
#else
  static constexpr bool kHasHands = true;
#endif

  /// Whether so many records go past the hands. Where a batch is a transaction, maps say what is
  /// reserved; while a sweep is on, it asks what was released.
  [[nodiscard]] bool goes_past_hands(std::size_t records) const {
    return records >= Hand::kSome || transactions_ || sweeping_.load() || !kHasHands;
  }
  Hand& hand() { return hands_[exec::thread_number() % kHands]; }
  bool take_from_hand(std::uint64_t stride, std::size_t n, std::uint64_t* to);
  bool refill(Hand& hand, std::uint64_t stride) PERDURE_REQUIRES(hand.mutex);
  void release(std::span<std::uint64_t const> records);
  /// Whether anything was in them.
  bool empty_hands();
  Status reserve(std::uint64_t stride, std::size_t n, std::uint64_t* to);

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
  std::atomic<bool> sweeping_{false};
  std::array<Hand, kHands> hands_;
  Status refusal_;  // guarded by memory_
};

}  // namespace perdure::threads
