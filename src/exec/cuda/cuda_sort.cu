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
