// A model of caches: sets of 11 lines, by their numbers, without the bytes. It says what a line
// pushes out, and knows what was stored to. Invariants: a line is in one way of its set at most;
// the same calls in the same order push out the same lines.
//
// Replacement (the order in which real caches evict seems random: thesis of X. Wu, section 3.4.1):
//   lru       the line of a set that was used least lately
//   rotating  a line that was not used lately, from where one pointer points that all sets share
//             and that moves on with each victim. So hardware saves the bookkeeping of LRU
//             (OpenSPARC T2's level 2 cache has it): a thread by itself, whose lines fill set
//             after set, finds the pointer in step; those of several threads do not
//   random    any line
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "pm/cache_slices.hpp"
#include "pm/flush.hpp"

namespace perdure::pm {

enum class Replacement : std::uint8_t { lru, rotating, random };
/// Which set a line belongs to: by a hash, so that any lines spread; neighbours in neighbouring
/// sets; or as a Xeon Gold 6230 has it, which hashes lines to 20 slices and takes address bits for
/// the set within a slice (cache_slices.hpp). Its sets are 20 times a power of two.
enum class SetsBy : std::uint8_t { hash, address, slices };

struct CacheShape {
  std::uint64_t bytes;
  Replacement replacement = Replacement::lru;
  SetsBy sets_by = SetsBy::hash;
};

class CacheModel {
 public:
  static constexpr std::size_t kWays = 11;
  static constexpr std::uint64_t kNone = ~std::uint64_t{0};

  explicit CacheModel(CacheShape const& shape);

  struct Touched {
    bool hit = false;
    std::uint64_t written_back = kNone;  // the line that made room, where it had been stored to
  };
  Touched touch(std::uint64_t line, bool store);
  /// Whether it was there and had been stored to; it has not any more.
  bool clean(std::uint64_t line);
  /// It is not there any more, whatever had been stored to it.
  void drop(std::uint64_t line);

 private:
  /// 0 = none; else 2 * line + 2, + 1 where stored to. Of lru, the latest first.
  using Set = std::array<std::uint32_t, kWays>;

  [[nodiscard]] std::uint64_t index_of(std::uint64_t line) const {
    if (shape_.sets_by == SetsBy::address) return line % count_;
    if (shape_.sets_by == SetsBy::slices)
      return slice_of(line) * (count_ / kSlices) + line % (count_ / kSlices);
    return (line * 0x9e3779b97f4a7c15u >> 32) * count_ >> 32;
  }
  [[nodiscard]] static std::size_t way_of(Set const& set, std::uint64_t line);
  [[nodiscard]] std::size_t victim(Set const& set, std::uint64_t index);
  void used(std::uint64_t index, std::size_t way);

  CacheShape const shape_;
  std::uint64_t const count_;  // sets
  std::unique_ptr<Set[]> sets_;
  std::vector<std::uint16_t> lately_;  // rotating: a bit a way, by set
  std::uint64_t victims_ = 0;          // so far
};

}  // namespace perdure::pm
