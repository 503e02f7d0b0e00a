// What the record heap knows of one superblock: how its records lie, and which of them are in use.
// Volatile; where superblocks have a map (record_shape.hpp) that becomes what the bitmap says when
// a transaction commits. Invariants: a line of the bitmap that differs from the map's is noted;
// while there is a bitmap, and nobody has it on lease, `used` counts its set bits; those past the
// end are set, and not counted.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/assert.hpp"
#include "base/hooks.hpp"
#include "pm/host_verbs.hpp"
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
  bool changed = false;  // stands in the heap's list of those that differ from their maps
  std::vector<std::uint64_t> bitmap;  // bit set = in use
  std::vector<std::uint64_t> changed_lines;  // of the bitmap, a bit each; none without a map

  /// All records free.
  void make_bitmap(RecordShape const& shape) {
    PERDURE_ASSERT(capacity > 0 && capacity == shape.capacity(stride));
    bitmap.assign(words(shape), 0);
    if (shape.maps) changed_lines.assign((bitmap.size() / kLineWords + 63) / 64, 0);
    mark_past_end();
  }
  /// As the map at `map` says.
  void load_bitmap(RecordShape const& shape, std::byte const* map) {
    make_bitmap(shape);
    read_bytes(bitmap.data(), map, bitmap.size() * sizeof bitmap[0]);
    mark_past_end();
  }
  [[nodiscard]] std::size_t words(RecordShape const& shape) const {
    return shape.maps ? RecordShape::map_bytes(capacity) / sizeof bitmap[0] : (capacity + 63) / 64;
  }
  /// This word of the bitmap differs from the map's, if there is one.
  void note_changed(std::uint64_t word) {
    if (changed_lines.empty()) return;
    std::uint64_t const line = word / kLineWords;
    changed_lines[line / 64] |= std::uint64_t{1} << (line % 64);
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
      if (free != ~word) note_changed(hint);
      if (!mutated("record_handed_out_twice")) word = ~free;
      if (free != 0) break;
    }
    PERDURE_ASSERT(taken <= n);
    used += taken;
    PERDURE_ASSERT(used <= capacity);
    return taken;
  }

  static constexpr std::size_t kLineWords = 8;

 private:
  void mark_past_end() {  // never free
    std::uint64_t word = capacity / 64;
    if (capacity % 64 != 0) bitmap[word++] |= ~std::uint64_t{0} << (capacity % 64);
    for (; word < bitmap.size(); ++word) bitmap[word] = ~std::uint64_t{0};
  }
};

}  // namespace perdure::pm
