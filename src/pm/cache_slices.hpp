// Which slice of the last level a line belongs to, on a Xeon of the Cascade Lake or Skylake
// generation with 20 slices (Xeon Gold 6230). Measured by J. McCalpin (Mapping Addresses to L3/CHA
// Slices in Intel Processors, TACC TR-2021-03, doi:10.26153/tsw/14539; the tables of Skylake with
// 20 slices are in github.com/jdmccalpin/Intel_Address_Hash, Results). His sequence of 256 slices
// is written here as what it is made of: the 16 first slices by exclusive ors alone, and, where
// those would have a line too many, the four last.
//
// Invariant: a line's slice depends on its address alone. The masks are valid below 256 GiB.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace perdure::pm {

constexpr std::uint64_t kSlices = 20;
constexpr std::uint64_t kLinesOfSequence = 256;

constexpr std::uint32_t parity(std::uint64_t bits) {
  return static_cast<std::uint32_t>(std::popcount(bits)) & 1;
}

/// Which bits of a line's number, counted from the sequence's end on, permute the sequence: bit i
/// of the permutation is the parity of those that masks[i] has.
constexpr std::uint32_t permutation(std::uint64_t line) {
  constexpr std::array<std::uint64_t, 8> kMasks{0xfb2eb5, 0xd73df,  0xe1c90b, 0x38bca3,
                                                0x717946, 0xe2f28c, 0x3ecbad, 0x7d975a};
  std::uint32_t permuted = 0;
  for (std::uint32_t i = 0; i < kMasks.size(); ++i)
    permuted |= parity(line / kLinesOfSequence & kMasks[i]) << i;
  return permuted;
}

constexpr std::uint32_t slice_of(std::uint64_t line) {
  constexpr std::array<std::uint32_t, 8> kOfBit{11, 2, 7, 1, 1, 8, 10, 4};
  constexpr std::array<std::uint64_t, 4> kLast{0xcc00cc00cc000000, 0x3300330033000000,
                                               0x3300330033000000, 0xcc00cc00cc000000};
  std::uint32_t const at = static_cast<std::uint32_t>(line % kLinesOfSequence) ^ permutation(line);
  if ((kLast[at / 64] >> at % 64 & 1) != 0) return 16 + parity(at & 0x1d) + 2 * parity(at & 0x47);
  std::uint32_t slice = 0;
  for (std::uint32_t i = 0; i < kOfBit.size(); ++i)
    if ((at >> i & 1) != 0) slice ^= kOfBit[i];
  return slice;
}

}  // namespace perdure::pm
