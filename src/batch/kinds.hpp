// How many operations of a mixed batch are of each kind. Invariant: eight kinds are counted at a
// time, so that a batch of a million costs a tenth of a millisecond, and not one.
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
  std::uint64_t others = 0;  // that name no operation

  [[nodiscard]] std::uint64_t write_values() const { return puts + updates; }
};

namespace kinds_detail {

/// Of eight bytes.
inline std::uint64_t sum_of_bytes(std::uint64_t bytes) {
  constexpr std::uint64_t kEven = 0x00ff00ff00ff00ffu;
  return ((bytes & kEven) + (bytes >> 8 & kEven)) * 0x0001000100010001u >> 48;
}

inline KindCounts one_by_one(std::span<OpKind const> kinds) {
  KindCounts counts;
  for (OpKind const kind : kinds) {
    counts.gets += kind == OpKind::get;
    counts.puts += kind == OpKind::put;
    counts.erases += kind == OpKind::erase;
    counts.updates += kind == OpKind::update;
    counts.others += kind > OpKind::update;
  }
  return counts;
}

}  // namespace kinds_detail

inline KindCounts count_kinds(std::span<OpKind const> kinds) {
  static_assert(sizeof(OpKind) == 1 && OpKind::get == OpKind{0} && OpKind::put == OpKind{1} &&
                OpKind::erase == OpKind{2} && OpKind::update == OpKind{3});
  constexpr std::uint64_t kOnes = 0x0101010101010101u;
  constexpr std::size_t kBlock = 8 * 255;  // sums of bytes that fit into a byte each
  KindCounts counts;
  for (std::size_t first = 0; first < kinds.size(); first += kBlock) {
    auto const block = kinds.subspan(first, std::min(kBlock, kinds.size() - first));
    std::uint64_t lows = 0, highs = 0, boths = 0, more = 0;
    std::size_t i = 0;
    for (; i + 8 <= block.size(); i += 8) {
      std::uint64_t eight = 0;
      std::memcpy(&eight, block.data() + i, sizeof eight);
      std::uint64_t const low = eight & kOnes, high = eight >> 1 & kOnes;
      lows += low;
      highs += high;
      boths += low & high;
      more |= eight & ~(3 * kOnes);
    }
    bool const none = more != 0;  // some kind is no kind
    KindCounts const rest = kinds_detail::one_by_one(none ? block : block.subspan(i));
    std::uint64_t const updates = none ? 0 : kinds_detail::sum_of_bytes(boths);
    std::uint64_t const puts = none ? 0 : kinds_detail::sum_of_bytes(lows) - updates;
    std::uint64_t const erases = none ? 0 : kinds_detail::sum_of_bytes(highs) - updates;
    counts.updates += updates + rest.updates;
    counts.puts += puts + rest.puts;
    counts.erases += erases + rest.erases;
    counts.others += rest.others;
  }
  counts.gets = kinds.size() - counts.puts - counts.erases - counts.updates - counts.others;
  return counts;
}

}  // namespace perdure
