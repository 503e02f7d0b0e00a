// Bodies that move units of a growing table: they copy what the units hold on the retiring level to
// where it belongs afterwards, and then empty that part of the level. Keys that the mirror knows
// are hashed from there, 32 slots an item; the others are read from their records, by a warp a
// slot. Invariants: copying is idempotent and deletes nothing, so a crash meanwhile is mended by
// copying again; emptying comes after an ordering point. Nobody else uses the table meanwhile.
#pragma once

#include <cstdint>

#include "base/assert.hpp"
#include "base/hooks.hpp"
#include "store/gphash/kernels/mirror_ops.hpp"

namespace perdure {

/// The slots of some units on the retiring level, counted through.
struct UnitSlots {
  std::uint32_t const* units = nullptr;  // machine memory
  std::uint32_t slot_bits = 0;  // 2^slot_bits slots each
  std::uint64_t n = 0;  // slots of all

  PERDURE_FN std::uint64_t at(std::uint64_t i) const {
    std::uint64_t const within = i & ((std::uint64_t{1} << slot_bits) - 1);
    return (std::uint64_t{units[i >> slot_bits]} << slot_bits) + within;
  }
};

/// One slot an item.
template <class Ops>
struct RehashBody {
  static constexpr int kStages = 2;
  gphash::TableView table;
  UnitSlots slots;
  std::uint64_t const* left = nullptr;  // which of them, one an item; null: all
  template <class W>
  struct State {};

  template <int kStage, class W, class M>
  PERDURE_FN void stage(W& warp, M& mem, std::uint64_t item, State<W>&, Counts& counts) const {
    PERDURE_ASSERT(!kCostlyAssertions || left == nullptr || left[item] < slots.n);
    std::uint64_t const slot = slots.at(left != nullptr ? left[item] : item);
    if constexpr (kStage == 0) {
      Ops::prefetch_to_rehash(warp, mem, table, slot);
    } else {
      if (Ops::rehash(warp, mem, table, slot) == Verdict::full) ++counts[BatchCounts::full];
    }
  }
};

/// 32 slots an item, from the mirror; what that does not know, or finds no room for, is left.
template <class Ops>
struct LanePerSlotRehashBody {
  using Where = typename Ops::Where;
  static constexpr int kStages = 2;
  gphash::TableView table;
  UnitSlots slots;
  std::uint64_t* left = nullptr;
  std::uint64_t* left_count = nullptr;

  template <class W>
  struct State {
    typename W::template Each<Where> where;
    typename W::template Each<std::uint64_t> word;  // as it is on PM
    std::uint32_t known;
    std::uint32_t left;
  };

  template <int kStage, class W, class M>
  PERDURE_FN void stage(W& warp, M& mem, std::uint64_t item, State<W>& s, Counts& counts) const {
    std::uint64_t const first = item * kKeysPerItem;
    if constexpr (kStage == 0) {
      warp.each([&](std::uint32_t lane) {
        s.word[lane] = first + lane < slots.n ? word_at<W>(first + lane) : 0;
      });
      std::uint32_t const taken =
          warp.ballot([&](std::uint32_t lane) { return s.word[lane] != gphash::word::kEmpty; });
      s.known = warp.ballot(
          [&](std::uint32_t lane) { return in(taken, lane) && knows_key<W>(first + lane); });
      s.left = taken & ~s.known;
      warp.each([&](std::uint32_t lane) {
        if (!in(s.known, lane)) return;
        s.where[lane].set_moved(table, key_of(first + lane).hash);
        for (std::uint32_t g = 0; g < Where::groups(table); ++g)
          warp.prefetch(table.mirror.words + s.where[lane].first_slot(table, g), 8);
      });
    } else {
      finish(warp, mem, first, s, counts);
    }
  }

 private:
  // no lane of a key's candidates: it has been copied already
  static constexpr std::uint32_t kStands = 32;
  static constexpr std::uint32_t kFull = 33;

  PERDURE_FN static bool in(std::uint32_t mask, std::uint32_t lane) {
    return (mask >> lane & 1) != 0;
  }
  PERDURE_FN std::uint64_t number(std::uint64_t i) const {
    PERDURE_ASSERT(!kCostlyAssertions || (table.retiring == 1 && i < slots.n));
    return table.retiring_level().first_slot + slots.at(i);
  }

  template <class W>
  PERDURE_FN std::uint64_t word_at(std::uint64_t i) const {
    return Ops::on_pm(table, W::load(table.mirror.words + number(i)));
  }
  template <class W>
  PERDURE_FN bool knows_key(std::uint64_t i) const {
    return (table.mirror.known<W>(number(i)) & gphash::kKeyKnown) != 0;
  }
  PERDURE_FN KeyRef key_of(std::uint64_t i) const { return Ops::mirrored_key(table, number(i)); }

  template <class W, class M>
  PERDURE_FN void finish(W& warp, M& mem, std::uint64_t first, State<W>& s, Counts& counts) const {
    typename W::template Each<std::uint32_t> to;
    warp.each([&](std::uint32_t lane) {
      to[lane] = in(s.known, lane) ? find_room<W>(s.where[lane], s.word[lane]) : kStands;
    });
    std::uint32_t const moves = warp.ballot([&](std::uint32_t lane) { return to[lane] < kStands; });
    std::uint32_t const leaves =
        s.left | warp.ballot([&](std::uint32_t lane) { return to[lane] == kFull; });
    auto const target = [&](std::uint32_t lane) { return s.where[lane].slot(table, to[lane]); };
    if constexpr (!Ops::kLogged)
      mem.store_each(warp, moves, target, [&](std::uint32_t lane) { return s.word[lane]; });
    warp.each([&](std::uint32_t lane) {
      if (!in(moves, lane)) return;
      PERDURE_ASSERT(!kCostlyAssertions || s.word[lane] != gphash::word::kEmpty);
      KeyRef const key = key_of(first + lane);
      Plan plan;
      plan.value_sum = table.mirror.template value_sum<W>(number(first + lane));
      plan.known = table.mirror.template known<W>(number(first + lane));
      std::uint64_t const into = s.where[lane].slot_number(table, to[lane]);
      Ops::template reflect<W>(table, into, s.word[lane], &key, &plan);
      std::uint64_t const there = W::load(table.mirror.words + number(first + lane));
      if ((there & gphash::Mirror::kCached) != 0) W::store(table.mirror.words + into, there);
    });
    append_each(warp, leaves, left, left_count, [&](std::uint32_t lane) { return first + lane; });
    counts[BatchCounts::left] += exec::popcount(leaves);
  }

  /// By words alone: others store into these rows meanwhile, and the tags of a row are read all at
  /// once.
  template <class W>
  PERDURE_FN std::uint32_t find_room(Where const& where, std::uint64_t word) const {
    std::uint32_t const slots_each = Ops::slots(table);
    std::uint32_t empties = 0;
    for (std::uint32_t g = 0; g < Where::groups(table); ++g) {
      std::uint64_t const* const row = table.mirror.words + where.first_slot(table, g);
      for (std::uint32_t s = 0; s < slots_each; ++s) {
        std::uint64_t const there = W::load(row + s);
        if (Ops::on_pm(table, there) == word) return kStands;
        empties |= std::uint32_t{there == gphash::word::kEmpty} << (g * slots_each + s);
      }
    }
    std::uint32_t lane = 0;
    return Ops::template claim_empty<W>(table, where, empties & where.distinct_lanes(table), lane)
               ? lane
               : kFull;
  }
};

/// Layout `log`, whose words are in the mirror alone: takes back the copies of what units hold that
/// find no room, so that it stands on the retiring level alone. A slot an item.
template <class Ops>
struct ClearCopiesBody {
  using Where = typename Ops::Where;
  static constexpr int kStages = 1;
  gphash::TableView table;
  UnitSlots slots;
  template <class W>
  struct State {};

  template <int kStage, class W, class M>
  PERDURE_FN void stage(W& warp, M&, std::uint64_t item, State<W>&, Counts&) const {
    PERDURE_ASSERT(!kCostlyAssertions || (table.retiring == 1 && item < slots.n));
    std::uint64_t const number = table.retiring_level().first_slot + slots.at(item);
    std::uint64_t const word = Ops::on_pm(table, W::load(table.mirror.words + number));
    if (word == gphash::word::kEmpty || mutated("stuck_unit_keeps_copies")) return;
    Where where;
    where.set_moved(table, Ops::mirrored_key(table, number).hash);
    warp.elect([&] {
      std::uint32_t const lanes = Where::groups(table) * Ops::slots(table);
      for (std::uint32_t lane = 0; lane < lanes; ++lane) {
        std::uint64_t const copy = where.slot_number(table, lane);
        if (Ops::on_pm(table, W::load(table.mirror.words + copy)) == word)
          Ops::template reflect<W>(table, copy, gphash::word::kEmpty, nullptr, nullptr);
      }
      return std::uint64_t{0};
    });
  }
};

/// Stores zeros over the units' part of the retiring level, 32 slots an item.
template <class Ops>
struct EmptyUnitsBody {
  static constexpr int kStages = 1;
  gphash::TableView table;
  UnitSlots slots;
  template <class W>
  struct State {};

  template <int kStage, class W, class M>
  PERDURE_FN void stage(W& warp, M& mem, std::uint64_t item, State<W>&, Counts&) const {
    std::uint64_t const first = item * kKeysPerItem;
    PERDURE_ASSERT(!kCostlyAssertions || table.retiring == 1);
    gphash::Level const& level = table.retiring_level();
    std::uint32_t const mask =
        warp.ballot([&](std::uint32_t lane) { return first + lane < slots.n; });
    auto const at = [&](std::uint32_t lane) { return level.base + slots.at(first + lane) * 8; };
    if (!Ops::kLogged && !mutated("moved_unit_not_emptied"))
      mem.store_each(warp, mask, at,
                     [](std::uint32_t) { return std::uint64_t{0}; });  // EMPTY in both layouts
    warp.each([&](std::uint32_t lane) {
      if ((mask >> lane & 1) == 0) return;
      std::uint64_t const number = level.first_slot + slots.at(first + lane);
      Ops::template reflect<W>(table, number, 0, nullptr, nullptr);
    });
  }
};

}  // namespace perdure
