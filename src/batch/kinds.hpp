// How many operations of a mixed batch are of each kind. Eight are counted at a time: one by one, a
// batch of a million costs the host a millisecond.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "perdure/batch.h"

namespace perdure {

struct KindCounts {
  std::uint64_t gets = 0, puts = 0, erases = 0, updates = 0;
  bool unknown = false;  // some kind names no operation; then the numbers say nothing

  [[nodiscard]] std::uint64_t write_values() const { return puts + updates; }
};

inline KindCounts count_kinds(std::span<OpKind const> kinds) {
  static_assert(sizeof(OpKind) == 1 && OpKind::get == OpKind{0} && OpKind::put == OpKind{1} &&
                OpKind::erase == OpKind{2} && OpKind::update == OpKind{3});
  constexpr std::uint64_t kOnes = 0x0101010101010101u;
  auto const sum = [](std::uint64_t bytes) { return bytes * kOnes >> 56; };  // each 0 or 1
  KindCounts counts;
  for (std::size_t i = 0; i < kinds.size(); i += 8) {
    std::uint64_t eight = 0;
    std::memcpy(&eight, kinds.data() + i, std::min<std::size_t>(8, kinds.size() - i));
    std::uint64_t const low = eight & kOnes, high = eight >> 1 & kOnes;
    counts.puts += sum(low & ~high);
    counts.erases += sum(high & ~low);
    counts.updates += sum(low & high);
    counts.unknown |= (eight & ~(3 * kOnes)) != 0;
  }
  counts.gets = kinds.size() - counts.puts - counts.erases - counts.updates;
  return counts;
}

}  // namespace perdure
