// Bodies of write batches, once for every machine: the two phases. Gets are in get_ops.hpp.
//
// Operations on one key form a *group*: a run of equal hashes in `order`, in array order. The warp
// at the group's first pending operation folds them all into at most one record and one change of
// the index, so repeated keys cost one access and take effect in array order. A group that cannot
// be decided (its slot claimed by a neighbour's displacement, or no room) stays pending for a next
// pass.
#pragma once

#include <cstdint>
#include <type_traits>

#include "base/assert.hpp"
#include "base/hash.hpp"
#include "base/hooks.hpp"
#include "batch/arithmetic.hpp"
#include "batch/groups.hpp"
#include "batch/hot_keys.hpp"
#include "index/gphash/ops.hpp"
#include "store/gphash/kernels/get_ops.hpp"
#include "wal/undo.hpp"

namespace perdure {

using exec::Counts;
using gphash::Plan;
using gphash::Verdict;

// ------------------------------------------------------------------------------------------------
/// A batch of writes.
struct WriteView : BatchView {
  Plan* plans = nullptr;  // per position of `order`; change == none: nothing to publish
};

/// Nothing to publish at this position, nothing to free.
PERDURE_FN std::uint64_t leave(WriteView const& batch, std::uint64_t j) {
  PERDURE_ASSERT(!kCostlyAssertions || j < batch.n);
  batch.plans[j].change = Change::none;
  batch.unlinked[j] = 0;
  return 0;
}

/// Of a key that was looked for, before its group's operations.
PERDURE_FN Folded unchanged(gphash::Found const& found) {
  return {found.hit, found.hit ? found.record.header.value_bytes : 0};
}

/// Phase one of a write batch: folds groups, claims slots, writes records. Nothing becomes visible.
template <class Ops>
struct PlanBody {
  using Where = typename Ops::Where;
  static constexpr int kStages = 4;
  WriteView batch;
  gphash::TableView table;
  std::uint64_t const* positions = nullptr;  // of `order`, one an item; null: all of them

  template <class W>
  struct State {
    KeyRef key;
    Where where;
    typename W::Lanes lanes;
    gphash::Found found;
    Folded folded;
    Plan plan;
    bool live;
  };

  /// Stages: candidates; slot words; decide (which claims slots); carry out (which writes records).
  /// Claims are atomics, and on a CPU an atomic waits for every store before it: so a block's
  /// claims come before its records.
  template <int kStage, class W, class M>
  PERDURE_FN void stage(W& warp, M& mem, std::uint64_t item, State<W>& s, Counts& counts) const {
    std::uint64_t const j = positions != nullptr ? positions[item] : item;
    PERDURE_ASSERT(!kCostlyAssertions || (j < batch.n && batch.pass > 0));
    if constexpr (kStage == 0) {
      s.live = is_head<W>(batch, j);
      if (!s.live) {
        if (batch.pass == 1) warp.elect([&] { return leave(batch, j); });
        return;
      }
      std::uint64_t const i = batch.order[j].index;
      s.key = {batch.keys.at(i), batch.keys.size(i), batch.order[j].hash};
      s.where.set(table, s.key.hash);
      Ops::prefetch(warp, mem, table, s.where);
      warp.prefetch(s.key.data, s.key.bytes);
      if (batch.values.data != nullptr) warp.prefetch(batch.values.at(i), batch.values.size(i));
    } else if constexpr (kStage == 1) {
      if (!s.live) return;
      s.lanes = Ops::probe(warp, mem, table, s.where);
      Offset const record = Ops::likely_record(warp, table, s.lanes, s.key.hash);
      if (record && table.may_hold(record)) {
        table.prefetch_record(warp, mem, record, 0);
      } else {
        Ops::prefetch_to_plan(warp, table, s.where, s.lanes);
      }
      Offset const fresh{batch.reserved[batch.reservation(j, batch.order[j].index)]};
      if (fresh && !streams(j)) {
        mem.prefetch_to_write(
            warp, fresh, table.max_record < 64 + kPrefetch ? table.max_record : 64 + kPrefetch);
      }
    } else if constexpr (kStage == 2) {
      if (s.live) s.live = decide(warp, mem, j, s, counts);
    } else {
      if (s.live) carry_out(warp, mem, j, s, counts);
    }
  }

  /// The values of a new key's gets, once it has found room: a refused get leaves its output alone,
  /// and layout `in_place` learns only in phase two whether there is room.
  template <class W>
  PERDURE_FN void answer_gets(W& warp, std::uint64_t j, KeyRef const& key) const {
    gphash::Found const absent{};
    Folded const folded = fold(warp, j, key, absent);
    if (folded.arithmetic) return replay(warp, j, key, absent, folded, nullptr, true);
    Folded walk(false, 0);
    for_group(warp, j, key, [&](std::uint64_t i) {
      KeyStatus const status = step(batch, walk, i);
      if (batch.kind_of(i) == OpKind::get && status == KeyStatus::ok)
        give(warp, i, batch.values.at(walk.writer), walk.bytes);
    });
  }

 private:
  /// Whether this position's record is followed by the next one's, so that whole lines get written.
  PERDURE_FN bool streams(std::uint64_t j) const {
    if (!batch.any_fits || j + 1 >= batch.n) return false;
    std::uint64_t const apart = batch.reserved[j + 1] - batch.reserved[j];
    return apart <= table.records.reach(table.max_record);
  }

  /// Calls f(operation) for each pending operation on this key, in array order. True: pending
  /// operations on another key have this hash.
  template <class W, class F>
  PERDURE_FN bool for_group(W& warp, std::uint64_t j, KeyRef const& key, F f) const {
    bool others = false;
    for (std::uint64_t k = j; k < batch.n && batch.order[k].hash == key.hash; ++k) {
      std::uint64_t const i = batch.order[k].index;
      if (k > j) {
        if (!batch.template pending<W>(i)) continue;
        if (batch.keys.size(i) != key.bytes || !warp.equal(batch.keys.at(i), key.data, key.bytes)) {
          others = true;
          continue;
        }
      }
      f(i);
    }
    return others;
  }

  /// Finds the key, folds its group, claims the slot that will change. False if nothing is to be
  /// carried out: the group waits for the next pass, or was refused.
  template <class W, class M>
  PERDURE_FN bool decide(W& warp, M& mem, std::uint64_t j, State<W>& s, Counts& counts) const {
    s.found = Ops::find(warp, mem, table, s.where, s.lanes, s.key);
    s.folded = fold(warp, j, s.key, s.found);
    if (s.found.hit && !s.found.read && (s.folded.arithmetic || s.folded.gives))
      Ops::read_record(mem, table, s.found);
    s.plan = {};
    if (s.folded.arithmetic && s.found.hit && batch.verify && !pm::intact(warp, s.found.record)) {
      refuse(warp, j, s.key, counts);
      return false;
    }
    PERDURE_ASSERT(!kCostlyAssertions || s.folded.writer < batch.n);
    Change const change = s.folded.change(s.found.hit);
    if (change == Change::none) return true;
    bool displaced = false;
    Verdict const verdict = Ops::plan(warp, mem, table, s.where, s.lanes, s.found, change,
                                      batch.displacement, s.plan, displaced);
    counts[Counts::displaced] += displaced;
    if (verdict == Verdict::done) return true;
    ++counts[Counts::pending];
    counts[Counts::full] += verdict == Verdict::full;
    if (verdict == Verdict::full) gphash::note_refusal(warp, table, s.key.hash);
    warp.elect([&] { return leave(batch, j); });
    return false;
  }

  /// Writes the group's record, answers its operations, leaves phase two its plan.
  template <class W, class M>
  PERDURE_FN void carry_out(W& warp, M& mem, std::uint64_t j, State<W>& s, Counts& counts) const {
    Change const change = s.plan.change;
    bool const writes = change == Change::insert || change == Change::replace;
    bool const unlinks = change == Change::replace || change == Change::erase;
    std::uint64_t const mine = batch.reservation(j, s.folded.writer);
    // else see answer_gets
    bool const sure = !(Ops::kPublishNeedsWarp && change == Change::insert);
    PERDURE_ASSERT(!kCostlyAssertions || !unlinks || s.found.hit);
    // A reservation is used once.
    PERDURE_ASSERT(!kCostlyAssertions || !writes || batch.used[mine] == 0 ||
                   mutated("group_split_over_warps"));
    if (writes) {
      bool const over = mutated("record_overwritten_in_place") && change == Change::replace;
      Offset const at{over ? s.found.at.bytes : batch.reserved[mine]};
      write(warp, mem, j, s.key, s.found, s.folded, at, sure);
      Ops::complete(s.plan, s.key.hash, at);
      if constexpr (Ops::kMirrored) note_identity(warp, s);
      if (mutated("word_published_with_record") && s.plan.target)
        mem.store(warp, s.plan.target, s.plan.value);
    } else if (s.folded.arithmetic) {
      replay(warp, j, s.key, s.found, s.folded, nullptr,
             sure);  // gets saw values that an erase then took away
    }
    answer(warp, j, s.key, s.found, s.folded, sure, counts);
    warp.elect([&] {
      batch.plans[j] = s.plan;
      batch.unlinked[j] = unlinks ? s.found.at.bytes : 0;
      if (writes) batch.used[mine] = 1;
      return std::uint64_t{0};
    });
    counts[Counts::pending] += s.folded.others_wait;
    counts[Counts::used] += writes;
    counts[Counts::inserted] += change == Change::insert;
    counts[Counts::erased] += change == Change::erase;
    counts[Counts::unlinked] += unlinks;
  }

  /// What the mirror will know of the new record: of an arithmetic result, only the key.
  template <class W>
  PERDURE_FN void note_identity(W& warp, State<W>& s) const {
    if (table.mirror.identities == nullptr) return;
    s.plan.known = gphash::kKeyKnown;
    if (s.folded.arithmetic) return;
    s.plan.value_sum = warp.crc32c(0, batch.values.at(s.folded.writer), s.folded.bytes);
    s.plan.known |= gphash::kSumKnown;
  }

  /// The stored value is damaged and some operation would compute with it: leave everything alone.
  template <class W>
  PERDURE_FN void refuse(W& warp, std::uint64_t j, KeyRef const& key, Counts& counts) const {
    ++counts[Counts::corrupt];
    counts[Counts::pending] += for_group(warp, j, key, [&](std::uint64_t i) {
      warp.elect([&] {
        batch.status[i] = code(KeyStatus::corrupt);
        W::store(batch.decided + i, batch.pass);
        return std::uint64_t{0};
      });
    });
    warp.elect([&] { return leave(batch, j); });
  }

  template <class W>
  PERDURE_FN Folded fold(W& warp, std::uint64_t j, KeyRef const& key,
                         gphash::Found const& found) const {
    Folded folded = unchanged(found);
    if (runs_long(batch, j))
      return for_pieces(warp, batch, j, key, folded, [](auto const&, Folded const&) {});
    folded.others_wait = for_group(warp, j, key, [&](std::uint64_t i) { step(batch, folded, i); });
    return folded;
  }

  /// Writes the group's record at `at`, whole.
  template <class W, class M>
  PERDURE_FN void write(W& warp, M& mem, std::uint64_t j, KeyRef const& key,
                        gphash::Found const& found, Folded const& folded, Offset at,
                        bool gets) const {
    PERDURE_ASSERT(!kCostlyAssertions || batch.values.data != nullptr);
    (void)mem.write(at);
    pm::RecordAddress const address = pm::address_at(mem.address(Offset{0}), table.records, at);
    pm::RecordView record{};
    bool const key_in_slot = Ops::kPublishNeedsWarp && table.key_bytes != 0;
    record.header.key_bytes = key_in_slot ? 0 : key.bytes;
    record.header.value_bytes = folded.bytes;
    record.header.sequence = batch.sequence;
    record.key = key.data;
    record.value = batch.values.at(folded.writer);
    if (folded.arithmetic) {
      replay(warp, j, key, found, folded, address.value(record.header.key_bytes), gets);
      return pm::seal_record(warp, address, record);
    }
    pm::write_record(warp, address, record, streams(j));
  }

  /// Statuses of the group, and, with `gets`, the values of its gets where no arithmetic is
  /// involved.
  template <class W>
  PERDURE_FN void answer(W& warp, std::uint64_t j, KeyRef const& key, gphash::Found const& found,
                         Folded const& folded, bool gets, Counts& counts) const {
    if (runs_long(batch, j)) return answer_long(warp, j, key, found, folded, gets, counts);
    Folded walk = unchanged(found);
    for_group(warp, j, key, [&](std::uint64_t i) {
      bool const get = batch.kind_of(i) == OpKind::get;
      KeyStatus status = step(batch, walk, i);
      if (get && status == KeyStatus::ok) {
        bool const stored = !walk.changed;
        if (stored && batch.verify && !pm::intact(warp, found.record)) {
          status = KeyStatus::corrupt;
          ++counts[Counts::corrupt];
        } else if (gets && !folded.arithmetic) {
          give(warp, i, stored ? found.record.value : batch.values.at(walk.writer), walk.bytes);
        }
      }
      warp.elect([&] {
        batch.status[i] = code(status);
        W::store(batch.decided + i, batch.pass);
        return std::uint64_t{0};
      });
    });
  }

  /// As answer(), a piece at a time; the stored record is checked once.
  template <class W>
  PERDURE_FN void answer_long(W& warp, std::uint64_t j, KeyRef const& key,
                              gphash::Found const& found, Folded const& folded, bool gets,
                              Counts& counts) const {
    bool const damaged = folded.gives && batch.verify && !pm::intact(warp, found.record);
    std::uint32_t const stored_bytes = found.hit ? found.record.header.value_bytes : 0;
    for_pieces(warp, batch, j, key, unchanged(found),
               [&](RunPiece<W> const& piece, Folded const& before) {
                 std::uint32_t const corrupt = damaged ? piece.stored_gets() : 0;
                 counts[Counts::corrupt] += exec::popcount(corrupt);
                 if (gets) {
                   auto const to = [&](std::uint32_t lane) {
                     return batch.out + piece.operation(lane) * table.value_bytes;
                   };
                   warp.copy_each(
                       piece.stored_gets() & ~corrupt,
                       stored_bytes < table.value_bytes ? stored_bytes : table.value_bytes, to,
                       [&](std::uint32_t) { return found.record.value; }, nullptr);
                   auto const writers = piece.writers(warp, before);
                   warp.copy_each(
                       piece.fresh_gets(), table.value_bytes, to,
                       [&](std::uint32_t lane) { return batch.values.at(writers[lane]); }, nullptr);
                 }
                 warp.each([&](std::uint32_t lane) {
                   if ((piece.members() >> lane & 1) == 0) return;
                   std::uint64_t const i = piece.operation(lane);
                   batch.status[i] =
                       code((corrupt >> lane & 1) != 0 ? KeyStatus::corrupt : piece.status(lane));
                   W::store(batch.decided + i, batch.pass);
                 });
               });
  }

  /// One get's value to its place in the output.
  template <class W>
  PERDURE_FN void give(W& warp, std::uint64_t i, std::byte const* value,
                       std::uint32_t bytes) const {
    PERDURE_ASSERT(!kCostlyAssertions || (batch.out != nullptr && i < batch.n));
    warp.copy(batch.out + i * table.value_bytes, value,
              bytes < table.value_bytes ? bytes : table.value_bytes);
  }

  /// Arithmetic: each lane replays the whole group on its own elements, so the final value is
  /// written once however many operations there are. `value` is null when only the gets' answers
  /// are wanted, `gets` false when they are not.
  template <class W>
  PERDURE_FN void replay(W& warp, std::uint64_t j, KeyRef const& key, gphash::Found const& found,
                         Folded const& folded, std::byte* value, bool gets) const {
    switch (batch.element) {
      case Element::u8: return replay_as<std::uint8_t>(warp, j, key, found, folded, value, gets);
      case Element::i32: return replay_as<std::int32_t>(warp, j, key, found, folded, value, gets);
      case Element::u32: return replay_as<std::uint32_t>(warp, j, key, found, folded, value, gets);
      case Element::i64: return replay_as<std::int64_t>(warp, j, key, found, folded, value, gets);
      case Element::u64: return replay_as<std::uint64_t>(warp, j, key, found, folded, value, gets);
      case Element::f32: return replay_as<float>(warp, j, key, found, folded, value, gets);
      case Element::f64: return replay_as<double>(warp, j, key, found, folded, value, gets);
    }
  }

  template <class T, class W>
  PERDURE_FN void replay_as(W& warp, std::uint64_t j, KeyRef const& key, gphash::Found const& found,
                            Folded const& folded, std::byte* value, bool gets) const {
    std::uint32_t longest = found.hit ? found.record.header.value_bytes : 0;
    for_group(warp, j, key, [&](std::uint64_t i) {
      if (batch.kind_of(i) == OpKind::put && batch.values.size(i) > longest)
        longest = batch.values.size(i);
    });
    warp.strided(longest / sizeof(T), [&](std::size_t e) {
      Folded walk = unchanged(found);
      T element{};
      if ((e + 1) * sizeof(T) <= walk.bytes) element = load_element<T>(found.record.value, e);
      for_group_lanewise<W>(batch, j, key, [&](std::uint64_t i) {
        OpKind const kind = batch.kind_of(i);
        if (step(batch, walk, i) != KeyStatus::ok || (e + 1) * sizeof(T) > walk.bytes) return;
        if (kind == OpKind::put) element = load_element<T>(batch.values.at(i), e);
        if (kind == OpKind::update)
          element = combine<T>(batch.rmw, element, load_element<T>(batch.values.at(i), e));
        if (gets && kind == OpKind::get && (e + 1) * sizeof(T) <= table.value_bytes)
          store_element<T>(batch.out + i * table.value_bytes, e, element);
      });
      if (value != nullptr && (e + 1) * sizeof(T) <= folded.bytes)
        store_element<T>(value, e, element);
    });
    if (sizeof(T) > 1 && (table.value_bytes == 0 || table.value_bytes % sizeof(T) != 0))
      replay_tail(warp, j, key, found, folded, static_cast<std::uint32_t>(sizeof(T)), value, gets);
  }

  /// Trailing bytes that make no whole element: updates leave them, so they are those of the last
  /// put.
  template <class W>
  PERDURE_FN void replay_tail(W& warp, std::uint64_t j, KeyRef const& key,
                              gphash::Found const& found, Folded const& folded,
                              std::uint32_t element_bytes, std::byte* value, bool gets) const {
    Folded walk = unchanged(found);
    std::byte const* last = found.hit ? found.record.value : nullptr;
    auto const copy_tail = [&](std::byte* to, std::uint32_t bytes) {
      std::uint32_t const whole = bytes - bytes % element_bytes;
      if (whole < bytes) warp.copy(to + whole, last + whole, bytes - whole);
    };
    for_group(warp, j, key, [&](std::uint64_t i) {
      OpKind const kind = batch.kind_of(i);
      if (step(batch, walk, i) != KeyStatus::ok) return;
      if (kind == OpKind::put) last = batch.values.at(i);
      if (gets && kind == OpKind::get && walk.bytes == table.value_bytes)
        copy_tail(batch.out + i * table.value_bytes, walk.bytes);
    });
    if (value != nullptr) copy_tail(value, folded.bytes);
  }
};

/// Between the phases of a batch that must be undoable: what phase two will overwrite.
template <class Ops>
struct UndoBody {
  static constexpr int kStages = 1;
  WriteView batch;
  wal::UndoPlace place;
  template <class W>
  struct State {};

  template <int kStage, class W, class M>
  PERDURE_FN void stage(W& warp, M& mem, std::uint64_t j, State<W>&, Counts&) const {
    Plan const plan = batch.plans[j];
    if (plan.change == Change::none || mutated("undo_entry_skipped")) return;
    PERDURE_ASSERT(!kCostlyAssertions || plan.claim[1] == Plan::kNoClaim);  // one slot
    std::uint64_t const old = Ops::old_word(plan, batch.order[j].hash, Offset{batch.unlinked[j]});
    wal::append_undo(warp, mem, place, j, plan.target, old);
  }
};

/// Phase two: makes each group's change visible.
template <class Ops>
struct PublishBody {
  static constexpr int kStages = 3;
  WriteView batch;
  gphash::TableView table;
  template <class W>
  struct State {};

  template <int kStage, class W, class M>
  PERDURE_FN void stage(W& warp, M& mem, std::uint64_t j, State<W>&, Counts& counts) const {
    Plan const plan = batch.plans[j];
    if (plan.change == Change::none) return;
    PERDURE_ASSERT(!kCostlyAssertions || batch.order[j].index < batch.n);
    if constexpr (kStage == 0) {
      mem.prefetch_to_write(warp, plan.target, 8);
    } else if constexpr (kStage == 1) {
      publish(warp, mem, j, plan, counts);
    } else {
      Ops::release_claims(warp, table, plan);
      warp.elect([&] {
        batch.plans[j].change = Change::none;
        return std::uint64_t{0};
      });
    }
  }

 private:
  template <class W, class M>
  PERDURE_FN void publish(W& warp, M& mem, std::uint64_t j, Plan const& plan,
                          Counts& counts) const {
    std::uint64_t const i = batch.order[j].index;
    KeyRef const key{batch.keys.at(i), batch.keys.size(i), batch.order[j].hash};
    [[maybe_unused]] Verdict const verdict = Ops::publish(warp, mem, table, key, plan);
    if constexpr (Ops::kPublishNeedsWarp) {
      if (verdict == Verdict::full) {
        retry(warp, j, key, counts);
      } else if (plan.change == Change::insert && batch.kinds != nullptr) {
        PlanBody<Ops>{batch, table}.answer_gets(warp, j, key);
      }
    }
  }

  /// Layout `in_place` learns only here that there is no room: the whole group is pending again.
  template <class W>
  PERDURE_FN void retry(W& warp, std::uint64_t j, KeyRef const& key, Counts& counts) const {
    PERDURE_ASSERT(!kCostlyAssertions || batch.plans[j].change == Change::insert);
    gphash::note_refusal(warp, table, key.hash);
    ++counts[Counts::pending];
    ++counts[Counts::full];
    --counts[Counts::inserted];
    --counts[Counts::used];
    for (std::uint64_t k = j; k < batch.n && batch.order[k].hash == key.hash; ++k) {
      std::uint64_t const i = batch.order[k].index;
      if (batch.decided[i] != batch.pass) continue;
      if (batch.keys.size(i) != key.bytes || !warp.equal(batch.keys.at(i), key.data, key.bytes))
        continue;
      warp.elect([&] {
        batch.status[i] = kPending;
        batch.decided[i] = 0;
        batch.used[batch.reservation(j, i)] = 0;
        return std::uint64_t{0};
      });
    }
  }
};

}  // namespace perdure
