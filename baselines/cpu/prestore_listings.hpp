// Listings 2, 3 and 4 of X. Wu's thesis (chapter 3) over models of its machines: what benchmarks
// and tests see of them. Invariant: no clock is looked at, so the same call gives the same, to the
// byte.
//
//   Machine A   two Xeon Gold 6230 before Optane: one socket's 27.5 MB cache and four modules
//   Machine B   a ThunderX-1 before an FPGA: 60 cycles and 10 GB/s ("fast"), or 200 and 1.5
//   ("slow")
#pragma once

#include <cstddef>
#include <cstdint>

namespace perdure::cpu_baselines {

/// What follows a write, or is done in its stead.
enum class Prestored : std::uint8_t { plain, clean, demote, skip };
enum class Evicts : std::uint8_t { lru, rotating, random };  // pm::Replacement
enum class Sets : std::uint8_t { address, slices };          // pm::SetsBy

/// Listing 2: threads write elements of an array in random order, and read a word of each again.
struct ElementWrites {
  std::uint32_t element_bytes = 4096;  // whole lines
  std::uint32_t threads = 1;
  Prestored prestored = Prestored::plain;
  bool read_again = true;
  bool in_order = false;  // as a log is written: the next element, by whichever thread is free
  Evicts evicts = Evicts::rotating;
  Sets sets = Sets::slices;
  bool small_pages = false;  // 4 KB, whose table entries share the cache; else 2 MB
  std::uint64_t cache_bytes = 28835840;  // 27.5 MiB; by slices: or that over a power of two
  std::uint64_t array_bytes = std::uint64_t{1} << 30;
};
struct ElementsFound {
  double ns_an_element = 0;  // of all threads together
  double amplification = 0;  // bytes that media write a byte that leaves the cache
  std::uint64_t lines_stored = 0;
  std::uint64_t lines_out = 0;       // evicted, cleaned, skipped
  std::uint64_t internal_lines = 0;  // of 256 bytes, that media write
};
[[nodiscard]] ElementsFound emulated_elements(ElementWrites const& how);

/// Listing 3: a random line is written, perhaps demoted, and some lines of the L1 cache are read
/// before a fence.
struct FenceFound {
  double cycles = 0;                  // a round
  std::uint64_t lines_acquired = 0;   // of all rounds
  std::uint64_t lines_waited_for = 0;
  std::uint64_t rounds = 0;
};
[[nodiscard]] FenceFound emulated_fences(bool slow, Prestored prestored, std::uint32_t reads);

/// Listing 4: one line is written again and again on Machine A. Nanoseconds a write.
[[nodiscard]] double emulated_rewrites(Prestored prestored);

}  // namespace perdure::cpu_baselines
