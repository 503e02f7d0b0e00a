// Where a key may be: its candidate buckets on the live levels, a lane a slot, and what a search
// does with all of them at once, whatever the layout.
//
// Invariant: lanes order candidates by (level from the top, hash, slot), so the lowest lane that
// matches is the valid one of duplicates (GPHash section 3.2.2).
#pragma once

#include <cstdint>
#include <type_traits>

#include "base/annotate.hpp"
#include "base/assert.hpp"
#include "base/hash.hpp"
#include "base/hooks.hpp"
#include "exec/bits.hpp"
#include "index/gphash/layout.hpp"

namespace perdure::gphash {

/// The default shape, known to the compiler, so that its loops unroll into a few vectors.
struct Shape228 {
  static constexpr std::uint32_t kMaxHashes = 2;
  static constexpr std::uint32_t kMostGroups = 4;
  PERDURE_FN static constexpr std::uint32_t levels(TableView const&) { return 2; }
  PERDURE_FN static constexpr std::uint32_t hashes(TableView const&) { return 2; }
  PERDURE_FN static constexpr std::uint32_t slots(TableView const&) { return 8; }
};

struct ShapeAny {
  static constexpr std::uint32_t kMaxHashes = 32;
  static constexpr std::uint32_t kMostGroups = 32;
  PERDURE_FN static std::uint32_t levels(TableView const& t) { return t.levels; }
  PERDURE_FN static std::uint32_t hashes(TableView const& t) { return t.hashes; }
  PERDURE_FN static std::uint32_t slots(TableView const& t) { return t.slots; }
};

/// Fills vary by the square root of the slots in a window: 0.2 % for 2^15 buckets of 8.
inline constexpr std::uint32_t kWindowBits = 15;

#if defined(PERDURE_EXPLORE)
// so that small tables have several units
inline thread_local std::uint32_t explored_window_bits = kWindowBits;
inline std::uint32_t window_bits() { return explored_window_bits; }
#else
PERDURE_FN constexpr std::uint32_t window_bits() { return kWindowBits; }
#endif

/// A key's candidate buckets. Group g of lanes is the key's level g / H, hash g % H.
template <class Shape>
struct Candidates {
  std::uint64_t hash[Shape::kMaxHashes];
  std::uint32_t first_level;  // 1 of a key whose unit has not moved yet

  Candidates() = default;
  PERDURE_FN Candidates(TableView const& t, std::uint64_t key_hash) { set(t, key_hash); }
  PERDURE_FN void set(TableView const& t, std::uint64_t key_hash) {
    set_moved(t, key_hash);
    first_level = t.retiring != 0 && !t.unit_moved(t.unit_of(key_hash)) ? 1 : 0;
    if (mutated("unmoved_key_in_new_levels")) first_level = 0;
  }
  /// As if the key's unit had moved: where a growth brings it.
  PERDURE_FN void set_moved(TableView const& t, std::uint64_t key_hash) {
    for (std::uint32_t n = 0; n < Shape::hashes(t); ++n) hash[n] = nth_hash(key_hash, n);
    first_level = 0;
  }

  PERDURE_FN static std::uint32_t groups(TableView const& t) {
    return Shape::levels(t) * Shape::hashes(t);
  }

  /// Top bits of the first hash address its bucket, so hash order is address order on every level.
  PERDURE_FN std::uint64_t bucket(TableView const& t, std::uint32_t group) const {
    PERDURE_ASSERT(!kCostlyAssertions || group < groups(t));
    std::uint32_t const bits = level(t, group).log2_buckets;
    std::uint32_t const n = group % Shape::hashes(t);
    if (bits == 0) return 0;
    if (n == 0 || bits <= window_bits()) return hash[n] >> (64 - bits);
    std::uint64_t const window = hash[0] >> (64 - (bits - window_bits()));
    return window << window_bits() | hash[n] >> (64 - window_bits());
  }

  /// Number of the group's first slot within its level.
  PERDURE_FN std::uint64_t slot_in_level(TableView const& t, std::uint32_t group) const {
    return bucket(t, group) * Shape::slots(t);
  }

  /// Chosen among two, not looked up: of a view that travels as a kernel's argument, known places
  /// stay in registers.
  PERDURE_FN Level level(TableView const& t, std::uint32_t group) const {
    std::uint32_t const l = group / Shape::hashes(t);
    PERDURE_ASSERT(!kCostlyAssertions || first_level + l < t.all_levels());
    return first_level == 0 ? t.level[l] : t.level[l + 1];
  }

  /// Where the 8-byte words of the group's row begin: slot words, or states in `in_place`.
  PERDURE_FN Offset row(TableView const& t, std::uint32_t group) const {
    return level(t, group).base + slot_in_level(t, group) * 8;
  }

  PERDURE_FN Offset slot(TableView const& t, std::uint32_t lane) const {
    return row(t, lane / Shape::slots(t)) + (lane % Shape::slots(t)) * 8;
  }

  /// Number of the lane's slot among all slots.
  PERDURE_FN std::uint64_t slot_number(TableView const& t, std::uint32_t lane) const {
    std::uint32_t const group = lane / Shape::slots(t);
    return level(t, group).first_slot + slot_in_level(t, group) + lane % Shape::slots(t);
  }

  /// Number of the group's first slot among all slots.
  PERDURE_FN std::uint64_t first_slot(TableView const& t, std::uint32_t group) const {
    return slot_number(t, group * Shape::slots(t));
  }

  /// Lanes that are no repetition of an earlier group (two hashes may meet in one bucket).
  PERDURE_FN std::uint32_t distinct_lanes(TableView const& t) const {
    return distinct_lanes_of(t, [&](std::uint32_t g) { return bucket(t, g); });
  }

  /// The first words of all candidates on PM, by lane.
  template <class W, class M>
  PERDURE_FN auto rows(W& warp, M& mem, TableView const& t) const {
    return mem.rows(warp, groups(t), Shape::slots(t), [&](std::uint32_t g) { return row(t, g); });
  }
  /// Those in words[slot number], which are volatile.
  template <class W>
  PERDURE_FN auto volatile_rows(W& warp, std::uint64_t* words, TableView const& t) const {
    return warp.rows(groups(t), Shape::slots(t),
                     [&](std::uint32_t g) { return words + first_slot(t, g); });
  }
  template <class W, class M>
  PERDURE_FN void prefetch(W& warp, M& mem, TableView const& t) const {
    for (std::uint32_t g = 0; g < groups(t); ++g) mem.prefetch(warp, row(t, g), row_bytes(t));
  }
  template <class W>
  PERDURE_FN void prefetch_volatile(W& warp, std::uint64_t const* words, TableView const& t) const {
    for (std::uint32_t g = 0; g < groups(t); ++g)
      warp.prefetch(words + first_slot(t, g), row_bytes(t));
  }

  /// Of a row in a bitmap of one bit a slot, by one lane.
  template <class W>
  PERDURE_FN std::uint32_t row_bits(TableView const& t, std::uint32_t const* bitmap,
                                    std::uint32_t group) const {
    return row_bits_from<W>(t, bitmap, first_slot(t, group));
  }

  /// Lanes of empty slots, which are 0 in both layouts.
  template <class W, class Lanes>
  PERDURE_FN std::uint32_t empties(W& warp, TableView const& t, Lanes const& lanes) const {
    return warp.match(lanes, ~std::uint64_t{0}, 0) & distinct_lanes(t);
  }

  /// The first empty lane of the emptiest bucket; ties go to the highest level, lowest bucket.
  PERDURE_FN static std::uint32_t less_loaded(TableView const& t, std::uint32_t empties) {
    PERDURE_ASSERT(!kCostlyAssertions || empties != 0);
    std::uint32_t const slots = Shape::slots(t);
    std::uint32_t best = 0;
    std::uint32_t best_free = 0;
    for (std::uint32_t g = 0; g < groups(t); ++g) {
      std::uint32_t const free = exec::popcount(empties >> (g * slots) & row_mask(t));
      if (free > best_free) {
        best_free = free;
        best = g;
      }
    }
    return exec::lowest_bit(empties & (row_mask(t) << (best * slots)));
  }

 protected:
  /// place_of(group) differs where buckets do.
  template <class PlaceOf>
  PERDURE_FN static std::uint32_t distinct_lanes_of(TableView const& t, PlaceOf place_of) {
    std::uint32_t const slots = Shape::slots(t);
    std::uint32_t lanes = 0;
    for (std::uint32_t g = 0; g < groups(t); ++g) {
      bool repeats = false;
      for (std::uint32_t n = 1; n <= g % Shape::hashes(t); ++n)
        repeats |= place_of(g) == place_of(g - n);
      if (!repeats) lanes |= row_mask(t) << (g * slots);
    }
    return lanes;
  }
  template <class W>
  PERDURE_FN static std::uint32_t row_bits_from(TableView const& t, std::uint32_t const* bitmap,
                                                std::uint64_t first) {
    return W::load(bitmap + first / 32) >> (first % 32) & row_mask(t);
  }

 private:
  PERDURE_FN static std::uint32_t row_mask(TableView const& t) {
    return Shape::slots(t) == 32 ? ~0u : (1u << Shape::slots(t)) - 1;
  }
  PERDURE_FN static std::uint32_t row_bytes(TableView const& t) { return Shape::slots(t) * 8; }
};

/// The same with its rows' first slots worked out once. A CPU asks for them many times a key, and
/// has cache for them where a GPU would need registers. Of shapes that the compiler knows.
template <class Shape>
struct LocatedCandidates : Candidates<Shape> {
  using Base = Candidates<Shape>;
  static constexpr std::uint32_t kGroups = Shape::kMostGroups;
  std::uint64_t first[kGroups];

  PERDURE_FN void set(TableView const& t, std::uint64_t key_hash) {
    Base::set(t, key_hash);
    for (std::uint32_t g = 0; g < kGroups; ++g) first[g] = Base::first_slot(t, g);
  }
  PERDURE_FN std::uint64_t first_slot(TableView const&, std::uint32_t group) const {
    return first[group];
  }
  PERDURE_FN std::uint64_t slot_number(TableView const& t, std::uint32_t lane) const {
    return first[lane / Shape::slots(t)] + lane % Shape::slots(t);
  }
  PERDURE_FN std::uint32_t distinct_lanes(TableView const& t) const {
    return Base::distinct_lanes_of(t, [&](std::uint32_t g) { return first[g]; });
  }
  template <class W>
  PERDURE_FN std::uint32_t row_bits(TableView const& t, std::uint32_t const* bitmap,
                                    std::uint32_t group) const {
    return Base::template row_bits_from<W>(t, bitmap, first[group]);
  }
};

/// What a lane that keeps its candidates from stage to stage keeps them in.
template <class W, class Shape>
using KeptCandidates = std::conditional_t<W::kReadsBackCheaply && Shape::kMaxHashes == 2,
                                          LocatedCandidates<Shape>, Candidates<Shape>>;

}  // namespace perdure::gphash
