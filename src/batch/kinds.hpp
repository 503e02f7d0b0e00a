// How many operations of a mixed batch are of each kind. Eight are counted at a time, in a byte
// each: one by one, a batch of a million costs the host a millisecond.
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
  constexpr std::size_t kBlock = 128;  // eights, so that no byte that counts runs over
  auto const sum = [](std::uint64_t bytes) {
    constexpr std::uint64_t kEven = 0x00ff00ff00ff00ffu;
    return ((bytes & kEven) + (bytes >> 8 & kEven)) * 0x0001000100010001u >> 48;
  };
  KindCounts counts;
  std::uint64_t others = 0;
  auto const count = [&](std::uint64_t const(&eights)[kBlock]) {
    std::uint64_t puts = 0, erases = 0, updates = 0, more = 0;
    for (std::uint64_t const eight : eights) {
      std::uint64_t const low = eight & kOnes, high = eight >> 1 & kOnes;
      puts += low & ~high;
      erases += high & ~low;
      updates += low & high;
      more |= eight & ~(3 * kOnes);
    }
    others |= more;
    counts.puts += sum(puts);
    counts.erases += sum(erases);
    counts.updates += sum(updates);
  };
  for (std::size_t i = 0; i < kinds.size(); i += sizeof(std::uint64_t) * kBlock) {
    std::uint64_t eights[kBlock];
    std::size_t const left = kinds.size() - i;
    if (left < sizeof eights) std::memset(eights, 0, sizeof eights);
    std::memcpy(eights, kinds.data() + i, std::min(left, sizeof eights));
    count(eights);
  }
  counts.unknown = others != 0;
  counts.gets = kinds.size() - counts.puts - counts.erases - counts.updates;
  return counts;
}

}  // namespace perdure
