// Grids on the host: a worker runs a block's threads one after the other, phase by phase
// (exec/grid.hpp). Machine memory is host memory. Invariant: launches have ended, and are ordered,
// when launch() returns.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <type_traits>
#include <vector>

#include "base/annotate.hpp"
#include "exec/grid.hpp"
#include "exec/workers.hpp"
#include "perdure/status.h"

namespace perdure::exec {

/// Which of a grid's threads a thread of the host stands for.
class GridPosition {
 public:
  explicit GridPosition(GridShape shape, std::uint32_t block = 0) : shape_(shape), block_(block) {}
  void be(std::uint32_t thread) { thread_ = thread; }
  void be_block(std::uint32_t block) { block_ = block; }

  [[nodiscard]] std::uint32_t block() const { return block_; }
  [[nodiscard]] std::uint32_t thread() const { return thread_; }
  [[nodiscard]] std::uint32_t blocks() const { return shape_.blocks; }
  [[nodiscard]] std::uint32_t threads() const { return shape_.threads; }
  [[nodiscard]] std::uint64_t global() const {
    return std::uint64_t{block_} * shape_.threads + thread_;
  }
  [[nodiscard]] std::uint64_t total() const {
    return std::uint64_t{shape_.blocks} * shape_.threads;
  }

 private:
  GridShape shape_;
  std::uint32_t block_;
  std::uint32_t thread_ = 0;
};

class CpuThread : public GridPosition {
 public:
  CpuThread(GridShape shape, std::uint32_t block, Persist persist, GridTally& tally)
      : GridPosition(shape, block), persist_(persist), tally_(&tally) {}

  template <class T>
  void store(T* at, std::type_identity_t<T> value) {
    static_assert(kStorable<T>);
    __atomic_store(at, &value, __ATOMIC_RELAXED);
    ++tally_->stores;
    tally_->bytes += sizeof(T);
  }
  template <class T>
  [[nodiscard]] T load(T const* at) const {
    T value;
    __atomic_load(at, &value, __ATOMIC_ACQUIRE);
    return value;
  }
  void persist() {
    if (persist_ == Persist::later) return;
    std::atomic_thread_fence(std::memory_order_seq_cst);
    ++tally_->orders;
  }

  template <class T>
  static T add(T* at, std::type_identity_t<T> more) {
    return changed(at, [=](T found) { return found + more; });
  }
  template <class T>
  static T least(T* at, std::type_identity_t<T> other) {
    return changed(at, [=](T found) { return std::min(found, other); });
  }
  template <class T>
  static T greatest(T* at, std::type_identity_t<T> other) {
    return changed(at, [=](T found) { return std::max(found, other); });
  }
  template <class T>
  static T cas(T* at, std::type_identity_t<T> expected, std::type_identity_t<T> desired) {
    __atomic_compare_exchange_n(at, &expected, desired, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
    return expected;
  }
  template <class T>
  static T exchange(T* at, std::type_identity_t<T> value) {
    return __atomic_exchange_n(at, value, __ATOMIC_ACQ_REL);
  }
  static void local_fence() { std::atomic_thread_fence(std::memory_order_seq_cst); }
  static void pause() { std::this_thread::yield(); }

 private:
  template <class T, class F>
  static T changed(T* at, F next) {
    std::atomic_ref<T> word(*at);
    T found = word.load(std::memory_order_relaxed);
    while (!word.compare_exchange_weak(found, next(found), std::memory_order_acq_rel,
                                       std::memory_order_relaxed)) {
    }
    return found;
  }

  Persist persist_;
  GridTally* tally_;
};

/// All phases of one block; Thread is CpuThread or the simulated one.
template <class Thread, class K>
class BlockRun {
 public:
  BlockRun(Thread& thread, K const& kernel, std::uint32_t threads)
      : thread_(thread), kernel_(kernel) {
    states_.resize(threads);
  }
  /// Once for each block that the thread stands for.
  void all_phases() {
    std::fill(states_.begin(), states_.end(), State{});
    phases_from<0>();
  }

 private:
  using State = typename K::State;
  template <int kPhase>
  void phases_from() {
    for (std::size_t i = 0; i < states_.size(); ++i) {
      thread_.be(static_cast<std::uint32_t>(i));
      kernel_.template run<kPhase>(thread_, shared_, states_[i]);
    }
    if constexpr (kPhase + 1 < K::kPhases) phases_from<kPhase + 1>();
  }

  Thread& thread_;
  K const& kernel_;
  typename K::Shared shared_{};  // on a GPU nobody clears it
  std::vector<State> states_;
};

/// Machine memory where that is host memory.
template <class T>
class HostBuffer {
 public:
  static_assert(std::is_trivially_copyable_v<T>);
  /// What it held is gone, unless it was large enough; on failure it is as it was.
  Status resize(std::size_t n) {
    if (n <= capacity_) return {};
    std::size_t const bytes = (n * sizeof(T) + kAlign - 1) / kAlign * kAlign;
    auto* const fresh = static_cast<T*>(std::aligned_alloc(kAlign, bytes));
    if (fresh == nullptr)
      return {Code::no_space, "out of memory for " + std::to_string(bytes) + " bytes"};
    data_.reset(fresh);
    capacity_ = n;
    return {};
  }
  [[nodiscard]] T* data() const { return data_.get(); }

 private:
  static constexpr std::size_t kAlign = 128;
  struct Free {
    void operator()(T* p) const { std::free(p); }
  };
  std::unique_ptr<T, Free> data_;
  std::size_t capacity_ = 0;
};

/// Copies between host and machine memory where both are one; shared by the machines of the host.
class HostMemoryGrid {
 public:
  template <class T>
  using Buffer = HostBuffer<T>;
  static constexpr bool kPinsPools = false;

  template <class T>
  Status send(T* to, T const* from, std::size_t n) {
    if (n > 0 && to != from) std::memcpy(static_cast<void*>(to), from, n * sizeof(T));
    return {};
  }
  template <class T>
  Status fetch(T* to, T const* from, std::size_t n) {
    return send(to, from, n);
  }
  template <class T>
  Status copy(T* to, T const* from, std::size_t n) {
    return send(to, from, n);
  }
  template <class T>
  Status fill(T* to, int byte, std::size_t n) {
    std::memset(static_cast<void*>(to), byte, n * sizeof(T));
    return {};
  }
  /// Whether kernels can reach [at, at + bytes).
  Status reaches(void const* at, std::size_t) const {
    return at != nullptr ? Status{} : Status{Code::invalid_argument, "a null address"};
  }
  /// Kernels that others launched have ended when their launch returns: there is nothing to wait
  /// for, and no stream.
  Status follow(void* stream) const {
    if (stream == nullptr) return {};
    return {Code::invalid_argument, "kernels of the host's threads run on no stream; pass none"};
  }
  /// Launches are always counted here.
  Status count() { return {}; }
  Result<GridTally> tally() { return tally_; }

 protected:
  GridTally tally_;
};

class CpuGrid : public HostMemoryGrid {
 public:
  using Thread = CpuThread;

  explicit CpuGrid(std::uint32_t threads = 0)
      : workers_(threads != 0 ? threads : std::thread::hardware_concurrency()) {}
  static Result<std::unique_ptr<CpuGrid>> open(std::uint32_t threads = 0) {
    return std::make_unique<CpuGrid>(threads);
  }

  [[nodiscard]] std::string describe() const {
    return "cpu x" + std::to_string(workers_.threads());
  }
  [[nodiscard]] std::uint32_t host_threads() const { return workers_.threads(); }
  [[nodiscard]] Workers& workers() { return workers_; }

  template <class K>
  Status launch(GridShape shape, K const& kernel, Persist persist = Persist::here) {
    std::atomic_ref<std::uint64_t> const stores(tally_.stores), bytes(tally_.bytes),
        orders(tally_.orders);
    workers_.for_chunks(shape.blocks, 1, [&](std::size_t begin, std::size_t end) {
      GridTally mine;
      for (std::size_t b = begin; b < end; ++b) {
        CpuThread thread(shape, static_cast<std::uint32_t>(b), persist, mine);
        BlockRun<CpuThread, K>(thread, kernel, shape.threads).all_phases();
      }
      stores += mine.stores;
      bytes += mine.bytes;
      orders += mine.orders;
    });
    return {};
  }
  /// What was launched has ended, and comes before whatever is stored afterwards.
  Status order() {
    std::atomic_thread_fence(std::memory_order_seq_cst);
    return {};
  }

 private:
  Workers workers_;
};

}  // namespace perdure::exec
