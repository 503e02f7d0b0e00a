// What the record heap knows of one superblock: how its records lie, and which of them are in use.
// Volatile. Invariant: while there is a bitmap, and nobody has it on lease, `used` counts its set
// bits; those past the end are set, and not counted.
#pragma once

#include <bit>
#include <cstdint>
#include <vector>

#include "base/assert.hpp"
#include "base/hooks.hpp"
#include "pm/record_shape.hpp"

namespace perdure::pm {

struct SuperblockMap {
  std::uint64_t stride = 0;  // 0 = not of the heap
  std::uint64_t capacity = 0;
  std::uint64_t used = 0;
  std::uint64_t hint = 0;  // no free record in bitmap words below it
  bool listed = false;  // stands in its class's list
  std::uint8_t led_into = 0;  // slots lead into it, though it is no superblock of the heap
  bool kept = false;  // for that reason, from everybody
  bool unswept = false;  // claimed: looks full, and has no bitmap before the sweep
  std::vector<std::uint64_t> bitmap;  // bit set = in use

  /// All records free.
  void make_bitmap(RecordShape const& shape) {
    PERDURE_ASSERT(capacity > 0 && capacity == shape.capacity(stride));
    bitmap.assign((capacity + 63) / 64, 0);
    if (capacity % 64 != 0)
      bitmap.back() = ~std::uint64_t{0} << (capacity % 64);  // past the end: never free
  }
  /// After others have set and cleared bits.
  void count_used() {
    std::uint64_t set = 0;
    for (std::uint64_t const word : bitmap) set += static_cast<std::uint64_t>(std::popcount(word));
    std::uint64_t const beyond = bitmap.size() * 64 - capacity;
    PERDURE_ASSERT(set >= beyond);  // places past the end are marked from the start
    used = set - beyond;
    PERDURE_ASSERT(used <= capacity);
  }
  /// Up to `n` free records, in the order of their places, of the superblock at `base`: how many.
  std::uint64_t take(RecordShape const& shape, std::uint64_t base, std::uint64_t n,
                     std::uint64_t* out) {
    std::uint64_t taken = 0;
    for (; taken < n && hint < bitmap.size(); ++hint) {
      std::uint64_t& word = bitmap[hint];
      std::uint64_t free = ~word;
      for (; free != 0 && taken < n; free &= free - 1) {
        out[taken++] =
            base +
            shape.address(stride, hint * 64 + static_cast<std::uint64_t>(std::countr_zero(free)));
      }
      if (!mutated("record_handed_out_twice")) word = ~free;
      if (free != 0) break;
    }
    PERDURE_ASSERT(taken <= n);
    used += taken;
    PERDURE_ASSERT(used <= capacity);
    return taken;
  }
};

}  // namespace perdure::pm
