// Epoch-based reclamation: what threads may still be reading is not used again before they are
// done. A thread reads under an EpochGuard; who has unlinked something retires it. Invariant: a
// retired thing is freed only when every guard that was there when it was retired is gone.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <thread>
#include <vector>

#include "base/hooks.hpp"
#include "base/mutex.hpp"
#if defined(PERDURE_EXPLORE)
#include "exec/sim/sim_scheduler.hpp"
#endif

namespace perdure::exec {

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
  /// then.
  void retire(std::function<void()> free) {
    std::vector<Retired> done;
    {
      MutexLock const lock(mutex_);
      retired_.push_back({now_.fetch_add(1), std::move(free)});
      if (retired_.size() < look_at_) return;
      done = take_free();
    }
    for (Retired const& each : done) each.free();
  }
  /// Frees what nobody can be reading any more.
  void collect() {
    std::vector<Retired> done;
    {
      MutexLock const lock(mutex_);
      done = take_free();
    }
    for (Retired const& each : done) each.free();
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
    MutexLock const lock(mutex_);
    for (Retired const& each : retired_) each.free();
    retired_.clear();
  }

 private:
  friend class EpochGuard;
  static constexpr std::size_t kGuards = 256;  // at once; more wait
  // retired things that are looked through at a time, at least
  static constexpr std::size_t kBatch = 64;
  struct alignas(64) Slot {
    std::atomic<std::uint64_t> epoch{0};  // of the guard that has it; 0 = nobody
  };
  struct Retired {
    std::uint64_t epoch;
    std::function<void()> free;
  };
  std::vector<Retired> take_free() PERDURE_REQUIRES(mutex_) {
    std::uint64_t oldest = ~std::uint64_t{0};
    for (Slot const& slot : slots_) {
      std::uint64_t const epoch = slot.epoch.load();
      if (epoch != 0 && epoch < oldest && !mutated("epochs_free_at_once")) oldest = epoch;
    }
    std::vector<Retired> done, kept;
    std::uint64_t const below =
        mutated("epochs_free_one_early") && oldest + 1 != 0 ? oldest + 1 : oldest;
    for (Retired& each : retired_) (each.epoch < below ? done : kept).push_back(std::move(each));
    retired_.swap(kept);
    // Each is looked at a few times, however long a guard is there.
    look_at_ = std::max(kBatch, 2 * retired_.size());
    return done;
  }

  std::array<Slot, kGuards> slots_;
  std::atomic<std::uint64_t> now_{1};
  Mutex mutex_;  // guards the rest
  std::vector<Retired> retired_ PERDURE_GUARDED_BY(mutex_);
  std::size_t look_at_ PERDURE_GUARDED_BY(mutex_) = kBatch;  // so many are retired
};

class EpochGuard {
 public:
  explicit EpochGuard(Epochs& epochs) {
    static thread_local std::size_t const first =
        std::hash<std::thread::id>{}(std::this_thread::get_id());
    for (std::size_t i = first;; ++i) {
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
