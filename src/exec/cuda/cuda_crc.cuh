// CRC-32C by lanes that have parts of messages each. Invariant: a lane's sum is the remainder of
// its bytes with zeros in place of the others', so sums of parts, each moved to its place, add up.
#pragma once

#include <cstddef>
#include <cstdint>

#include "exec/crc_tables.hpp"

namespace perdure::exec {

/// Horner's rule, of messages of which a thread has 16 bytes of every so many: what a sum was moves
/// on by so many, as `columns` say, and the bytes come to it. `begins`: these are a message's
/// first. All products are by constants, bit by bit, and none waits for another.
template <std::uint32_t kUnrolled>
inline __device__ void add_to_crcs(std::uint32_t (&part)[kUnrolled], uint4 const (&data)[kUnrolled],
                                   bool begins) {
  std::int32_t words[kUnrolled][kCrcProducts];
#pragma unroll
  for (std::uint32_t k = 0; k < kUnrolled; ++k) {
    words[k][0] = static_cast<std::int32_t>(begins ? ~data[k].x : data[k].x);
    words[k][1] = static_cast<std::int32_t>(data[k].y);
    words[k][2] = static_cast<std::int32_t>(data[k].z);
    words[k][3] = static_cast<std::int32_t>(data[k].w);
    words[k][4] = static_cast<std::int32_t>(part[k]);
    part[k] = 0;
  }
#pragma unroll 2
  for (std::uint32_t bit = 0; bit < 32; ++bit) {
#pragma unroll
    for (std::uint32_t w = 0; w < kCrcProducts; ++w) {
      std::uint32_t const column = kCrcColumns.of_bit[bit][w];
#pragma unroll
      for (std::uint32_t k = 0; k < kUnrolled; ++k) {
        part[k] ^= static_cast<std::uint32_t>(words[k][w] >> 31) & column;
        words[k][w] = static_cast<std::int32_t>(static_cast<std::uint32_t>(words[k][w]) << 1);
      }
    }
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
