// Bodies that empty the level a resize retires. Keys that the mirror knew of that level are hashed from there, by a
// thread a slot; the others are read from their records, by a warp a slot.
// Invariant: copying is idempotent, and nothing is deleted: a crash at any point is mended by copying again.
#pragma once

#include <cstdint>

#include "base/mutants.hpp"
#include "store/mirror_ops.hpp"

namespace perdure {

/// One slot of the retiring level an item.
template <class Ops>
struct RehashBody {
  static constexpr int kStages = 1;
  gphash::TableView table;
  gphash::Level retiring;
  std::uint64_t const* slots = nullptr;  // of that level, one an item; null: all of them
  template <class W>
  struct State {};

  template <int kStage, class W, class M>
  PERDURE_FN void stage(W& warp, M& mem, std::uint64_t item, State<W>&, Counts& counts) const {
    std::uint64_t const slot = slots != nullptr ? slots[item] : item;
    if (Ops::rehash(warp, mem, table, retiring, slot) == Verdict::full) ++counts[Counts::full];
  }
};

/// The same from the mirror as it was before the resize; what it does not know, or finds no room for, is left.
template <class Ops>
struct RehashKnownBody {
  static constexpr int kStages = 1;
  gphash::TableView table;
  gphash::TableView before;
  std::uint64_t first_slot = 0;  // of the retiring level, in `before`
  std::uint64_t* left = nullptr;
  std::uint64_t* left_count = nullptr;
  template <class W>
  struct State {};

  template <int kStage, class W, class M>
  PERDURE_FN void stage(W& warp, M& mem, std::uint64_t slot, State<W>&, Counts& counts) const {
    std::uint64_t const word = Ops::on_pm(before, W::load(before.mirror.words + first_slot + slot));
    if (word == gphash::word::kEmpty || move(warp, mem, first_slot + slot, word)) return;
    ++counts[Counts::left];
    warp.once([&] {
      left[W::fetch_add(left_count, std::uint64_t{1})] = slot;
      return std::uint64_t{0};
    });
  }

 private:
  template <class W, class M>
  PERDURE_FN bool move(W& warp, M& mem, std::uint64_t from, std::uint64_t word) const {
    gphash::Mirror const& old = before.mirror;
    if ((old.known<W>(from) & gphash::kKeyKnown) == 0) return false;
    KeyRef key{old.identity(from), table.key_bytes, 0};
    key.hash = hash_bytes(key.data, key.bytes);
    typename Ops::Where const where(table, key.hash);
    MirrorSearch<Ops> const search{table};
    if (stands<W>(search, where, key.hash, word)) return true;
    std::uint32_t const empties = search.empties(where);
    std::uint32_t lane = 0;
    bool const found =
        warp.once([&] { return std::uint64_t{Ops::template claim_empty<W>(table, where, empties, lane)}; }) != 0;
    if (!found) return false;
    Plan plan;
    plan.value_sum = old.value_sum<W>(from);
    plan.known = table.mirror.identities != nullptr ? old.known<W>(from) : 0;  // the larger one may have no room
    Ops::store(warp, mem, table, where.slot(table, lane), where.slot_number(table, lane), word, &key, &plan);
    return true;
  }

  /// Whether an earlier, interrupted copying has brought the word over.
  template <class W>
  PERDURE_FN bool stands(MirrorSearch<Ops> const& search, typename Ops::Where const& where, std::uint64_t hash,
                         std::uint64_t word) const {
    for (std::uint32_t hits = search.candidates(where, hash); hits != 0; hits &= hits - 1) {
      std::uint64_t const slot = where.slot_number(table, exec::lowest_bit(hits));
      if (Ops::on_pm(table, W::load(table.mirror.words + slot)) == word) return true;
    }
    return false;
  }
};

}  // namespace perdure
