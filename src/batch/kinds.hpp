// How many operations of a mixed batch are of each kind. Invariant: eight kinds are counted at a
// time, so that a batch of a million costs a tenth of a millisecond, and not one.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "perdure/batch.h"

namespace perdure {

struct KindCounts {
  std::uint64_t gets = 0, puts = 0, erases = 0, updates = 0;
  std::uint64_t others = 0;  // that name no operation

  [[nodiscard]] std::uint64_t write_values() const { return puts + updates; }
};

inline KindCounts count_kinds(std::span<OpKind const> kinds) {
  static_assert(sizeof(OpKind) == 1 && OpKind::get == OpKind{0} && OpKind::put == OpKind{1} &&
                OpKind::erase == OpKind{2} && OpKind::update == OpKind{3});
  constexpr std::uint64_t kOnes = 0x0101010101010101u;
  auto const number = [](std::uint64_t bytes) {  // each 0 or 1
    return static_cast<std::uint64_t>(std::popcount(bytes));
  };
  KindCounts counts;
  for (std::size_t i = 0; i < kinds.size(); i += 8) {
    std::size_t const n = std::min<std::size_t>(8, kinds.size() - i);
    std::uint64_t eight = 0;
    std::memcpy(&eight, kinds.data() + i, n);
    std::uint64_t other = 0;
    for (unsigned bit = 2; bit < 8; ++bit) other |= eight >> bit;
    other &= kOnes;
    std::uint64_t const low = eight & kOnes & ~other, high = eight >> 1 & kOnes & ~other;
    counts.updates += number(low & high);
    counts.puts += number(low & ~high);
    counts.erases += number(high & ~low);
    counts.others += number(other);
  }
  counts.gets = kinds.size() - counts.puts - counts.erases - counts.updates - counts.others;
  return counts;
}

}  // namespace perdure
