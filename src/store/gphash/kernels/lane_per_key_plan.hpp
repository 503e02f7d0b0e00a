// Phase one of a write batch over a mirrored table that knows its keys: 32 positions of `order` an
// item. Each lane folds its own group, finds its key and claims a slot in the mirror; then all
// lanes together write the records of all 32. Where a get's value comes from is noted at its
// position, and GatherBody copies it, beside what follows. What wants more is left to PlanBody:
// arithmetic, long runs on one key, keys and values that the mirror does not know, full rows where
// entries may be displaced, slots that another has claimed. Invariant: as PlanBody's; what is left
// has neither claimed nor written anything.
#pragma once

#include <cstdint>

#include "base/assert.hpp"
#include "exec/bits.hpp"
#include "store/gphash/kernels/batch_ops.hpp"
#include "store/gphash/kernels/mirror_ops.hpp"

namespace perdure {

template <class Ops, template <class> class Has = Held>
struct LanePerKeyPlanBody {
  using Where = typename Ops::Where;
  static constexpr int kStages = 3;
  static constexpr std::uint32_t kKeys = kKeysPerItem;
  Has<WriteView> batch;
  Has<gphash::TableView> table;
  std::uint64_t* left = nullptr;  // positions for PlanBody
  std::uint64_t* left_count = nullptr;
  Deferred gets;  // where the batch has some

  template <class W>
  struct State {
    typename W::template Each<typename Ops::template KeptWhere<W>> where;
    typename W::template Each<std::uint64_t> hash;
    typename W::template Each<std::uint32_t> candidates, empties;  // no tag changes in this phase
    std::uint32_t heads;
  };

  template <int kStage, class W, class M>
  PERDURE_FN void stage(W& warp, M& mem, std::uint64_t item, State<W>& s, Counts& counts) const {
    std::uint64_t const first = item * kKeysPerItem;
    PERDURE_ASSERT(!kCostlyAssertions || (first < batch.n && table.mirror.identities != nullptr));
    if constexpr (kStage == 0) {
      s.heads = warp.ballot([&](std::uint32_t lane) {
        return first + lane < batch.n && is_head<W>(batch, first + lane);
      });
      warp.each([&](std::uint32_t lane) {
        std::uint64_t const j = first + lane;
        if (j < batch.n && !in(s.heads, lane) && batch.pass == 1) leave(batch, j);
        if (!in(s.heads, lane)) return;
        s.hash[lane] = batch.order[j].hash;
        s.where[lane].set(table, s.hash[lane]);
        for (std::uint32_t g = 0; g < Where::groups(table); ++g)
          warp.prefetch(search().row(s.where[lane], g), 1);
        if constexpr (W::kPrefetches) prefetch_operation(warp, j);
      });
    } else if constexpr (kStage == 1) {
      warp.each([&](std::uint32_t lane) {
        s.candidates[lane] = s.empties[lane] = 0;
        if (!in(s.heads, lane)) return;
        s.candidates[lane] = search().template candidates<W>(s.where[lane], s.hash[lane]);
        if constexpr (W::kPrefetches) {
          s.empties[lane] = search().template empties<W>(s.where[lane]);
          prefetch_to_claim(warp, s, lane);
        }
        if (s.candidates[lane] == 0) return;
        warp.prefetch(table.mirror.words +
                          s.where[lane].slot_number(table, exec::lowest_bit(s.candidates[lane])),
                      8);
      });
    } else {
      finish(warp, mem, first, s, counts);
    }
  }

 private:
  /// What a lane's group comes to, and what is claimed for it.
  struct Decided {
    Folded folded;
    Plan plan;
    std::uint64_t unlinked = 0;
    Offset at;  // the record that answers gets before the first write, and its value's checksum
    std::uint32_t sum = 0;
    bool was_there = false;
    bool left = false;
    bool full = false;  // an insert that found all its slots taken; none may be displaced
  };

  PERDURE_FN static bool in(std::uint32_t mask, std::uint32_t lane) {
    return (mask >> lane & 1) != 0;
  }

  template <class W>
  PERDURE_FN void prefetch_operation(W& warp, std::uint64_t j) const {
    std::uint64_t const i = batch.order[j].index;
    warp.prefetch(batch.keys.at(i), table.key_bytes);
    warp.prefetch(batch.reserved + batch.reservation(j, i), sizeof *batch.reserved);
    if (batch.values.data != nullptr) warp.prefetch(batch.values.at(i), table.value_bytes);
  }
  template <class W>
  PERDURE_FN void prefetch_to_claim(W& warp, State<W> const& s, std::uint32_t lane) const {
    auto const& where = s.where[lane];
    bool const there = s.candidates[lane] != 0;
    if (!there && s.empties[lane] == 0) return;
    std::uint64_t const slot =
        where.slot_number(table, there ? exec::lowest_bit(s.candidates[lane])
                                       : Where::less_loaded(table, s.empties[lane]));
    if (there) search().prefetch_identity(warp, slot);
    warp.prefetch_to_write(table.claims + slot / 32, 4);
  }
  PERDURE_FN MirrorSearch<Ops> search() const { return {table}; }
  PERDURE_FN KeyRef key_at(std::uint64_t j, std::uint64_t hash) const {
    return {batch.keys.at(batch.order[j].index), table.key_bytes, hash};
  }

  template <class W, class Kept>
  PERDURE_FN void decide(std::uint64_t j, KeyRef const& key, Kept const& where,
                         std::uint32_t candidates, std::uint32_t empties, Decided& s) const {
    s.left = runs_long(batch, j);
    if (s.left) return;
    MirrorHit const hit = search().template look_up<W>(where, key, candidates, gphash::kKeyKnown);
    s.was_there = hit.source != Source::none;
    s.folded = {s.was_there, s.was_there ? table.value_bytes : 0};
    s.folded.others_wait =
        for_group_lanewise<W>(batch, j, key, [&](std::uint64_t i) { step(batch, s.folded, i); });
    if (mutated("lane_per_key_keeps_first_writer")) s.folded.writer = batch.order[j].index;
    s.left = hit.source == Source::record || s.folded.arithmetic ||
             (s.folded.gives && !gives<W>(hit, s)) || !claim<W>(where, empties, hit, s);
    if (!s.full) return;
    gphash::note_refusal_by_lane<W>(table, key.hash);
    leave(batch, j);
  }

  /// Whether the stored value can be had without a look at its record.
  template <class W>
  PERDURE_FN bool gives(MirrorHit const& hit, Decided& s) const {
    std::uint32_t const needed =
        batch.verify ? gphash::kKeyKnown | gphash::kSumKnown : gphash::kKeyKnown;
    s.at = Ops::source(table, W::load(table.mirror.words + hit.slot));
    if (batch.verify) s.sum = table.mirror.template value_sum<W>(hit.slot);
    return (table.mirror.template known<W>(hit.slot) & needed) == needed &&
           table.may_hold_all(s.at);
  }

  template <class W, class Kept>
  PERDURE_FN bool claim(Kept const& where, std::uint32_t empties, MirrorHit const& hit,
                        Decided& s) const {
    Change const change = s.folded.change(s.was_there);
    if (change == Change::none) return true;
    std::uint64_t slot = hit.slot;
    s.plan.lane = hit.lane;
    if (change == Change::insert) {
      // A GPU looks for them here, for it has other warps to run and registers to save.
      std::uint32_t const some = W::kPrefetches ? empties : search().template empties<W>(where);
      if (!Ops::template claim_empty<W>(table, where, some, s.plan.lane)) {
        s.full = !batch.displacement;
        return s.full;
      }
      slot = where.slot_number(table, s.plan.lane);
    } else {
      if (!Ops::template claim<W>(table, slot)) return false;
      s.unlinked = Ops::source(table, W::load(table.mirror.words + slot)).bytes;
    }
    PERDURE_ASSERT(!kCostlyAssertions || s.was_there == (change != Change::insert));
    s.plan.change = change;
    s.plan.claim[0] = slot;
    s.plan.target = where.slot(table, s.plan.lane);
    return true;
  }

  template <class W, class M>
  PERDURE_FN void finish(W& warp, M& mem, std::uint64_t first, State<W>& s, Counts& counts) const {
    typename W::template Each<Decided> decided;
    warp.each([&](std::uint32_t lane) {
      std::uint64_t const j = first + lane;
      if (in(s.heads, lane))
        decide<W>(j, key_at(j, s.hash[lane]), s.where[lane], s.candidates[lane], s.empties[lane],
                  decided[lane]);
    });
    std::uint32_t const leaves =
        warp.ballot([&](std::uint32_t lane) { return decided[lane].left; });
    append_each(warp, leaves, left, left_count, [&](std::uint32_t lane) { return first + lane; });
    write(warp, mem, first, s.hash, decided);
    std::uint32_t const full = warp.ballot([&](std::uint32_t lane) { return decided[lane].full; });
    std::uint32_t const mine = s.heads & ~leaves & ~full;
    warp.each([&](std::uint32_t lane) {
      if (in(mine, lane)) carry_out<W>(first + lane, s.hash[lane], decided[lane]);
    });
    auto const number = [&](auto of) {
      return exec::popcount(
          warp.ballot([&](std::uint32_t lane) { return in(mine, lane) && of(decided[lane]); }));
    };
    counts[BatchCounts::left] += exec::popcount(leaves);
    counts[BatchCounts::full] += exec::popcount(full);
    counts[BatchCounts::pending] += exec::popcount(full);
    counts[BatchCounts::pending] += number([](Decided const& l) { return l.folded.others_wait; });
    counts[BatchCounts::used] += number([](Decided const& l) { return writes(l); });
    counts[BatchCounts::inserted] +=
        number([](Decided const& l) { return l.plan.change == Change::insert; });
    counts[BatchCounts::erased] +=
        number([](Decided const& l) { return l.plan.change == Change::erase; });
    counts[BatchCounts::unlinked] += number([](Decided const& l) { return l.unlinked != 0; });
  }

  PERDURE_FN static bool writes(Decided const& s) {
    return s.plan.change == Change::insert || s.plan.change == Change::replace;
  }

  /// The records of all lanes that write one, and what the plans and the mirror say of them.
  template <class W, class M>
  PERDURE_FN void write(W& warp, M& mem, std::uint64_t first,
                        typename W::template Each<std::uint64_t> const& hash,
                        typename W::template Each<Decided>& decided) const {
    std::uint32_t const mask =
        warp.ballot([&](std::uint32_t lane) { return writes(decided[lane]); });
    if (batch.replays) return note_replayed(warp, first, mask, hash, decided);
    typename W::template Each<pm::RecordParts> parts;
    warp.each([&](std::uint32_t lane) {
      if (!in(mask, lane)) return;
      Decided& s = decided[lane];
      bool const over = mutated("lane_per_key_overwrites_record") && s.unlinked != 0;
      Offset const at{over ? s.unlinked
                           : batch.reserved[batch.reservation(first + lane, s.folded.writer)]};
      parts[lane] = {pm::address_at(mem.address(Offset{0}), table.records, at),
                     batch.keys.at(batch.order[first + lane].index),
                     batch.values.at(s.folded.writer)};
      PERDURE_ASSERT(!kCostlyAssertions || (s.folded.writer < batch.n && !s.folded.arithmetic));
      Ops::complete(s.plan, hash[lane], at);
      s.plan.writer = static_cast<std::uint32_t>(s.folded.writer);
    });
    mem.write_each(mask);
    typename W::template Each<std::uint32_t> sums;
    pm::RecordHeader const header{0, table.value_bytes, table.key_bytes, 0, batch.sequence};
    pm::write_each(warp, mask, streaming(warp, first, mask), table.records, header, parts, sums);
    warp.each([&](std::uint32_t lane) {
      if (!in(mask, lane)) return;
      decided[lane].plan.value_sum = Ops::kept_sum(sums[lane]);
      decided[lane].plan.known = gphash::kKeyKnown | gphash::kSumKnown;
      Plan const& plan = decided[lane].plan;
      if (mutated("lane_per_key_publishes_with_record"))
        W::store(reinterpret_cast<std::uint64_t*>(mem.address(plan.target)), plan.value);
    });
  }

  /// Lanes whose records a CPU writes past its cache.
  template <class W>
  PERDURE_FN std::uint32_t streaming(W& warp, std::uint64_t first, std::uint32_t mask) const {
    if constexpr (W::kReadsBackCheaply) {
      return warp.ballot([&](std::uint32_t lane) {
        return in(mask, lane) && streams_at(batch, table, first + lane);
      });
    }
    return 0;
  }

  /// Records that are there already.
  template <class W>
  PERDURE_FN void note_replayed(W& warp, std::uint64_t first, std::uint32_t mask,
                                typename W::template Each<std::uint64_t> const& hash,
                                typename W::template Each<Decided>& decided) const {
    warp.each([&](std::uint32_t lane) {
      if (!in(mask, lane)) return;
      Decided& s = decided[lane];
      complete_replayed<Ops>(s.plan, hash[lane],
                             batch.reserved[batch.reservation(first + lane, s.folded.writer)]);
    });
  }

  /// Answers the group's operations, and leaves phase two its plan.
  template <class W>
  PERDURE_FN void carry_out(std::uint64_t j, std::uint64_t hash, Decided const& s) const {
    Folded walk(s.was_there, s.was_there ? table.value_bytes : 0);
    for_group_lanewise<W>(batch, j, key_at(j, hash), [&](std::uint64_t i, std::uint64_t k) {
      KeyStatus const status = step(batch, walk, i);
      if (batch.kind_of(i) == OpKind::get && status == KeyStatus::ok) plan_get(s, walk, i, k);
      batch.status[i] = code(status);
      W::store(batch.decided + i, batch.pass);
    });
    PERDURE_ASSERT(!kCostlyAssertions || !writes(s) ||
                   batch.used[batch.reservation(j, s.folded.writer)] == 0 ||
                   mutated("group_split_over_warps"));
    batch.plans[j] = s.plan;
    batch.unlinked[j] = s.unlinked;
    if (writes(s)) batch.used[batch.reservation(j, s.folded.writer)] = 1;
  }

  /// `walk`: what its group has come to before this get.
  PERDURE_FN void plan_get(Decided const& s, Folded const& walk, std::uint64_t i,
                           std::uint64_t k) const {
    PERDURE_ASSERT(!kCostlyAssertions || (gets.entries != nullptr && k < batch.n));
    if (walk.changed) {
      gets.fresh[k] = mutated("fresh_get_has_last_value") ? s.folded.writer : walk.writer;
    } else {
      gets.values[i] = Deferred::value(s.at, s.sum);
      gets.entries[k] = Deferred::entry(s.at, gets.shift, i);
    }
  }
};

}  // namespace perdure
