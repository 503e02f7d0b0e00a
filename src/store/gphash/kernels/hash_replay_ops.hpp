// Entries of the log that have hashes in place of keys, put into the table. Its slots are a set of
// pairs, a hash and a record: so each cell is two operations, one that takes a pair out and one
// that puts one in. Operations on one pair stand side by side in `order`, and the last of them says
// whether the pair is there afterwards.
//
// Invariants: no record is looked at, for those of older entries may have been written anew; keys
// of equal hashes are different pairs, for no two of them have one record; pairs are taken out in
// the first pass, and put in from the second on, so that they find the room that others had, and no
// two slots lead to one record meanwhile. What comes of equal numbers in `order` waits for a later
// pass; the log's salt is in them, so that nobody who makes keys can make many of those.
#pragma once

#include <cstdint>

#include "base/assert.hpp"
#include "base/hooks.hpp"
#include "exec/bits.hpp"
#include "index/gphash/slot_sums.hpp"
#include "store/gphash/kernels/batch_ops.hpp"
#include "store/gphash/kernels/entry_ops.hpp"

namespace perdure {

/// What cells come to: operation 2c takes out, and operation 2c + 1 puts in.
struct ReplayPairsBody {
  wal::EntryRegion region;
  std::uint64_t cells = 0;
  std::byte const* base = nullptr;  // of the pool
  HashedRecord* pairs = nullptr;
  std::uint8_t* kinds = nullptr;
  std::uint8_t* status = nullptr;
  std::uint64_t* said = nullptr;  // HashCell::what

  [[nodiscard]] PERDURE_FN std::uint64_t first_operation(std::uint64_t cell) const {
    return 2 * (mutated("entries_replayed_backwards") ? cells - 1 - cell : cell);
  }

  PERDURE_FN void operator()(std::uint64_t cell) const {
    std::byte const* const at = base + region.cell(cell).bytes;
    pm::will_read(at, sizeof(wal::HashCell));
    wal::HashCell const entry = *reinterpret_cast<wal::HashCell const*>(at);
    std::uint64_t const i = first_operation(cell);
    bool const takes = entry.what != 0 && entry.old != 0 && wal::can_be_record(entry.old);
    set(i, {entry.hash, entry.old}, OpKind::erase, entry.what, takes);
    Offset const record = wal::record_of(entry.what);
    set(i + 1, {entry.hash, record.bytes}, OpKind::put, entry.what, wal::says_put(entry.what));
  }

 private:
  PERDURE_FN void set(std::uint64_t i, HashedRecord pair, OpKind kind, std::uint64_t what,
                      bool says) const {
    pairs[i] = pair;
    kinds[i] = static_cast<std::uint8_t>(kind);
    said[i] = what;
    status[i] = says ? kPending : ReplayView::kSaysNothing;
  }
};

/// After it: cells of heads of extents, of which this is the first of each.
struct SkipHeadsOfPairsBody {
  ReplayPairsBody to;
  std::uint32_t const* heads = nullptr;

  PERDURE_FN void operator()(std::uint64_t i) const {
    if (mutated("extent_head_replayed")) return;
    for (std::uint32_t c = 0; c < wal::head_cells_of(to.region.cell_bytes); ++c) {
      std::uint64_t const operation = to.first_operation(heads[i] + c);
      to.status[operation] = to.status[operation + 1] = ReplayView::kSaysNothing;
    }
  }
};

/// As HashBody, of pairs. Numbers begin as hashes do, whose order is that of buckets; the rest
/// tells pairs apart.
struct OrderPairsBody {
  WriteView batch;
  std::uint64_t salt = 0;

  PERDURE_FN void operator()(std::uint64_t i) const {
    PERDURE_ASSERT(!kCostlyAssertions || (i < batch.n && batch.pass == 0));
    using gphash::slot_sums::mixed;
    constexpr std::uint64_t kRest = 0xffffffffu;
    HashedRecord const pair = pair_at(batch, i);
    std::uint64_t const mix = mixed(mixed(pair.hash ^ salt, Offset{}), Offset{pair.record});
    batch.order[i] = {i, (pair.hash & ~kRest) | (mix & kRest)};
    batch.decided[i] = batch.status[i] == kPending ? 0 : BatchView::kExcluded;
    batch.used[i] = 0;
  }
};

/// Phase one: what is said of the pair whose operations begin at a position, one an item.
template <class Ops>
struct PlanPairsBody {
  using Where = typename Ops::Where;
  static constexpr int kStages = 3;
  WriteView batch;
  gphash::TableView table;

  template <class W>
  struct State {
    HashedRecord pair;
    Where where;
    typename W::Lanes lanes;
    std::uint64_t last;  // operation
    bool live, others_wait;
  };

  template <int kStage, class W, class M>
  PERDURE_FN void stage(W& warp, M& mem, std::uint64_t j, State<W>& s, Counts& counts) const {
    if constexpr (kStage == 0) {
      s.live = begin(warp, j, s, counts);
      if (!s.live) return;
      s.where.set(table, s.pair.hash);
      Ops::prefetch(warp, mem, table, s.where);
    } else if constexpr (kStage == 1) {
      if (!s.live) return;
      s.lanes = Ops::probe(warp, mem, table, s.where);
      Ops::prefetch_to_plan(warp, table, s.where, s.lanes);
    } else {
      if (s.live) finish(warp, mem, j, s, counts);
    }
  }

 private:
  PERDURE_FN bool puts(std::uint64_t operation) const {
    return batch.kind_of(operation) == OpKind::put;
  }

  /// False: there is nothing to do in this pass.
  template <class W>
  PERDURE_FN bool begin(W& warp, std::uint64_t j, State<W>& s, Counts& counts) const {
    bool const head = is_head<W>(batch, j);
    if (head) {
      s.pair = pair_at(batch, batch.order[j].index);
      s.last = batch.order[j].index;
      s.others_wait = for_pair(warp, j, s.pair, [&](std::uint64_t base, std::uint32_t mask) {
        s.last = batch.order[base + exec::highest_bit(mask)].index;
      });
      if (batch.pass > 1 || !puts(s.last)) return true;
      ++counts[BatchCounts::pending];
    }
    if (batch.pass == 1) warp.elect([&] { return leave(batch, j); });
    return false;
  }

  /// Calls f(base, mask) for the pending operations on the pair whose first one is at j: those at
  /// base + lane. True: pending operations on another pair have its number.
  template <class W, class F>
  PERDURE_FN bool for_pair(W& warp, std::uint64_t j, HashedRecord pair, F f) const {
    if (j + 1 == batch.n || batch.order[j + 1].hash != batch.order[j].hash) {  // as most are
      f(j, 1u);
      return false;
    }
    std::uint32_t others = 0;
    for (std::uint64_t base = j;; base += W::kLanes) {
      auto const in_run = [&](std::uint32_t lane) {
        return base + lane < batch.n && batch.order[base + lane].hash == batch.order[j].hash;
      };
      auto const waits = [&](std::uint32_t lane) {
        return in_run(lane) && batch.template pending<W>(batch.order[base + lane].index);
      };
      std::uint32_t const run = warp.ballot(in_run), pending = warp.ballot(waits);
      std::uint32_t const mine = pending & warp.ballot([&](std::uint32_t lane) {
        return in_run(lane) && pair_at(batch, batch.order[base + lane].index) == pair;
      });
      others |= pending & ~mine;
      if (mine != 0) f(base, mine);
      if (run != ~0u) return others != 0;
    }
  }

  template <class W>
  PERDURE_FN gphash::Found find(W& warp, State<W> const& s) const {
    std::uint64_t const word = gphash::word::make(s.pair.hash, Offset{s.pair.record});
    bool const any = mutated("replayed_by_hash_alone");
    std::uint32_t hits =
        warp.match(s.lanes, any ? ~gphash::word::kAddressMask : ~std::uint64_t{0}, word);
    gphash::Found found;
    for (; hits != 0 && !found.hit; hits &= hits - 1) {
      found.lane = exec::lowest_bit(hits);
      std::uint64_t const slot = s.where.slot_number(table, found.lane);
      found.hit = table.mirror.template hash<W>(slot) == s.pair.hash;
    }
    return found;
  }

  template <class W, class M>
  PERDURE_FN void finish(W& warp, M& mem, std::uint64_t j, State<W>& s, Counts& counts) const {
    gphash::Found const found = find(warp, s);
    bool const writes = puts(s.last);
    Plan plan;
    if (writes || found.hit) {
      Change const change = !writes ? Change::erase : found.hit ? Change::replace : Change::insert;
      bool displaced = false;
      Verdict const verdict = Ops::plan(warp, mem, table, s.where, s.lanes, found, change,
                                        batch.displacement, plan, displaced);
      counts[BatchCounts::displaced] += displaced;
      if (verdict != Verdict::done) {
        ++counts[BatchCounts::pending];
        counts[BatchCounts::full] += verdict == Verdict::full;
        if (verdict == Verdict::full) gphash::note_refusal(warp, table, s.pair.hash);
        warp.elect([&] { return leave(batch, j); });
        return;
      }
    }
    if (writes) complete_replayed<Ops>(plan, s.pair.hash, batch.reserved[s.last]);
    for_pair(warp, j, s.pair, [&](std::uint64_t base, std::uint32_t mask) {
      auto const decide = [&](std::uint32_t lane) {
        std::uint64_t const i = batch.order[base + lane].index;
        batch.status[i] = code(KeyStatus::ok);
        W::store(batch.decided + i, batch.pass);
      };
      if (mask == 1) {
        warp.elect([&] {
          decide(0);
          return std::uint64_t{0};
        });
        return;
      }
      warp.each([&](std::uint32_t lane) {
        if ((mask >> lane & 1) != 0) decide(lane);
      });
    });
    warp.elect([&] {
      batch.plans[j] = plan;
      batch.unlinked[j] = 0;
      return std::uint64_t{0};
    });
    counts[BatchCounts::pending] += s.others_wait;
    counts[BatchCounts::used] += writes;
    counts[BatchCounts::inserted] += plan.change == Change::insert;
    counts[BatchCounts::erased] += plan.change == Change::erase;
  }
};

}  // namespace perdure
