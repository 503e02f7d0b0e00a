// The CPU machine: launches bodies over a worker pool. Machine memory is host memory, so callers'
// columns are used where they lie.
//
// A body is work for one warp an item, cut into stages: stage k of a block of items runs before
// stage k+1 of any, so that what stage k prefetches has arrived when stage k+1 needs it. On a GPU
// the stages of an item follow each other; its many warps hide the latency.
#pragma once

#include <hwy/cache_control.h>
#include <hwy/highway.h>
#include <sys/mman.h>

#include <cstddef>
#include <cstring>
#include <memory>
#include <numeric>
#include <span>

#include "exec/counts.hpp"
#include "exec/cpu/cpu_warp.hpp"
#include "exec/machine_concept.hpp"
#include "exec/sort.hpp"
#include "exec/workers.hpp"
#include "fault/planted_faults.hpp"
#include "perdure/batch.h"
#include "perdure/status.h"

namespace perdure::exec::HWY_NAMESPACE {

class CpuMachine {
 public:
  using Warp = CpuWarp;
  using Solo = CpuWarp;  // one thread is a warp already
  // items in flight: about as many as a core has line fill buffers
  static constexpr std::size_t kBlock = 16;
  static constexpr std::size_t kChunk = 512;

  static constexpr bool kPoolIsFar = false;  // across a link, and memory of its own is nearer

  struct Shared {  // by all sessions of a store
    Workers* workers;
    [[nodiscard]] std::string describe() const {
      return std::string("cpu ") + hwy::TargetName(HWY_TARGET) + " x" +
             std::to_string(workers->threads());
    }
  };

  template <class T>
  class Buffer {
   public:
    /// On failure it is as it was.
    Status resize(std::size_t n) {
      if (n <= capacity_) return {};
      auto* const fresh =
          fault::failing_allocation.strikes() ? nullptr : static_cast<T*>(allocate(n * sizeof(T)));
      if (fresh == nullptr)
        return {Code::no_space, "out of memory for " + std::to_string(n * sizeof(T)) + " bytes"};
      data_.reset(fresh);
      capacity_ = n;
      return {};
    }
    [[nodiscard]] T* data() const { return data_.get(); }
    /// The same memory as the host sees it.
    Status need_twin(std::size_t n) { return resize(n); }
    [[nodiscard]] T* twin() const { return data(); }

   private:
    /// Large buffers are touched all over, so they ask for huge pages.
    static void* allocate(std::size_t bytes) {
      constexpr std::size_t kHuge = std::size_t{2} << 20;
      std::size_t const align = bytes >= kHuge ? kHuge : 64;
      std::size_t const room = (bytes + align - 1) / align * align;
      void* const at = std::aligned_alloc(align, room);
      if (at != nullptr && align == kHuge)
        ::madvise(at, room, MADV_HUGEPAGE);  // advice: without it, just slower
      return at;
    }
    struct Free {
      void operator()(T* p) const { std::free(p); }
    };
    std::unique_ptr<T, Free> data_;
    std::size_t capacity_ = 0;
  };

  explicit CpuMachine(Shared& shared) : workers_(shared.workers) {}

  Status begin(CUstream_st*) { return {}; }
  Status begin() { return {}; }

  Status upload(Column const& column, ByteColumn& here, int) {
    if (column.space != MemorySpace::host) {
      return {Code::invalid_argument,
              "a batch in device memory was handed to a store on device cpu; copy it to the host, "
              "or open with device "
              "cuda"};
    }
    here = {column.data, column.offsets, column.width};
    return {};
  }
  Status stage(Column const&, int) { return {}; }
  Status staged(Column&, int) { return {}; }  // it lies in host memory
  Status map_output(MutableColumn const& column, std::byte*& here) {
    if (column.space != MemorySpace::host) {
      return {
          Code::invalid_argument,
          "an output array in device memory was handed to a store on device cpu; use a host array"};
    }
    here = column.data;
    return {};
  }
  template <class Selected>
  Status download_output(MutableColumn const&, Selected) {
    return {};  // written in place
  }
  static bool must_be_downloaded(MutableColumn const&) { return false; }
  Status download_bytes(std::byte*, std::byte const*, std::size_t) {
    return {};
  }  // written in place
  Result<std::byte*> room_for(std::byte* host, std::size_t) { return host; }

  /// For work that the host does itself: a column of the caller's in host memory (after wait()), a
  /// place for values there, and their way to the caller's array.
  Result<Column> download_column(Column const& column, int) {
    ByteColumn here;
    if (Status s = upload(column, here, 0); !s.ok()) return s;
    return column;
  }
  Result<std::byte*> host_room(MutableColumn const& column) {
    std::byte* here = nullptr;
    if (Status s = map_output(column, here); !s.ok()) return s;
    return here;
  }
  Status send_back(MutableColumn const&) { return {}; }

  template <class T>
  Status send(T* to, T const* from, std::size_t n) {
    if (n > 0 && to != from) std::memcpy(to, from, n * sizeof(T));
    return {};
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
  /// Host view of machine memory, valid until the next launch.
  template <class T>
  Result<std::span<T const>> fetch(Buffer<T> const& from, std::size_t n) {
    return std::span<T const>(from.data(), n);
  }
  template <class T>
  Status begin_fetch(Buffer<T> const&, std::size_t) {
    return {};
  }
  Status note_fetch() { return {}; }
  Status await_fetch() { return {}; }

  /// A body whose items are worth more or less than usual says how many a worker takes at once.
  template <class F>
  Status threads(std::size_t n, F body) {
    if (fault::lost_device.strikes()) return lost();
    std::size_t chunk = 4 * kChunk;
    if constexpr (requires { F::kChunk; }) chunk = F::kChunk;
    workers_->for_chunks(n, chunk, [&](std::size_t b, std::size_t e) {
      for (std::size_t i = b; i < e; ++i) body(i);
    });
    return {};
  }

  template <class W, class M, class F>
  Status warps(std::size_t n, F body, M mem, Counts* total) {
    bool const is_lost = fault::lost_device.strikes();  // half way
    workers_->for_chunks(
        is_lost ? n / 2 : n, kChunk / keys_of<F>(),
        [&](std::size_t begin, std::size_t end) { run_chunk<W>(begin, end, body, mem, total); });
    return is_lost ? lost() : Status{};
  }

  Status sort(Sorted* items, std::size_t n) {
    if (Status s = spare_.resize(n); !s.ok()) return s;
    sort_batch(*workers_, {items, n}, {spare_.data(), n});
    return {};
  }
  /// Hashes that are spread evenly.
  Status sort_hashed(Sorted* items, std::size_t n) { return sort(items, n); }

  /// out[i] = in[0] + ... + in[i-1].
  Status sums_before(std::uint32_t const* in, std::uint32_t* out, std::size_t n) {
    std::exclusive_scan(in, in + n, out, std::uint32_t{0});
    return {};
  }

  Status need_room_to_sort_words(std::size_t) { return {}; }  // it sorts where they are
  /// Ascending by the bits from `begin` up to `end`; the answer lies in one of the two.
  Result<std::uint64_t*> sort_words(std::uint64_t* words, std::uint64_t*, std::size_t n, int, int) {
    exec::sort_words({words, n});
    return words;
  }

  /// Everything launched before is seen before anything launched later: launches join their
  /// workers, and the fence covers the caller's own part.
  Status order() {
    std::atomic_thread_fence(std::memory_order_seq_cst);
    return {};
  }
  Status order_launches() { return order(); }
  static constexpr bool kChains = false;  // a launch costs nothing here
  static constexpr bool kLaunchesAhead = false;  // nor does a wait
  Status wait() { return {}; }
  Status need_beside() { return {}; }
  /// Launches what may run beside what is launched until rejoin(); here, before it.
  template <class F>
  Status beside(F launches) {
    return launches();
  }
  Status rejoin() { return {}; }
  Status wait_for_all() { return {}; }
  /// Machine memory to be had.
  [[nodiscard]] std::uint64_t free_bytes() const { return ~std::uint64_t{0}; }

 private:
  static Status lost() { return {Code::device_error, "the device was lost while it ran a batch"}; }

  template <class W, class M, class F>
  static void run_chunk(std::size_t begin, std::size_t end, F const& body, M const& mem,
                        Counts* total) {
    W warp;
    M mine = mem;
    Counts counts;
    constexpr std::size_t kItems = block_of<F>();
    for (std::size_t b = begin; b < end; b += kItems) {
      typename F::template State<W> state[kItems];
      std::size_t const size = end - b < kItems ? end - b : kItems;
      run_stages<0>(warp, mine, body, b, size, state, counts);
    }
    hwy::FlushStream();  // what this worker streamed comes before the end of the launch
    if (total == nullptr) return;
    counts[Counts::reads] += mine.tally().reads;
    counts[Counts::writes] += mine.tally().writes;
    counts[Counts::orders] += mine.tally().orders;
    for (std::uint32_t k = 0; k < Counts::kNames; ++k) {
      if (counts.value[k] != 0)
        __atomic_fetch_add(&total->value[k], counts.value[k], __ATOMIC_RELAXED);
    }
  }

  /// A body whose items have many keys each says how many: a chunk has as many keys as others'.
  template <class F>
  static constexpr std::size_t keys_of() {
    if constexpr (requires { F::kKeys; }) return F::kKeys;
    return 1;
  }
  /// Items in flight. Two of many keys: one's lines come while the other's are asked for.
  template <class F>
  static constexpr std::size_t block_of() {
    return keys_of<F>() == 1 ? kBlock : 2;
  }

  template <int kStage, class W, class M, class F, class State>
  HWY_INLINE static void run_stages(W& warp, M& mem, F const& body, std::size_t first,
                                    std::size_t size, State* state, Counts& counts) {
    for (std::size_t i = 0; i < size; ++i)
      body.template stage<kStage>(warp, mem, first + i, state[i], counts);
    if constexpr (kStage + 1 < F::kStages)
      run_stages<kStage + 1>(warp, mem, body, first, size, state, counts);
  }

  Workers* workers_;
  Buffer<Sorted> spare_;
};

static_assert(Machine<CpuMachine>);

}  // namespace perdure::exec::HWY_NAMESPACE
