// The instantiations of CUB that batches need; see cuda_sort.cuh.
//
// No kernel of CUB's begins before the one in front of it has ended. Before CCCL 3.0.2 one of its
// merge sort's may, and then reads where its tiles begin before that is written: once several
// threads sort side by side, it copies to wherever that says (NVIDIA/cccl#5456).
#define CCCL_DISABLE_PDL
#include <cuda/version>  // CCCL_VERSION
#if CCCL_VERSION < 3000002  // which does not know that name
#include <cuda/std/__cccl/cuda_capabilities.h>
#undef _CCCL_HAS_PDL
#define _CCCL_HAS_PDL 0
#endif

#include "exec/cuda/cuda_sort.cuh"

#include <cub/device/device_merge_sort.cuh>
#include <cub/device/device_radix_sort.cuh>
#include <cub/device/device_scan.cuh>

namespace perdure::exec {
namespace {

struct ByHash {
  __device__ bool operator()(Sorted const& a, Sorted const& b) const { return a.hash < b.hash; }
};

// ------------------------------------------------------------------------------------------------
// By the upper halves of hashes. Positions are sorted by these, and items are gathered by them. A
// *mixed run* is what of the result has one upper half and several hashes: 128 runs, mostly of two,
// in 2^20 hashes that differ. Those alone are put in order afterwards, stably.

__host__ __device__ std::uint32_t upper(Sorted const& item) {
  return static_cast<std::uint32_t>(item.hash >> 32);
}

struct SplitBody {
  Sorted const* items;
  Sorted* copies;
  std::uint32_t* uppers;
  std::uint32_t* positions;
  __device__ void operator()(std::uint32_t i) const {
    Sorted const item = items[i];
    copies[i] = item;
    uppers[i] = upper(item);
    positions[i] = i;
  }
};

struct GatherBody {
  Sorted const* copies;
  std::uint32_t const* positions;
  Sorted* items;
  __device__ void operator()(std::uint32_t i) const { items[i] = copies[positions[i]]; }
};

/// Half-open ranges [x, y) of the sorted items. Short runs fill the array from its front, long runs
/// from its back.
struct MixedRuns {
  static constexpr std::uint32_t kLong = 64;  // more than one thread should move

  uint2* runs;
  std::uint32_t most;
  std::uint32_t* counts;  // of short ones, of long ones

  __device__ void add(uint2 run) const {
    bool const is_long = run.y - run.x > kLong;
    std::uint32_t const at = atomicAdd(counts + is_long, 1u);
    runs[is_long ? most - 1 - at : at] = run;
  }
  [[nodiscard]] __device__ uint2 long_run(std::uint32_t r) const { return runs[most - 1 - r]; }
};

/// Each mixed run is found at the first place where two hashes of it meet.
struct FindMixedBody {
  Sorted const* items;
  std::uint32_t n;
  MixedRuns mixed;

  [[nodiscard]] __device__ bool meets(std::uint32_t i) const {
    return i > 0 && i < n && upper(items[i - 1]) == upper(items[i]);
  }
  __device__ void operator()(std::uint32_t i) const {
    if (!meets(i) || items[i - 1].hash == items[i].hash) return;
    std::uint32_t begin = i - 1, end = i + 1;
    for (; meets(begin); --begin)
      if (items[begin - 1].hash != items[begin].hash) return;
    while (meets(end)) ++end;
    mixed.add({begin, end});
  }
};

/// Short runs by insertion, a thread each. Of long ones every item counts what comes before it, and
/// goes there in the copies.
struct OrderMixedBody {
  Sorted* items;
  Sorted* copies;
  MixedRuns mixed;

  __device__ void insert_all(uint2 run) const {
    for (std::uint32_t i = run.x + 1; i < run.y; ++i) {
      Sorted const item = items[i];
      std::uint32_t to = i;
      for (; to > run.x && items[to - 1].hash > item.hash; --to) items[to] = items[to - 1];
      items[to] = item;
    }
  }
  __device__ void place(uint2 run, std::uint32_t i) const {
    Sorted const item = items[i];
    std::uint32_t to = run.x;
    for (std::uint32_t k = run.x; k < run.y; ++k)
      to += items[k].hash < item.hash || (items[k].hash == item.hash && k < i);
    copies[to] = item;
  }
  __device__ void operator()(std::uint32_t thread, std::uint32_t threads) const {
    for (std::uint32_t r = thread; r < mixed.counts[0]; r += threads) insert_all(mixed.runs[r]);
    for (std::uint32_t r = 0; r < mixed.counts[1]; ++r) {
      uint2 const run = mixed.long_run(r);
      for (std::uint32_t i = run.x + thread; i < run.y; i += threads) place(run, i);
    }
  }
};

/// Long runs, from where they were put in order.
struct BringBackBody {
  Sorted const* copies;
  Sorted* items;
  MixedRuns mixed;
  __device__ void operator()(std::uint32_t thread, std::uint32_t threads) const {
    for (std::uint32_t r = 0; r < mixed.counts[1]; ++r) {
      uint2 const run = mixed.long_run(r);
      for (std::uint32_t i = run.x + thread; i < run.y; i += threads) items[i] = copies[i];
    }
  }
};

template <class F>
__global__ void one_each(std::uint32_t n, F body) {
  std::uint32_t const i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) body(i);
}
template <class F>
__global__ void all_together(F body) {
  body(blockIdx.x * blockDim.x + threadIdx.x, gridDim.x * blockDim.x);
}

constexpr unsigned kThreads = 256;
constexpr unsigned kBlocksTogether = 128;

/// Cuts what one allocation holds into parts.
class Parts {
 public:
  explicit Parts(void* at) : begin_(static_cast<std::byte*>(at)) {}
  template <class T>
  T* next(std::size_t n) {
    std::byte* const at = begin_ == nullptr ? nullptr : begin_ + taken_;
    taken_ += (n * sizeof(T) + 255) / 256 * 256;
    return reinterpret_cast<T*>(at);
  }
  [[nodiscard]] std::size_t taken() const { return taken_; }

 private:
  std::byte* begin_;
  std::size_t taken_ = 0;
};

}  // namespace

cudaError_t merge_sort_by_hash(void* room, std::size_t& bytes, Sorted* items, std::size_t n,
                               cudaStream_t stream) {
  return cub::DeviceMergeSort::StableSortKeys(room, bytes, items, n, ByHash{}, stream);
}

cudaError_t radix_sort_by_hash(void* room, std::size_t& bytes, HashedIndices const& pairs,
                               std::size_t n, cudaStream_t stream) {
  return cub::DeviceRadixSort::SortPairs(room, bytes, pairs.hashes[0], pairs.hashes[1],
                                         pairs.indices[0], pairs.indices[1], static_cast<int>(n), 0,
                                         64, stream);
}

cudaError_t radix_sort_by_upper_half(void* room, std::size_t& bytes, Sorted* items, std::size_t n,
                                     cudaStream_t stream) {
  auto const count = static_cast<std::uint32_t>(n);
  Parts parts(room);
  auto* const copies = parts.next<Sorted>(n);
  cub::DoubleBuffer<std::uint32_t> uppers(parts.next<std::uint32_t>(n),
                                          parts.next<std::uint32_t>(n));
  cub::DoubleBuffer<std::uint32_t> positions(parts.next<std::uint32_t>(n),
                                             parts.next<std::uint32_t>(n));
  MixedRuns const mixed{parts.next<uint2>(n / 2), count / 2, parts.next<std::uint32_t>(2)};
  auto const sort = [&](void* at, std::size_t& needed) {
    return cub::DeviceRadixSort::SortPairs(at, needed, uppers, positions, static_cast<int>(n), 0,
                                           32, stream);
  };
  std::size_t needed = 0;
  if (cudaError_t const e = sort(nullptr, needed); e != cudaSuccess) return e;
  auto* const rest = parts.next<std::byte>(needed);
  if (room == nullptr) {
    bytes = parts.taken();
    return cudaSuccess;
  }
  unsigned const blocks = (count + kThreads - 1) / kThreads;
  one_each<<<blocks, kThreads, 0, stream>>>(
      count, SplitBody{items, copies, uppers.Current(), positions.Current()});
  if (cudaError_t const e = sort(rest, needed); e != cudaSuccess) return e;
  if (cudaError_t const e = cudaMemsetAsync(mixed.counts, 0, 2 * sizeof *mixed.counts, stream);
      e != cudaSuccess)
    return e;
  one_each<<<blocks, kThreads, 0, stream>>>(count, GatherBody{copies, positions.Current(), items});
  one_each<<<blocks, kThreads, 0, stream>>>(count, FindMixedBody{items, count, mixed});
  all_together<<<kBlocksTogether, kThreads, 0, stream>>>(OrderMixedBody{items, copies, mixed});
  all_together<<<kBlocksTogether, kThreads, 0, stream>>>(BringBackBody{copies, items, mixed});
  return cudaGetLastError();
}

cudaError_t radix_sort_words(void* room, std::size_t& bytes, std::uint64_t* words,
                             std::uint64_t* spare, std::size_t n, int begin, int end,
                             std::uint64_t*& sorted, cudaStream_t stream) {
  cub::DoubleBuffer<std::uint64_t> buffers(words, spare);
  cudaError_t const done =
      cub::DeviceRadixSort::SortKeys(room, bytes, buffers, n, begin, end, stream);
  sorted = buffers.Current();
  return done;
}

cudaError_t exclusive_sums(void* room, std::size_t& bytes, std::uint32_t const* in,
                           std::uint32_t* out, std::size_t n, cudaStream_t stream) {
  return cub::DeviceScan::ExclusiveSum(room, bytes, in, out, n, stream);
}

}  // namespace perdure::exec
