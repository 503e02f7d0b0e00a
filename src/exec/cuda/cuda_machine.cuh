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

#include "base/hooks.hpp"
#include "exec/counts.hpp"
#include "exec/cuda/cuda_sort.cuh"
#include "exec/cuda/cuda_staging.cuh"
#include "exec/cuda/cuda_status.cuh"
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

template <int kStage, class W, class M, class F, class State>
__device__ void run_item(W& warp, M& mem, F const& body, std::size_t i, State& state,
                         Counts& counts) {
  body.template stage<kStage>(warp, mem, i, state, counts);
  if constexpr (kStage + 1 < F::kStages) run_item<kStage + 1>(warp, mem, body, i, state, counts);
}

/// Items are shared out over warps (or, for CudaSolo, threads), round robin; the counts of each are
/// kept in registers and added up at the end.
template <class W, class M, class F>
__global__ void run_warps(std::size_t n, F body, M mem, Counts* total) {
  constexpr bool kWarp = std::is_same_v<W, CudaWarp>;
  std::size_t const thread = blockIdx.x * std::size_t{blockDim.x} + threadIdx.x;
  std::size_t const threads = std::size_t{gridDim.x} * blockDim.x;
  std::size_t const me = kWarp ? thread / 32 : thread;
  std::size_t const all = kWarp ? threads / 32 : threads;
  W warp;
  Counts counts;
  for (std::size_t i = me; i < n; i += all) {
    typename F::template State<W> state;
    run_item<0>(warp, mem, body, i, state, counts);
  }
  if (total == nullptr) return;
  counts[Counts::reads] += mem.tally().reads;
  counts[Counts::writes] += mem.tally().writes;
  counts[Counts::orders] += mem.tally().orders;
  __syncwarp();
  for (std::uint32_t k = 0; k < Counts::kNames; ++k) {
    unsigned long long sum = counts.value[k];
    // Threads by themselves sum up first: additions to one word wait for each other.
    for (unsigned step = 16; !kWarp && step > 0; step /= 2)
      sum += __shfl_xor_sync(kAllLanes, sum, step);
    if (sum != 0 && threadIdx.x % 32 == 0)
      atomicAdd(reinterpret_cast<unsigned long long*>(&total->value[k]), sum);
  }
}

struct OrderingBody {
  __device__ void operator()(std::size_t) const { fault::passes(fault::TrapPoint::host_ordering); }
};

class CudaMachine {
 public:
  using Warp = CudaWarp;
  using Solo = CudaSolo;

  static constexpr bool kPoolIsFar = true;  // across a link, and memory of its own is nearer
  static constexpr bool kWritesAhead = true;  // launches run side by side, and writes take longest

  struct Shared {
    int device = 0;
    int multiprocessors = 0;
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
    return Shared{0, properties.multiProcessorCount, properties.name, &workers};
  }

  /// Device memory with a pinned twin on the host, made when first fetched.
  template <class T>
  class Buffer {
   public:
    Buffer() = default;
    Buffer(Buffer const&) = delete;
    Buffer& operator=(Buffer const&) = delete;
    ~Buffer() {
      cudaFree(data_);
      cudaFreeHost(twin_);
    }
    /// On failure it is as it was: who goes back to what was before needs no memory for it.
    Status resize(std::size_t n) {
      if (n <= capacity_ && data_ != nullptr) return {};
      std::size_t const room = std::max(n, kLeastBytes / sizeof(T));
      std::size_t const bytes = room * sizeof(T);
      T* fresh = nullptr;
      cudaError_t const error = fault::failing_allocation.strikes() ? cudaErrorMemoryAllocation
                                                                    : cudaMalloc(&fresh, bytes);
      if (Status s = cuda_allocated(error, bytes, "device memory"); !s.ok()) return s;
      cudaFree(std::exchange(data_, fresh));
      capacity_ = room;
      return {};
    }
    Status need_twin(std::size_t n) {
      if (n <= twin_capacity_ && twin_ != nullptr) return {};
      std::size_t const bytes = n * sizeof(T);
      T* fresh = nullptr;
      cudaError_t const error = fault::failing_allocation.strikes() ? cudaErrorMemoryAllocation
                                                                    : cudaMallocHost(&fresh, bytes);
      if (Status s = cuda_allocated(error, bytes, "pinned memory"); !s.ok()) return s;
      cudaFreeHost(std::exchange(twin_, fresh));
      twin_capacity_ = n;
      return {};
    }
    [[nodiscard]] T* data() const { return data_; }
    [[nodiscard]] T* twin() const { return twin_; }

   private:
    // Growing takes the driver's lock, and waits for all that the device does: not for few bytes.
    static constexpr std::size_t kLeastBytes = std::size_t{64} << 10;

    T* data_ = nullptr;
    T* twin_ = nullptr;
    std::size_t capacity_ = 0;
    std::size_t twin_capacity_ = 0;
  };

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
  }

  /// Work begins. To wait for the legacy default stream, as the other begin() does without a
  /// stream, costs all threads of a process a lock of the driver's.
  Status begin() {
    if (Status s = cuda_status(cudaSetDevice(shared_->device), "choosing the device"); !s.ok())
      return s;
    if (Status s = make(stream_); !s.ok()) return s;
    if (Status s = make(ready_); !s.ok()) return s;
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
  template <class T>
  Result<std::span<T const>> fetch(Buffer<T>& from, std::size_t n) {
    if (Status s = from.need_twin(n); !s.ok()) return s;
    if (Status s = cuda_status(cudaMemcpyAsync(from.twin(), from.data(), n * sizeof(T),
                                               cudaMemcpyDeviceToHost, stream_),
                               "fetching results");
        !s.ok()) {
      return s;
    }
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
    unsigned each = kBlocksPerMultiprocessor;
    if constexpr (requires { F::kWaitsForLink; }) each = kFewBlocks;
    if constexpr (requires { F::kBlocks; }) each = F::kBlocks;
    unsigned const grid = blocks(threads, kBlock, each);
    run_warps<W><<<grid, kBlock, 0, stream_>>>(n, body, mem, total);
    return cuda_status(cudaGetLastError(), "launching a kernel");
  }

  /// All that sort() needs.
  Status make_room_to_sort(Sorted* items, std::size_t n) {
    for (int i = 0; i < 2 && n > kMerged; ++i) {
      if (Status s = hashes_[i].resize(n); !s.ok()) return s;
      if (Status s = indices_[i].resize(n); !s.ok()) return s;
    }
    auto const run = [&](void* room, std::size_t& bytes) { return sort_in(room, bytes, items, n); };
    return with_room("sorting a batch", run, false);
  }
  /// By hash, stably, for `items` come in array order.
  Status sort(Sorted* items, std::size_t n) {
    if (Status s = make_room_to_sort(items, n); !s.ok()) return s;
    std::uint64_t *const hashes = hashes_[0].data(), *const by_hash = hashes_[1].data();
    std::uint32_t *const indices = indices_[0].data(), *const sorted = indices_[1].data();
    if (Status s = n <= kMerged ? Status{} : threads(n, UnzipBody{items, hashes, indices}); !s.ok())
      return s;
    auto const run = [&](void* room, std::size_t& bytes) { return sort_in(room, bytes, items, n); };
    Status const done = with_room("sorting a batch", run);
    return done.ok() && n > kMerged ? threads(n, ZipBody{items, by_hash, sorted}) : done;
  }

  Status sums_before(std::uint32_t const* in, std::uint32_t* out, std::size_t n) {
    return with_room("summing up", [&](void* room, std::size_t& bytes) {
      return exclusive_sums(room, bytes, in, out, n, stream_);
    });
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
  /// Launches, on a stream of their own, what may run beside what is launched until rejoin(); it
  /// comes after what was launched before.
  template <class F>
  Status beside(F launches) {
    if (Status s = make(beside_); !s.ok()) return s;
    if (Status s = make(fork_); !s.ok()) return s;
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

  /// Runs one of CUB's algorithms, which says with no room how much it needs; or makes the room.
  template <class F>
  Status with_room(char const* doing, F run, bool runs = true) {
    std::size_t bytes = 0;
    if (Status s = cuda_status(run(nullptr, bytes), doing); !s.ok()) return s;
    if (Status s = sort_room_.resize(bytes); !s.ok()) return s;
    return runs ? cuda_status(run(sort_room_.data(), bytes), doing) : Status{};
  }
  cudaError_t sort_in(void* room, std::size_t& bytes, Sorted* items, std::size_t n) {
    if (n <= kMerged) return merge_sort_by_hash(room, bytes, items, n, stream_);
    HashedIndices const pairs{{hashes_[0].data(), hashes_[1].data()},
                              {indices_[0].data(), indices_[1].data()}};
    return radix_sort_by_hash(room, bytes, pairs, n, stream_);
  }

  // up to there merging was faster; beyond, nobody has measured
  static constexpr std::size_t kMerged = 1u << 18;
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
  bool apart_ = false;
  CudaStaging staging_;
  Buffer<std::byte> columns_[2], out_, sort_room_;
  Buffer<std::byte> staged_[2];  // their twins alone
  Buffer<std::int64_t> offsets_[2];
  Buffer<std::uint64_t> hashes_[2];
  Buffer<std::uint32_t> indices_[2];
};

static_assert(Machine<CudaMachine>);

}  // namespace perdure::exec
