// CRC-32C by lanes that have parts of messages each. Invariant: a lane's sum is the remainder of
// its bytes with zeros in place of the others', so sums of parts, each moved to its place, add up.
#pragma once

#include <cstddef>
#include <cstdint>

#include "exec/crc_tables.hpp"

namespace perdure::exec {

/// All that crc sums look up, a line a thread of a warp.
inline __device__ void prefetch_crc_moves() {
  static_assert(sizeof kCrcMoves == 32 * 128);
  auto const* const line = reinterpret_cast<std::byte const*>(&kCrcMoves) + threadIdx.x % 32 * 128;
  asm volatile("prefetch.global.L1 [%0];" ::"l"(__cvta_generic_to_global(line)));
}

/// A step of moving words on by so many others: what half a byte of each comes to. Threads of a
/// warp together. Loops over the eight steps are unrolled as far as what they look up comes in
/// time: a small batch runs this code but once, and waits for instructions, too.
class CrcStep {
 public:
  explicit __device__ CrcStep(std::uint32_t number) : step_(number) {}
  template <std::uint32_t kWords>
  __device__ std::uint32_t table() const {
    return __ldg(&kCrcMoves.sum[step_][crc_move_by(kWords) / 2][threadIdx.x % 32]);
  }
  template <std::uint32_t kWords>
  __device__ std::uint32_t of(std::uint32_t table, std::uint32_t word) const {
    std::uint32_t const bits = word >> 4 * step_ & 15, first = crc_move_by(kWords) % 2 * 16;
    return __shfl_sync(0xffffffffu, table, static_cast<int>(first + bits));
  }

 private:
  std::uint32_t step_;
};

/// Horner's rule, of messages of which a thread has 16 bytes of every 128: what a sum was moves on
/// by so many, and the bytes come to it.
template <std::uint32_t kUnrolled>
inline __device__ void add_to_crcs(std::uint32_t (&part)[kUnrolled], uint4 const (&data)[kUnrolled],
                                   bool any_before) {
  std::uint32_t before[kUnrolled];
#pragma unroll
  for (std::uint32_t k = 0; k < kUnrolled; ++k) {
    before[k] = part[k];
    part[k] = 0;
  }
#pragma unroll 2
  for (std::uint32_t i = 0; i < CrcMoves::kHalves; ++i) {
    CrcStep const step(i);
    std::uint32_t const first = step.table<4>(), last = step.table<2>();
#pragma unroll
    for (std::uint32_t k = 0; k < kUnrolled; ++k) {
      part[k] ^= step.of<4>(first, data[k].x) ^ step.of<3>(first, data[k].y) ^
                 step.of<2>(last, data[k].z) ^ step.of<1>(last, data[k].w);
    }
    if (!any_before) continue;
    std::uint32_t const far = step.table<32>();
#pragma unroll
    for (std::uint32_t k = 0; k < kUnrolled; ++k) part[k] ^= step.of<32>(far, before[k]);
  }
}

/// Of two neighbours in a tile, the sum of both, of which the lower one's is kWords words before.
template <std::uint32_t kWords, std::uint32_t kUnrolled>
inline __device__ void join_crcs(std::uint32_t (&mine)[kUnrolled],
                                 std::uint32_t const (&others)[kUnrolled], bool upper) {
  std::uint32_t before[kUnrolled];
#pragma unroll
  for (std::uint32_t k = 0; k < kUnrolled; ++k) {
    before[k] = upper ? others[k] : mine[k];
    if (!upper) mine[k] = others[k];
  }
#pragma unroll 4
  for (std::uint32_t i = 0; i < CrcMoves::kHalves; ++i) {
    CrcStep const step(i);
    std::uint32_t const table = step.table<kWords>();
#pragma unroll
    for (std::uint32_t k = 0; k < kUnrolled; ++k) mine[k] ^= step.of<kWords>(table, before[k]);
  }
}

/// The remainder of a message that goes on with so many words of zeros.
inline __device__ std::uint32_t crc_shifted(std::uint32_t crc, std::size_t words) {
  while (words > 0) {
    auto const now = static_cast<std::uint32_t>(words < 32 ? words : 32);
    crc = crc_multiply(crc, crc_power(now));
    words -= now;
  }
  return crc;
}

}  // namespace perdure::exec
