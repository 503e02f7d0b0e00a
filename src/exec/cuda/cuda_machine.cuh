// The CUDA machine: launches the same bodies as cpu_machine.hpp, on one stream a session. Machine
// memory is device memory; callers' host columns are staged, device columns are used where they
// lie. What is to be logged of these is copied to the host on a second stream meanwhile.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <cstddef>
#include <span>
#include <string>
#include <utility>

#include "base/assert.hpp"
#include "base/hooks.hpp"
#include "exec/counts.hpp"
#include "exec/cuda/cuda_buffer.cuh"
#include "exec/cuda/cuda_groups.cuh"
#include "exec/cuda/cuda_sort.cuh"
#include "exec/cuda/cuda_staging.cuh"
#include "exec/cuda/cuda_status.cuh"
#include "exec/cuda/cuda_steps.cuh"
#include "exec/cuda/cuda_warp.cuh"
#include "exec/machine_concept.hpp"
#include "exec/workers.hpp"
#include "fault/planted_faults.hpp"
#include "perdure/batch.h"

namespace perdure::exec {

template <class F>
__global__ void run_threads(std::size_t n, F body) {
  for (std::size_t i = blockIdx.x * std::size_t{blockDim.x} + threadIdx.x; i < n;
       i += std::size_t{gridDim.x} * blockDim.x)
    body(i);
}

/// Items are shared out over warps (or, for CudaSolo, threads), round robin.
template <class W, class M, class F>
__global__ void run_warps(std::size_t n, F body, M mem, Counts* total) {
  constexpr bool kWarp = std::is_same_v<W, CudaWarp>;
  std::size_t const thread = blockIdx.x * std::size_t{blockDim.x} + threadIdx.x;
  std::size_t const threads = std::size_t{gridDim.x} * blockDim.x;
  run_items<W>(n, body, mem, total, kWarp ? thread / 32 : thread, kWarp ? threads / 32 : threads);
}

/// By one thread, between two launches: what it saw of the first is visible to the whole system
/// before anything of the second.
struct OrderingBody {
  __device__ void operator()(std::size_t) const {
    fault::passes(fault::TrapPoint::host_ordering);
    __threadfence_system();
  }
};

class CudaMachine {
 public:
  using Warp = CudaWarp;
  using LoneWarp = CudaLoneWarp;
  using Solo = CudaSolo;

  static constexpr bool kPoolIsFar = true;  // across a link, and memory of its own is nearer

  struct Shared {
    int device = 0;
    int multiprocessors = 0;
    unsigned step_blocks = 1;  // that a chain of steps can have
    std::string name;
    Workers* workers = nullptr;  // the host's threads
    [[nodiscard]] std::string describe() const { return "cuda " + name; }
  };

  static Result<Shared> describe_device(Workers& workers) {
    cudaDeviceProp properties{};
    if (Status s =
            cuda_status(cudaGetDeviceProperties(&properties, 0), "asking for its properties");
        !s.ok())
      return s;
    return Shared{0, properties.multiProcessorCount, most_step_blocks(), properties.name, &workers};
  }

  template <class T>
  using Buffer = CudaBuffer<T>;

  explicit CudaMachine(Shared& shared) : shared_(&shared) {}
  CudaMachine(CudaMachine const&) = delete;
  CudaMachine& operator=(CudaMachine const&) = delete;
  ~CudaMachine() {
    if (copies_ != nullptr)
      cudaStreamSynchronize(copies_);  // nothing may come into memory that is gone
    if (copies_ != nullptr) cudaStreamDestroy(copies_);
    if (beside_ != nullptr) cudaStreamSynchronize(beside_);
    if (beside_ != nullptr) cudaStreamDestroy(beside_);
    if (stream_ != nullptr) cudaStreamDestroy(stream_);
    if (ready_ != nullptr) cudaEventDestroy(ready_);
    if (fork_ != nullptr) cudaEventDestroy(fork_);
    if (fetched_ != nullptr) cudaEventDestroy(fetched_);
  }

  /// Work begins. To wait for the legacy default stream, as the other begin() does without a
  /// stream, costs all threads of a process a lock of the driver's.
  Status begin() {
    if (Status s = cuda_status(cudaSetDevice(shared_->device), "choosing the device"); !s.ok())
      return s;
    if (Status s = make(stream_); !s.ok()) return s;
    if (Status s = make(ready_); !s.ok()) return s;
    if (Status s = make(fetched_); !s.ok()) return s;
    if (Status s = rejoin(); !s.ok()) return s;  // after a failure
    // What an earlier batch had begun to copy, and then failed, must not come into memory that
    // moves.
    if (copies_ != nullptr) {
      if (Status s = cuda_status(cudaStreamSynchronize(copies_), "copying a batch to the host");
          !s.ok())
        return s;
    }
    return {};
  }
  /// After what the caller has put on `stream`.
  Status begin(CUstream_st* stream) {
    if (Status s = begin(); !s.ok()) return s;
    // A null stream is the legacy default stream: arrays without a stream of their own are ready
    // there.
    if (Status s = cuda_status(cudaEventRecord(ready_, stream), "waiting for the caller's stream");
        !s.ok())
      return s;
    return cuda_status(cudaStreamWaitEvent(stream_, ready_), "waiting for the caller's stream");
  }

  Status upload(Column const& column, ByteColumn& here, int which) {
    here = {column.data, column.offsets, column.width};
    if (column.data == nullptr || column.space == MemorySpace::device || column.count == 0)
      return {};
    std::size_t const n = column.count;
    std::size_t const bytes =
        column.offsets == nullptr ? n * column.width : static_cast<std::size_t>(column.offsets[n]);
    if (Status s = columns_[which].resize(bytes); !s.ok()) return s;
    if (Status s = send_much(columns_[which].data(), column.data, bytes); !s.ok()) return s;
    here.data = columns_[which].data();
    if (column.offsets == nullptr) return {};
    if (Status s = offsets_[which].resize(n + 1); !s.ok()) return s;
    if (Status s = send(offsets_[which].data(), column.offsets, n + 1); !s.ok()) return s;
    here.offsets = offsets_[which].data();
    return {};
  }

  /// Begins to copy a device column to the host: after what the caller has put on its stream, and
  /// beside the batch, which only reads it.
  Status stage(Column const& column, int which) {
    if (!must_be_copied(column)) return {};
    if (Status s = make(copies_); !s.ok()) return s;
    std::size_t const bytes = column.count * column.width;
    if (Status s = staged_[which].need_twin(bytes); !s.ok()) return s;
    if (Status s =
            cuda_status(cudaStreamWaitEvent(copies_, ready_), "waiting for the caller's stream");
        !s.ok())
      return s;
    return cuda_status(
        cudaMemcpyAsync(staged_[which].twin(), column.data, bytes, cudaMemcpyDeviceToHost, copies_),
        "copying a batch to the host");
  }
  /// Makes it the column of that copy.
  Status staged(Column& column, int which) {
    if (!must_be_copied(column)) return {};
    if (Status s = cuda_status(cudaStreamSynchronize(copies_), "copying a batch to the host");
        !s.ok())
      return s;
    column.data = staged_[which].twin();
    column.space = MemorySpace::host;
    return {};
  }

  Status map_output(MutableColumn const& column, std::byte*& here) {
    here = column.data;
    if (column.data == nullptr || column.space == MemorySpace::device || column.count == 0)
      return {};
    std::size_t const bytes = column.count * column.width;
    if (Status s = out_.resize(bytes); !s.ok()) return s;
    here = out_.data();
    return {};
  }
  /// Those elements that selected(i) names; the others stay as the caller has them.
  template <class Selected>
  Status download_output(MutableColumn const& column, Selected selected) {
    if (!must_be_downloaded(column)) return {};
    return staging_.fetch(column.data, out_.data(), column.width, column.count, stream_,
                          *shared_->workers, selected);
  }
  /// Whether download_output() will ask which elements are selected.
  static bool must_be_downloaded(MutableColumn const& column) {
    return column.data != nullptr && column.space == MemorySpace::host && column.count > 0;
  }
  Status download_bytes(std::byte* to, std::byte const* from, std::size_t bytes) {
    return cuda_status(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, stream_),
                       "copying results to the host");
  }
  Result<std::byte*> room_for(std::byte*, std::size_t bytes) {
    if (Status s = out_.resize(bytes); !s.ok()) return s;
    return out_.data();
  }

  Result<Column> download_column(Column const& column, int which) {
    if (column.space == MemorySpace::host || column.count == 0) return column;
    if (column.offsets != nullptr)
      return Status{Code::unsupported, "a column of varying width in device memory"};
    std::size_t const bytes = column.count * column.width;
    if (Status s = columns_[which].need_twin(bytes); !s.ok()) return s;
    if (Status s = download_bytes(columns_[which].twin(), column.data, bytes); !s.ok()) return s;
    return Column{columns_[which].twin(), nullptr, column.width, column.count, MemorySpace::host};
  }
  Result<std::byte*> host_room(MutableColumn const& column) {
    if (column.space == MemorySpace::host || column.count == 0) return column.data;
    if (Status s = out_.need_twin(column.count * column.width); !s.ok()) return s;
    return out_.twin();
  }
  Status send_back(MutableColumn const& column) {
    if (column.space == MemorySpace::host || column.count == 0) return {};
    return send(column.data, static_cast<std::byte const*>(out_.twin()),
                column.count * column.width);
  }

  /// Of any size, from and to host memory that need not be pinned.
  Status send_much(std::byte* to, std::byte const* from, std::size_t bytes) {
    if (!CudaStaging::pays(from, bytes)) return send(to, from, bytes);
    return staging_.send(to, from, bytes, stream_, *shared_->workers);
  }
  Status download_much(std::byte* to, std::byte const* from, std::size_t bytes) {
    constexpr std::size_t kRow = 4096;
    std::size_t const rows = CudaStaging::pays(to, bytes) ? bytes / kRow : 0;
    Status const staged = staging_.fetch(to, from, kRow, rows, stream_, *shared_->workers,
                                         [](std::size_t) { return true; });
    if (!staged.ok()) return staged;
    return download_bytes(to + rows * kRow, from + rows * kRow, bytes - rows * kRow);
  }

  template <class T>
  Status send(T* to, T const* from, std::size_t n) {
    if (n == 0) return {};
    return cuda_status(cudaMemcpyAsync(to, from, n * sizeof(T), cudaMemcpyHostToDevice, stream_),
                       "copying a batch to the GPU");
  }
  template <class T>
  Status copy(T* to, T const* from, std::size_t n) {
    return cuda_status(cudaMemcpyAsync(to, from, n * sizeof(T), cudaMemcpyDeviceToDevice, stream_),
                       "copying on the GPU");
  }
  template <class T>
  Status fill(T* to, int byte, std::size_t n) {
    return cuda_status(cudaMemsetAsync(to, byte, n * sizeof(T), stream_), "clearing a buffer");
  }
  /// Into its twin, which has it after wait().
  template <class T>
  Status begin_fetch(Buffer<T>& from, std::size_t n) {
    if (Status s = from.need_twin(n); !s.ok()) return s;
    return cuda_status(
        cudaMemcpyAsync(from.twin(), from.data(), n * sizeof(T), cudaMemcpyDeviceToHost, stream_),
        kFetching);
  }
  /// What has been begun so is there after await_fetch(), whatever is launched from here on.
  Status note_fetch() { return cuda_status(cudaEventRecord(fetched_, stream_), kFetching); }
  Status await_fetch() { return cuda_status(cudaEventSynchronize(fetched_), kFetching); }
  template <class T>
  Result<std::span<T const>> fetch(Buffer<T>& from, std::size_t n) {
    if (Status s = begin_fetch(from, n); !s.ok()) return s;
    if (Status s = wait(); !s.ok()) return s;
    return std::span<T const>(from.twin(), n);
  }

  template <class F>
  Status threads(std::size_t n, F body) {
    if (fault::lost_device.strikes())
      return cuda_status(cudaErrorLaunchFailure, "launching a kernel");
    run_threads<<<blocks(n, 256), 256, 0, stream_>>>(n, body);
    return cuda_status(cudaGetLastError(), "launching a kernel");
  }

  template <class W, class M, class F>
  Status warps(std::size_t n, F body, M mem, Counts* total) {
    if (fault::lost_device.strikes())
      return cuda_status(cudaErrorLaunchFailure, "launching a kernel");
    std::size_t const threads = std::is_same_v<W, CudaWarp> ? n * 32 : n;
    fault::kernel_launched();
    constexpr bool kFew = requires { F::kWaitsForLink; };
    unsigned const grid = blocks(threads, kBlock, kFew ? kFewBlocks : kBlocksPerMultiprocessor);
    run_warps<W><<<grid, kBlock, 0, stream_>>>(n, body, mem, total);
    return cuda_status(cudaGetLastError(), "launching a kernel");
  }

  /// Several steps in one launch, by one cluster (cuda_steps.cuh), of batches of so many at most.
  static constexpr bool kChains = true;
  static constexpr bool kLaunchesAhead = true;
  [[nodiscard]] std::size_t most_chained() const {
    return std::size_t{kStepThreads} * shared_->step_blocks;
  }
  template <class W, class M, class F>
  static PERDURE_FN WarpsStep<W, M, F> warps_step(std::size_t n, F body, M mem, Counts* total,
                                                  std::uint64_t const* listed = nullptr) {
    return {n, body, mem, total, listed};
  }
  template <class F>
  static PERDURE_FN ThreadsStep<F> threads_step(std::size_t n, F body) {
    return {n, body};
  }
  template <class A, class B>
  static PERDURE_FN BothSteps<A, B> both_steps(A a, B b) {
    return {a, b};
  }
  static PERDURE_FN GroupStep group_step(Sorted* items, std::size_t n, std::uint64_t* repeated) {
    return {items, n, repeated};
  }
  static PERDURE_FN OrderStep order_step() { return {}; }
  /// Of a batch of n; steps.each(run) runs one after the other.
  template <class Steps>
  Status chain(std::size_t n, Steps const& steps) {
    PERDURE_ASSERT(n <= most_chained());
    if (fault::lost_device.strikes())
      return cuda_status(cudaErrorLaunchFailure, "launching a kernel");
    fault::kernel_launched();
    return cuda_status(launch_steps(n, stream_, steps), "launching a kernel");
  }

  /// By hash, stably, for `items` come in array order.
  Status sort(Sorted* items, std::size_t n) {
    if (n <= kMerged) {
      return with_room("sorting a batch", [&](void* room, std::size_t& bytes) {
        return merge_sort_by_hash(room, bytes, items, n, stream_);
      });
    }
    for (int i = 0; i < 2; ++i) {
      if (Status s = hashes_[i].resize(n); !s.ok()) return s;
      if (Status s = indices_[i].resize(n); !s.ok()) return s;
    }
    HashedIndices const pairs{{hashes_[0].data(), hashes_[1].data()},
                              {indices_[0].data(), indices_[1].data()}};
    if (Status s = threads(n, UnzipBody{items, pairs.hashes[0], pairs.indices[0]}); !s.ok())
      return s;
    Status const sorted = with_room("sorting a batch", [&](void* room, std::size_t& bytes) {
      return radix_sort_by_hash(room, bytes, pairs, n, stream_);
    });
    return sorted.ok() ? threads(n, ZipBody{items, pairs.hashes[1], pairs.indices[1]}) : sorted;
  }
  /// The same, of hashes that are spread evenly.
  Status sort_hashed(Sorted* items, std::size_t n) {
    if (n <= kMerged || n > kByUpperHalf) return sort(items, n);
    return with_room("sorting a batch", [&](void* room, std::size_t& bytes) {
      return radix_sort_by_upper_half(room, bytes, items, n, stream_);
    });
  }

  Status sums_before(std::uint32_t const* in, std::uint32_t* out, std::size_t n) {
    return with_room("summing up", [&](void* room, std::size_t& bytes) {
      return exclusive_sums(room, bytes, in, out, n, stream_);
    });
  }

  /// So that sorting n of them, later, does not fail for want of memory.
  Status need_room_to_sort_words(std::size_t n) {
    std::size_t bytes = 0;
    std::uint64_t* sorted = nullptr;
    if (Status s = cuda_status(
            radix_sort_words(nullptr, bytes, nullptr, nullptr, n, 0, 64, sorted, stream_),
            "sorting a batch");
        !s.ok())
      return s;
    return sort_room_.resize(bytes);
  }
  Result<std::uint64_t*> sort_words(std::uint64_t* words, std::uint64_t* spare, std::size_t n,
                                    int begin, int end) {
    std::uint64_t* sorted = nullptr;
    Status const done = with_room("sorting a batch", [&](void* room, std::size_t& bytes) {
      return radix_sort_words(room, bytes, words, spare, n, begin, end, sorted, stream_);
    });
    if (!done.ok()) return done;
    return sorted;
  }

  /// Kernels of one stream follow each other, and a kernel's end makes its stores to host memory
  /// visible to the next and, once waited for, to the host.
  Status order() {
    if constexpr (fault::kTraps) {
      if (Status s = threads(1, OrderingBody{}); !s.ok()) return s;
    }
    return wait();
  }
  /// Between launches nobody need wait: they follow each other, and so do their stores.
  Status order_launches() { return threads(1, OrderingBody{}); }
  /// Memory of the GPU to be had.
  [[nodiscard]] std::uint64_t free_bytes() const {
    std::size_t free = 0, total = 0;
    return cudaMemGetInfo(&free, &total) == cudaSuccess ? free : 0;
  }
  Status wait() {
    cudaError_t const error = cudaStreamSynchronize(stream_);
    fault::kernels_ended();
    return cuda_status(error, "running a batch");
  }
  /// Whether all that was launched has ended; does not wait.
  Result<bool> done() {
    cudaError_t const error = cudaStreamQuery(stream_);
    if (error == cudaErrorNotReady) return false;
    if (Status s = cuda_status(error, "running a batch"); !s.ok()) return s;
    return true;
  }
  Status need_beside() {
    Status const made = make(beside_);
    return made.ok() ? make(fork_) : made;
  }
  /// Launches, on a stream of their own, what may run beside what is launched until rejoin(); it
  /// comes after what was launched before.
  template <class F>
  Status beside(F launches) {
    if (Status s = need_beside(); !s.ok()) return s;
    Status const forked = cuda_status(cudaEventRecord(fork_, stream_), "launching beside a batch");
    if (!forked.ok()) return forked;
    Status const waits = cuda_status(cudaStreamWaitEvent(beside_, fork_), "launching beside it");
    if (!waits.ok()) return waits;
    std::swap(stream_, beside_);
    Status const launched = launches();
    std::swap(stream_, beside_);
    apart_ = true;
    return launched;
  }
  /// What is launched from here on comes after both.
  Status rejoin() {
    if (!apart_) return {};
    apart_ = false;
    if (Status s = cuda_status(cudaEventRecord(fork_, beside_), "launching beside a batch");
        !s.ok())
      return s;
    return cuda_status(cudaStreamWaitEvent(stream_, fork_), "launching beside a batch");
  }
  /// For every kernel on the device, whoever launched it.
  Status wait_for_all() {
    return cuda_status(cudaDeviceSynchronize(), "waiting for the kernels of a device session");
  }

 private:
  static constexpr char const* kFetching = "fetching results";

  /// Where there is none yet.
  static Status make(cudaStream_t& stream) {
    if (stream != nullptr) return {};
    return cuda_status(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking),
                       "making a stream");
  }
  static Status make(cudaEvent_t& event) {
    if (event != nullptr) return {};
    return cuda_status(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "making an event");
  }
  static bool must_be_copied(Column const& column) {
    return column.data != nullptr && column.space == MemorySpace::device &&
           column.count * column.width > 0;
  }

  /// Runs one of CUB's algorithms, which says with no room how much it needs.
  template <class F>
  Status with_room(char const* doing, F run) {
    std::size_t bytes = 0;
    if (Status s = cuda_status(run(nullptr, bytes), doing); !s.ok()) return s;
    if (Status s = sort_room_.resize(bytes); !s.ok()) return s;
    return cuda_status(run(sort_room_.data(), bytes), doing);
  }

  // up to there merging was faster; beyond, nobody has measured
  static constexpr std::size_t kMerged = 1u << 18;
  // beyond, runs that have one upper half by chance become too many
  static constexpr std::size_t kByUpperHalf = 1u << 21;
  // a limit of 64 registers, for twice the warps, cost a third of the inserts
  static constexpr unsigned kBlock = 128;
  static constexpr unsigned kBlocksPerMultiprocessor = 16;
  static constexpr unsigned kFewBlocks = 4;  // likewise

  [[nodiscard]] unsigned blocks(std::size_t threads, unsigned block,
                                unsigned each = kBlocksPerMultiprocessor) const {
    std::size_t const needed = (threads + block - 1) / block;
    std::size_t const most = static_cast<std::size_t>(shared_->multiprocessors) * each;
    return static_cast<unsigned>(needed < 1 ? 1 : needed < most ? needed : most);
  }

  Shared* shared_;
  cudaStream_t stream_ = nullptr;
  cudaStream_t copies_ = nullptr;  // of columns to the host, beside stream_
  cudaStream_t beside_ = nullptr;
  cudaEvent_t ready_ = nullptr;
  cudaEvent_t fork_ = nullptr;
  cudaEvent_t fetched_ = nullptr;
  bool apart_ = false;
  CudaStaging staging_;
  Buffer<std::byte> columns_[3], out_, sort_room_;
  Buffer<std::byte> staged_[2];  // their twins alone
  Buffer<std::int64_t> offsets_[2];
  Buffer<std::uint64_t> hashes_[2];
  Buffer<std::uint32_t> indices_[2];
};

static_assert(Machine<CudaMachine>);

}  // namespace perdure::exec
