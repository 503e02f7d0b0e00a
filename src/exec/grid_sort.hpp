// Sorting words in a grid's machine memory: by CUB on a GPU, by Highway on the host's threads. What
// a batch is put in order with before it goes to durable memory. Invariant: the order is one of
// values, so every machine's is the same.
#pragma once

#if defined(__CUDACC__)
#include <cub/device/device_radix_sort.cuh>

#include "exec/cuda/grid_cuda.cuh"
#endif

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "exec/cpu/grid_cpu.hpp"
#include "exec/sort.hpp"

namespace perdure::exec {

namespace grid_detail {

/// Where the words lie in order: in `words` or in `spare`.
using SortedWords = Result<std::uint64_t*>;

/// One thread, for the simulated machine.
inline SortedWords sort(HostMemoryGrid&, std::uint64_t* words, std::uint64_t*,
                        HostBuffer<std::byte>&, std::size_t n, std::uint32_t) {
  std::sort(words, words + n);
  return words;
}
inline SortedWords sort(CpuGrid& grid, std::uint64_t* words, std::uint64_t* spare,
                        HostBuffer<std::byte>&, std::size_t n, std::uint32_t bits) {
  sort_words(grid.workers(), {words, n}, {spare, n}, bits);
  return words;
}

#if defined(__CUDACC__)
inline SortedWords sort(CudaGrid& grid, std::uint64_t* words, std::uint64_t* spare,
                        CudaBuffer<std::byte>& room, std::size_t n, std::uint32_t bits) {
  cub::DoubleBuffer<std::uint64_t> buffers(words, spare);
  auto const run = [&](void* at, std::size_t& bytes) {
    return cuda_status(cub::DeviceRadixSort::SortKeys(at, bytes, buffers, n, 0,
                                                      static_cast<int>(bits), grid.stream()),
                       "sorting a batch");
  };
  std::size_t bytes = 0;  // asked with no room, CUB says how much it needs
  if (Status s = run(nullptr, bytes); !s.ok()) return s;
  if (Status s = room.resize(bytes); !s.ok()) return s;
  if (Status s = run(room.data(), bytes); !s.ok()) return s;
  return buffers.Current();
}
#endif

}  // namespace grid_detail

/// Sorts ascending, in order with the grid's launches; keeps the room that it takes.
template <class Grid>
class WordSort {
 public:
  explicit WordSort(Grid& grid) : grid_(&grid) {}

  /// Words below 2^bits. They lie in order where the answer points to, until the next call.
  Result<std::uint64_t*> operator()(std::uint64_t* words, std::size_t n, std::uint32_t bits) {
    if (Status s = spare_.resize(n); !s.ok()) return s;
    return grid_detail::sort(*grid_, words, spare_.data(), room_, n, bits);
  }

 private:
  Grid* grid_;
  typename Grid::template Buffer<std::uint64_t> spare_;
  typename Grid::template Buffer<std::byte> room_;
};

}  // namespace perdure::exec
