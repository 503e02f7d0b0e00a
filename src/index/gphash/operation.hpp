// What an operation of GPHash on one key is made of, whatever the layout: the key, what a search
// found, what phase one of a batch settled for it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/annotate.hpp"
#include "base/assert.hpp"
#include "base/offset.hpp"
#include "batch/key.hpp"
#include "index/gphash/candidates.hpp"
#include "pm/record.hpp"

namespace perdure::gphash {

using perdure::Change;
using perdure::KeyRef;

struct Found {
  bool hit = false;
  bool read = false;      // `record` was read from PM; else only its places and sizes are known
  bool cached = false;    // the bucket cache said where it is
  std::uint32_t lane = 0;
  Offset at;              // record read last, the hit if there is one; 0 = none
  pm::RecordView record;  // valid when `at` is not 0
};

/// What phase one settled for one key.
struct Plan {
  Offset target;            // slot word (in_place: state, for insert none)
  std::uint64_t value = 0;  // the word to store (in_place: the record's address)
  std::uint64_t claim[2] = {kNoClaim, kNoClaim};  // slots to release afterwards
  Change change = Change::none;
  std::uint32_t lane = 0;
  std::uint32_t value_sum = 0;  // of the new value, for the mirror: IdentityTail
  std::uint32_t known = 0;      // what the mirror may say of the new record
  std::uint32_t writer = kNoWriter;  // the operation whose value it has, if one's

  static constexpr std::uint64_t kNoClaim = ~std::uint64_t{0};
  static constexpr std::uint32_t kNoWriter = ~std::uint32_t{0};
};

enum class Verdict : std::uint8_t { done, conflict, full };

/// A key with this hash found no room: its unit, if it has not moved, wants to. Many keys of a
/// batch may say so of one unit.
template <class W>
PERDURE_FN void note_refusal_by_lane(TableView const& t, std::uint64_t hash) {
  std::uint64_t const unit = t.unit_of(hash);
  PERDURE_ASSERT(!kCostlyAssertions || (t.refused != nullptr && unit >> t.unit_bits == 0));
  std::uint32_t const bit = 1u << (unit % 32);
  if ((W::load(t.refused + unit / 32) & bit) == 0) W::fetch_or(t.refused + unit / 32, bit);
}
template <class W>
PERDURE_FN void note_refusal(W& warp, TableView const& t, std::uint64_t hash) {
  warp.elect([&] {
    note_refusal_by_lane<W>(t, hash);
    return std::uint64_t{0};
  });
}

}  // namespace perdure::gphash
