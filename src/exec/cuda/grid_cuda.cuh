// Grids on a GPU (exec/grid.hpp): a CUDA kernel of the same shape, phases parted by the block's
// barrier. Machine memory is the GPU's. Invariant: a grid's work is in order on one stream;
// launch() returns before it is done, order() after. That stream waits for no other, and no other
// for it, but by follow() and order().
#pragma once

#include <cuda_runtime.h>

#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "base/annotate.hpp"
#include "base/hooks.hpp"
#include "exec/cuda/cuda_status.cuh"
#include "exec/grid.hpp"

namespace perdure::exec {

/// std::type_identity_t, for users' programs in C++17.
template <class T>
struct AsGivenType {
  using Type = T;
};
template <class T>
using AsGiven = typename AsGivenType<T>::Type;

class CudaThread {
 public:
  __device__ explicit CudaThread(Persist persist) : persists_(persist == Persist::here) {}

  // Numbers in all dimensions: a user's kernel may have up to three.
  __device__ std::uint32_t block() const {
    return static_cast<std::uint32_t>(of(gridDim).number_of(at(blockIdx)));
  }
  __device__ std::uint32_t thread() const {
    return static_cast<std::uint32_t>(of(blockDim).number_of(at(threadIdx)));
  }
  __device__ std::uint32_t blocks() const {
    return static_cast<std::uint32_t>(of(gridDim).volume());
  }
  __device__ std::uint32_t threads() const {
    return static_cast<std::uint32_t>(of(blockDim).volume());
  }
  __device__ std::uint64_t global() const {
    return of(gridDim).number_of(at(blockIdx)) * threads() + thread();
  }
  __device__ std::uint64_t total() const { return of(gridDim).volume() * threads(); }

  template <class T>
  __device__ void store(T* at, AsGiven<T> value) {
    static_assert(kStorable<T>);
    *at = value;
    ++stores_;
    bytes_ += sizeof(T);
    fault::passes(fault::TrapPoint::word);
  }
  template <class T>
  __device__ T load(T const* at) const {
    return *const_cast<T const volatile*>(at);
  }
  __device__ void persist() {
    if (!persists_) return;
    fault::passes(fault::TrapPoint::ordering);
    __threadfence_system();
    ++orders_;
  }
  /// At the end of a launch that is counted.
  __device__ void add_to(GridTally& tally) const {
    atomicAdd(word(&tally.stores), stores_);
    atomicAdd(word(&tally.bytes), bytes_);
    atomicAdd(word(&tally.orders), orders_);
  }

  template <class T>
  __device__ static T add(T* at, AsGiven<T> more) {
    return back<T>(atomicAdd(word(at), as_word<T>(more)));
  }
  template <class T>
  __device__ static T least(T* at, AsGiven<T> other) {
    return back<T>(atomicMin(word(at), as_word<T>(other)));
  }
  template <class T>
  __device__ static T greatest(T* at, AsGiven<T> other) {
    return back<T>(atomicMax(word(at), as_word<T>(other)));
  }
  template <class T>
  __device__ static T cas(T* at, AsGiven<T> expected, AsGiven<T> desired) {
    return back<T>(atomicCAS(word(at), as_word<T>(expected), as_word<T>(desired)));
  }
  template <class T>
  __device__ static T exchange(T* at, AsGiven<T> value) {
    return back<T>(atomicExch(word(at), as_word<T>(value)));
  }
  __device__ static void local_fence() { __threadfence(); }
  __device__ static void pause() { __nanosleep(64); }

 private:
  /// CUDA's atomics know unsigned long long, not std::uint64_t, which is another type of the same
  /// size.
  template <class T>
  using Word = std::conditional_t<sizeof(T) == 8 && std::is_unsigned_v<T>, unsigned long long, T>;
  template <class T>
  __device__ static Word<T>* word(T* at) {
    return reinterpret_cast<Word<T>*>(at);
  }
  template <class T>
  __device__ static Word<T> as_word(T value) {
    return static_cast<Word<T>>(value);
  }
  template <class T>
  __device__ static T back(Word<T> value) {
    return static_cast<T>(value);
  }

  __device__ static Extent3 of(dim3 extent) { return {extent.x, extent.y, extent.z}; }
  __device__ static Extent3 at(uint3 index) { return {index.x, index.y, index.z}; }

  bool persists_;
  std::uint32_t stores_ = 0, bytes_ = 0, orders_ = 0;
};

namespace grid_detail {

template <int kPhase, class K>
__device__ void phases_from(K const& kernel, CudaThread& thread, typename K::Shared& shared,
                            typename K::State& state) {
  kernel.template run<kPhase>(thread, shared, state);
  if constexpr (kPhase + 1 < K::kPhases) {
    __syncthreads();
    phases_from<kPhase + 1>(kernel, thread, shared, state);
  }
}

template <class K>
__global__ void __launch_bounds__(kMostGridThreads)
    run_grid(__grid_constant__ K const kernel, Persist persist, GridTally* tally) {
  __shared__ typename K::Shared shared;
  typename K::State state{};
  CudaThread thread(persist);
  phases_from<0>(kernel, thread, shared, state);
  if (tally != nullptr) thread.add_to(*tally);
}

}  // namespace grid_detail

template <class T>
class CudaBuffer {
 public:
  static_assert(std::is_trivially_copyable_v<T>);
  CudaBuffer() = default;
  CudaBuffer(CudaBuffer&& other) noexcept { *this = std::move(other); }
  CudaBuffer& operator=(CudaBuffer&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(capacity_, other.capacity_);
    return *this;
  }
  ~CudaBuffer() { cudaFree(data_); }

  /// What it held is gone, unless it was large enough; on failure it is as it was.
  Status resize(std::size_t n) {
    if (n <= capacity_) return {};
    void* fresh = nullptr;
    if (Status s = cuda_allocated(cudaMalloc(&fresh, n * sizeof(T)), n * sizeof(T), "GPU memory");
        !s.ok())
      return s;
    cudaFree(data_);
    data_ = static_cast<T*>(fresh);
    capacity_ = n;
    return {};
  }
  [[nodiscard]] T* data() const { return data_; }

 private:
  T* data_ = nullptr;
  std::size_t capacity_ = 0;
};

class CudaGrid {
 public:
  using Thread = CudaThread;
  template <class T>
  using Buffer = CudaBuffer<T>;
  static constexpr bool kPinsPools = true;

  static Result<std::unique_ptr<CudaGrid>> open(std::uint32_t = 0) {
    int count = 0;
    if (cudaError_t const error = cudaGetDeviceCount(&count); error != cudaSuccess || count == 0) {
      static_cast<void>(cudaGetLastError());
      return Status{Code::unsupported,
                    std::string("no GPU here (") +
                        (error == cudaSuccess ? "none is visible" : cudaGetErrorString(error)) +
                        "); use device cpu"};
    }
    auto grid = std::make_unique<CudaGrid>();
    if (Status s = cuda_status(cudaStreamCreateWithFlags(&grid->stream_, cudaStreamNonBlocking),
                               "making a stream");
        !s.ok())
      return s;
    return Result<std::unique_ptr<CudaGrid>>(std::move(grid));
  }
  CudaGrid() = default;
  CudaGrid(CudaGrid const&) = delete;
  CudaGrid& operator=(CudaGrid const&) = delete;
  ~CudaGrid() {
    if (stream_ != nullptr) cudaStreamDestroy(stream_);
  }

  [[nodiscard]] std::string describe() const {
    cudaDeviceProp properties{};
    if (cudaGetDeviceProperties(&properties, 0) != cudaSuccess) return "cuda";
    return std::string("cuda ") + properties.name;
  }
  [[nodiscard]] static std::uint32_t host_threads() { return std::thread::hardware_concurrency(); }

  template <class K>
  Status launch(GridShape shape, K const& kernel, Persist persist = Persist::here) {
    if (shape.blocks == 0) return {};
    grid_detail::run_grid<K>
        <<<shape.blocks, shape.threads, 0, stream_>>>(kernel, persist, counted_.data());
    return cuda_status(cudaGetLastError(), "launching a kernel");
  }
  /// What others launched so far comes before what is launched here from now on: on the legacy
  /// default stream and the streams that wait for it (all but non-blocking ones), and on `stream`,
  /// if one is given.
  Status follow(void* stream) {
    if (Status s = follow_one(cudaStreamLegacy); !s.ok() || stream == nullptr) return s;
    return follow_one(static_cast<cudaStream_t>(stream));
  }
  /// What was launched has ended, and comes before whatever is stored afterwards.
  Status order() { return cuda_status(cudaStreamSynchronize(stream_), "waiting for kernels"); }

  /// The host array may be used again when it returns.
  template <class T>
  Status send(T* to, T const* from, std::size_t n) {
    return copied(to, from, n * sizeof(T), cudaMemcpyHostToDevice, "copying to the GPU");
  }
  template <class T>
  Status fetch(T* to, T const* from, std::size_t n) {
    return copied(to, from, n * sizeof(T), cudaMemcpyDeviceToHost, "copying from the GPU");
  }
  /// Within what kernels reach.
  template <class T>
  Status copy(T* to, T const* from, std::size_t n) {
    return cuda_status(cudaMemcpyAsync(to, from, n * sizeof(T), cudaMemcpyDefault, stream_),
                       "copying");
  }
  template <class T>
  Status fill(T* to, int byte, std::size_t n) {
    return cuda_status(cudaMemsetAsync(to, byte, n * sizeof(T), stream_), "filling GPU memory");
  }
  /// Whether kernels can reach it: the GPU's memory, or the host's where it is registered.
  Status reaches(void const* at, std::size_t bytes) const {
    for (auto const* end : {static_cast<char const*>(at),
                            static_cast<char const*>(at) + (bytes == 0 ? 0 : bytes - 1)}) {
      cudaPointerAttributes attributes{};
      cudaError_t const error = cudaPointerGetAttributes(&attributes, end);
      static_cast<void>(cudaGetLastError());
      if (error != cudaSuccess || attributes.devicePointer == nullptr) {
        return {Code::invalid_argument,
                "an address that the GPU cannot reach; pass memory from cudaMalloc, or register "
                "host memory first"};
      }
    }
    return {};
  }
  /// For libraries' kernels between launches.
  [[nodiscard]] cudaStream_t stream() const { return stream_; }

  /// From now on launches are counted, which takes time.
  Status count() {
    if (Status s = counted_.resize(1); !s.ok()) return s;
    return fill(counted_.data(), 0, 1);
  }
  /// Zeros unless launches are counted.
  Result<GridTally> tally() {
    GridTally all;
    if (counted_.data() == nullptr) return all;
    if (Status s = fetch(&all, counted_.data(), 1); !s.ok()) return s;
    return all;
  }

 private:
  Status follow_one(cudaStream_t other) {
    cudaEvent_t launched = nullptr;  // a call's own: calls may come from several threads
    if (Status s = cuda_status(cudaEventCreateWithFlags(&launched, cudaEventDisableTiming),
                               "making an event");
        !s.ok())
      return s;
    cudaError_t const marked = cudaEventRecord(launched, other);
    cudaError_t const waits =
        marked == cudaSuccess ? cudaStreamWaitEvent(stream_, launched) : marked;
    cudaEventDestroy(launched);
    return cuda_status(waits, "waiting for a stream");
  }
  Status copied(void* to, void const* from, std::size_t bytes, cudaMemcpyKind kind,
                char const* doing) {
    if (Status s = cuda_status(cudaMemcpyAsync(to, from, bytes, kind, stream_), doing); !s.ok())
      return s;
    return cuda_status(cudaStreamSynchronize(stream_), doing);
  }

  cudaStream_t stream_ = nullptr;
  CudaBuffer<GridTally> counted_;  // where launches are counted
};

}  // namespace perdure::exec
