// What a batch of ranges asks of a list of runs, and what it is answered.
//
// Invariant: keys of a range ascend, each comes once, with its newest version that the reader sees,
// and none is left out up to the last.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "lsm/engine/engine.hpp"
#include "lsm/entry.hpp"
#include "perdure/batch.h"

namespace perdure::lsm {

struct RangeQuery {
  Column begins = {};  // of the ranges; host memory
  Column ends = {};  // above each range's last key; count 0: ranges have no end
  RequestId limit = kNewest;  // of versions that the reader sees
  std::uint64_t most = ~std::uint64_t{0};  // pairs of a range: its first ones
  bool with_erased = false;  // erased keys are told of, too; they count as no pairs
};

/// A key, and what its newest version says.
struct RangePair {
  std::uint64_t word = 0;  // the value's bytes where they are `inside`, else its address
  std::uint32_t size = 0;  // of the value
  Found found = Found::absent;
  bool inside = false;  // the run had the bytes: nobody needs to go where they are

  /// In this, or where the memtable has it.
  [[nodiscard]] std::byte const* value() const {
    return reinterpret_cast<std::byte const*>(inside ? reinterpret_cast<std::uintptr_t>(&word)
                                                     : static_cast<std::uintptr_t>(word));
  }
};
static_assert(sizeof(RangePair) == 16);

/// What there is of a range.
struct RangeCount {
  std::uint64_t key_bytes = 0;
  std::uint64_t value_bytes = 0;
  std::uint32_t keys = 0;  // erased ones, too
  std::uint32_t erased = 0;
  std::uint32_t merges = 0;  // keys whose newest version is an operand
  std::uint32_t is_cut = 0;  // not 0: there was no room for all of it
};

/// Of all ranges, one behind the other. The engine outlives it.
struct RangePairs {
  std::span<RangeCount const> ranges;
  std::span<std::uint64_t const> firsts;  // each range's first pair; at the end, how many there are
  std::span<RangePair const> pairs;
  std::byte const* keys = nullptr;
  std::uint32_t key_width = 0;  // of all, where there are no offsets
  std::uint64_t const* key_offsets = nullptr;  // where each key begins, and the last one ends
  std::shared_ptr<void const> memory;  // where all that lies

  [[nodiscard]] std::uint64_t key_begin(std::uint64_t pair) const {
    return key_offsets != nullptr ? key_offsets[pair] : pair * key_width;
  }
  [[nodiscard]] std::span<std::byte const> key(std::uint64_t pair) const {
    return {keys + key_begin(pair), key_begin(pair + 1) - key_begin(pair)};
  }
};

}  // namespace perdure::lsm
