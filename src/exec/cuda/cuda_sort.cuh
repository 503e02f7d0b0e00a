// CUB's sorts and sums, compiled once (cuda_sort.cu): each engine that instantiated them itself
// took half as long again to compile. As CUB's own calls, each says with no `room` how many bytes
// of it it needs.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

#include "exec/counts.hpp"

namespace perdure::exec {

/// By hash, stably, in place: of few, this takes a launch or five where sorting by digits takes a
/// dozen.
cudaError_t merge_sort_by_hash(void* room, std::size_t& bytes, Sorted* items, std::size_t n,
                               cudaStream_t stream);

/// The pairs [0] by hash, stably, into the pairs [1].
struct HashedIndices {
  std::uint64_t* hashes[2];
  std::uint32_t* indices[2];
};
cudaError_t radix_sort_by_hash(void* room, std::size_t& bytes, HashedIndices const& pairs,
                               std::size_t n, cudaStream_t stream);
// From the items of a batch to pairs, and back.
struct UnzipBody {
  Sorted* order;
  std::uint64_t* hashes;
  std::uint32_t* indices;
  __device__ void operator()(std::size_t i) const {
    hashes[i] = order[i].hash;
    indices[i] = static_cast<std::uint32_t>(order[i].index);
  }
};
struct ZipBody {
  Sorted* order;
  std::uint64_t const* hashes;
  std::uint32_t const* indices;
  __device__ void operator()(std::size_t i) const { order[i] = {indices[i], hashes[i]}; }
};

/// By hash, stably, in place, by half the digits: for hashes that are spread evenly, and no more
/// than 2^21, few of which have the upper half of another. Takes time quadratic in how many share
/// one.
cudaError_t radix_sort_by_upper_half(void* room, std::size_t& bytes, Sorted* items, std::size_t n,
                                     cudaStream_t stream);

/// Ascending by the bits from `begin` up to `end`; `sorted` is then words or spare.
cudaError_t radix_sort_words(void* room, std::size_t& bytes, std::uint64_t* words,
                             std::uint64_t* spare, std::size_t n, int begin, int end,
                             std::uint64_t*& sorted, cudaStream_t stream);

/// out[i] = in[0] + ... + in[i-1].
cudaError_t exclusive_sums(void* room, std::size_t& bytes, std::uint32_t const* in,
                           std::uint32_t* out, std::size_t n, cudaStream_t stream);

}  // namespace perdure::exec
