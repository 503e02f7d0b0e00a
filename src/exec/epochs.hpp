// Epoch-based reclamation: what threads may still be reading is not used again before they are
// done. A thread reads under an EpochGuard; who has unlinked something retires it. Invariant: a
// retired thing is freed only when every guard that was there when it was retired is gone.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <iterator>
#include <new>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/hooks.hpp"
#include "base/mutex.hpp"
#include "base/simulated.hpp"
#if defined(PERDURE_EXPLORE)
#include "exec/sim/sim_scheduler.hpp"
#endif

namespace perdure::exec {

/// A number of this thread, for whoever spreads threads over what they would else share.
inline std::size_t thread_number() {
  static thread_local std::size_t const number =
      std::hash<std::thread::id>{}(std::this_thread::get_id());
  return number;
}

/// Who waits for other threads lets them go on: real ones, or the explorer's.
inline void let_others_go_on() {
#if defined(PERDURE_EXPLORE)
  if (sim_scheduler != nullptr && sim_scheduler->thread() != 0) return sim_scheduler->give_way();
#endif
  std::this_thread::yield();
}

class Epochs {
 public:
  Epochs() = default;
  Epochs(Epochs const&) = delete;
  Epochs& operator=(Epochs const&) = delete;
  ~Epochs() {
    try {
      drain();
    } catch (...) {  // no memory to note what is free: the next opening finds it
    }
  }

  /// `free` runs once nobody can be reading what it frees, on whichever thread retires or drains
  /// then. Throws where there is no memory to note it; else it is noted.
  void retire(std::function<void()> free) { note(own(), std::move(free), 0); }
  /// Frees what nobody can be reading any more.
  void collect() {
    for (Shard& shard : shards_) {
      std::vector<Retired> done;
      {
        MutexLock const lock(shard.mutex);
        done = take_free(shard);
      }
      for (Retired const& each : done) each.free();
    }
  }
  /// Frees whatever has been retired, and what guards that are there now are about to retire. Waits
  /// for them, so the caller holds none.
  void synchronize() {
    // The first pass brings in what they retire, the second frees it.
    for (int pass = mutated("epochs_wait_once") ? 1 : 0; pass < 2; ++pass) {
      std::uint64_t const now = now_.fetch_add(1);
      for (Slot const& slot : slots_) {
        std::uint64_t const last = mutated("epochs_wait_for_older") ? now - 1 : now;
        for (std::uint64_t epoch = slot.epoch.load(); epoch != 0 && epoch <= last;
             epoch = slot.epoch.load())
          let_others_go_on();
      }
      collect();
    }
  }
  /// Frees everything; no guard is there.
  void drain() {
    for (Shard& shard : shards_) {
      MutexLock const lock(shard.mutex);
      for (Retired const& each : shard.retired) each.free();
      shard.retired.clear();
    }
  }

 private:
  friend class EpochGuard;
  friend class EpochReservation;
  static constexpr std::size_t kGuards = 256;  // at once; more wait
  // retired things that are looked through at a time, at least
  static constexpr std::size_t kBatch = 32;
  static constexpr std::size_t kShards = 16;
  struct alignas(64) Slot {
    std::atomic<std::uint64_t> epoch{0};  // of the guard that has it; 0 = nobody
  };
  struct Retired {
    std::uint64_t epoch;
    std::function<void()> free;
  };
  /// What some threads retired: one mutex for all was what bound writers of small batches.
  struct alignas(64) Shard {
    Mutex mutex;
    std::vector<Retired> retired PERDURE_GUARDED_BY(mutex);
    std::size_t reserved PERDURE_GUARDED_BY(mutex) = 0;  // of the capacity of `retired`
    std::size_t look_at PERDURE_GUARDED_BY(mutex) = kBatch;  // so many are retired
  };
  Shard& own() { return shards_[fault::simulated() ? 0 : thread_number() % kShards]; }

  /// `reserved`: how much of what was reserved this takes.
  void note(Shard& shard, std::function<void()> free, std::size_t reserved) {
    std::vector<Retired> done;
    {
      MutexLock const lock(shard.mutex);
      make_room(shard, shard.reserved - reserved + 1);
      shard.reserved -= reserved;
      shard.retired.push_back({now_.fetch_add(1), std::move(free)});
      if (shard.retired.size() < shard.look_at) return;
      try {
        done = take_free(shard);
      } catch (std::bad_alloc const&) {
        return;  // it is noted, and waits for the next look
      }
    }
    for (Retired const& each : done) each.free();
  }
  static void make_room(Shard& shard, std::size_t more) PERDURE_REQUIRES(shard.mutex) {
    std::size_t const needed = shard.retired.size() + more;
    if (needed > shard.retired.capacity())
      shard.retired.reserve(std::max(needed, 2 * shard.retired.size()));
  }
  std::vector<Retired> take_free(Shard& shard) PERDURE_REQUIRES(shard.mutex) {
    std::uint64_t oldest = ~std::uint64_t{0};
    for (Slot const& slot : slots_) {
      std::uint64_t const epoch = slot.epoch.load();
      if (epoch != 0 && epoch < oldest && !mutated("epochs_free_at_once")) oldest = epoch;
    }
    std::uint64_t const below =
        mutated("epochs_free_one_early") && oldest + 1 != 0 ? oldest + 1 : oldest;
    auto& retired = shard.retired;
    auto const kept = std::partition(retired.begin(), retired.end(),
                                     [&](Retired const& each) { return each.epoch >= below; });
    std::vector<Retired> done(std::make_move_iterator(kept),
                              std::make_move_iterator(retired.end()));
    retired.erase(kept, retired.end());
    // Each is looked at a few times, however long a guard is there.
    shard.look_at = std::max(kBatch, 2 * retired.size());
    return done;
  }

  std::array<Slot, kGuards> slots_;
  std::atomic<std::uint64_t> now_{1};
  std::array<Shard, kShards> shards_;
};

/// Room to retire so many things without asking for memory, for who cannot do without once it has
/// begun. What is not used of it is given back.
class EpochReservation {
 public:
  EpochReservation(Epochs& epochs, std::size_t things) : epochs_(epochs), shard_(epochs.own()) {
    MutexLock const lock(shard_.mutex);
    try {
      Epochs::make_room(shard_, shard_.reserved + things);
    } catch (std::bad_alloc const&) {
      return;
    }
    shard_.reserved += left_ = things;
  }
  EpochReservation(EpochReservation const&) = delete;
  EpochReservation& operator=(EpochReservation const&) = delete;
  ~EpochReservation() {
    MutexLock const lock(shard_.mutex);
    shard_.reserved -= left_;
  }
  /// No: there is no memory.
  [[nodiscard]] bool has_room() const { return left_ > 0; }
  /// `free` holds two words at most.
  template <class F>
  void retire(F free) {
    static_assert(sizeof free <= 2 * sizeof(void*) && std::is_trivially_copyable_v<F>,
                  "std::function would ask for memory");
    --left_;
    epochs_.note(shard_, std::move(free), 1);
  }

 private:
  Epochs& epochs_;
  Epochs::Shard& shard_;
  std::size_t left_ = 0;
};

class EpochGuard {
 public:
  explicit EpochGuard(Epochs& epochs) {
    for (std::size_t i = thread_number();; ++i) {
      slot_ = &epochs.slots_[i % Epochs::kGuards].epoch;
      std::uint64_t none = 0;
      if (slot_->load(std::memory_order_relaxed) == 0 &&
          slot_->compare_exchange_strong(none, epochs.now_.load()))
        return;
    }
  }
  EpochGuard(EpochGuard const&) = delete;
  EpochGuard& operator=(EpochGuard const&) = delete;
  ~EpochGuard() { slot_->store(0, std::memory_order_release); }

 private:
  std::atomic<std::uint64_t>* slot_;
};

}  // namespace perdure::exec
