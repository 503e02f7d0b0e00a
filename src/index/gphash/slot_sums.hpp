// What a slot adds to the sum of all slots of a table (Slots::sum_of()), and the way back from
// there to the word. Invariant: mixing is one to one, so a word that changes always changes the
// sum.
#pragma once

#include <cstdint>

#include "base/annotate.hpp"
#include "base/offset.hpp"

namespace perdure::gphash::slot_sums {

inline constexpr std::uint64_t kStep = 0x9e3779b97f4a7c15u, kMix1 = 0xbf58476d1ce4e5b9u,
                               kMix2 = 0x94d049bb133111ebu;
inline constexpr std::uint64_t kBack1 = 0x96de1b173f119089u, kBack2 = 0x319642b2d24d8ec3u;
static_assert(kMix1 * kBack1 == 1 && kMix2 * kBack2 == 1);
[[nodiscard]] PERDURE_FN constexpr std::uint64_t mixed(std::uint64_t word, Offset at) {
  std::uint64_t x = word + at.bytes * kStep;
  x = (x ^ x >> 30) * kMix1;
  x = (x ^ x >> 27) * kMix2;
  return x ^ x >> 31;
}
[[nodiscard]] constexpr std::uint64_t unmixed(std::uint64_t mix, Offset at) {
  std::uint64_t x = (mix ^ mix >> 31 ^ mix >> 62) * kBack2;
  x = (x ^ x >> 27 ^ x >> 54) * kBack1;
  return (x ^ x >> 30 ^ x >> 60) - at.bytes * kStep;
}
static_assert(unmixed(mixed(0x123456789abcdef0u, Offset{4096}), Offset{4096}) ==
              0x123456789abcdef0u);

}  // namespace perdure::gphash::slot_sums
