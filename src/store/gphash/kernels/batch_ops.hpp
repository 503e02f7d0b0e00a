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
#include "batch/groups.hpp"
#include "index/gphash/ops.hpp"
#include "store/gphash/kernels/get_ops.hpp"
#include "wal/entries.hpp"
#include "wal/undo.hpp"

namespace perdure {

using exec::Counts;
using gphash::Plan;
using gphash::Verdict;

// ------------------------------------------------------------------------------------------------
/// A batch of writes.
struct WriteView : BatchView {
  Plan* plans = nullptr;  // per position of `order`; change == none: nothing to publish
  wal::EntryRegion entries;  // layout `log`: an entry a position
  bool undoable = false;  // and behind all of those one more a position, which undoes it
  // Entries are read back: the records are there, and may be of later batches. `reserved` has what
  // the entries say instead.
  bool replays = false;
};

/// Entries with hashes are replayed as operations on pairs of a hash and a record's address
/// (hash_replay_ops.hpp), which are the batch's keys.
struct HashedRecord {
  std::uint64_t hash;
  std::uint64_t record;

  PERDURE_FN bool operator==(HashedRecord const& other) const {
    return hash == other.hash && record == other.record;
  }
};
PERDURE_FN HashedRecord pair_at(WriteView const& batch, std::uint64_t operation) {
  return reinterpret_cast<HashedRecord const*>(batch.keys.data)[operation];
}

/// The record is there, and an entry of the log said this of it. A damaged one must not lead into
/// the cache; it then leads nowhere.
template <class Ops>
PERDURE_FN void complete_replayed(Plan& plan, std::uint64_t hash, std::uint64_t what) {
  bool const astray = (what & gphash::Mirror::kCached) != 0;
  constexpr std::uint64_t kNowhere = gphash::Mirror::kEntryMask * pm::kRecordAlign;
  Ops::complete(plan, hash, astray ? Offset{kNowhere} : wal::record_of(what));
  plan.value_sum = wal::value_sum_of(what);
  plan.known = gphash::kKeyKnown | gphash::kSumKnown;
}

/// Whether this position's record is followed by the next one's, so that whole lines get written.
PERDURE_FN bool streams_at(WriteView const& batch, gphash::TableView const& table,
                           std::uint64_t j) {
  if (!batch.any_fits || j + 1 >= batch.n) return false;
  std::uint64_t const apart = batch.reserved[j + 1] - batch.reserved[j];
  return apart <= table.records.reach(table.max_record);
}

/// Nothing to publish at this position, nothing to free.
PERDURE_FN std::uint64_t leave(WriteView const& batch, std::uint64_t j) {
  PERDURE_ASSERT(!kCostlyAssertions || j < batch.n);
  batch.plans[j].change = Change::none;
  batch.unlinked[j] = 0;
  return 0;
}

/// Phase one of a write batch: folds groups, claims slots, writes records. Nothing becomes visible.
template <class Ops, template <class> class Has = Held>
struct PlanBody {
  using Where = typename Ops::Where;
  static constexpr int kStages = 4;
  Has<WriteView> batch;
  Has<gphash::TableView> table;
  std::uint64_t const* positions = nullptr;  // of `order`, one an item; null: all of them
  std::uint64_t const* count = nullptr;  // so many positions there are; items behind do nothing

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
    if constexpr (kStage == 0) {
      s.live = positions == nullptr || item < *count;
      if (!s.live) return;
    } else if (!s.live) {
      return;
    }
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
      s.lanes = Ops::probe(warp, mem, table, s.where);
      // Layout `log` finds keys without their records.
      Offset const record = Ops::kLogged && !Ops::kHashed
                                ? Offset{}
                                : Ops::likely_record(warp, table, s.lanes, s.key.hash);
      if (record && table.may_hold(record)) {
        table.prefetch_record(warp, mem, record, 0);
      } else {
        Ops::prefetch_to_plan(warp, table, s.where, s.lanes);
      }
      if (batch.replays) return;
      Offset const fresh{batch.reserved[batch.reservation(j, batch.order[j].index)]};
      if (fresh) prefetch_fresh(warp, mem, j, fresh);
    } else if constexpr (kStage == 2) {
      s.live = decide(warp, mem, j, s, counts);
    } else {
      carry_out(warp, mem, j, s, counts);
    }
  }

 private:
  PERDURE_FN Group group_at(std::uint64_t j, KeyRef const& key, gphash::Found const& found) const {
    return {batch, table.value_bytes, j, key, found.hit, found.record};
  }

  PERDURE_FN bool streams(std::uint64_t j) const { return streams_at(batch, table, j); }

  /// Of a record that is streamed, the lines of heads that begin with its own.
  template <class W, class M>
  PERDURE_FN void prefetch_fresh(W& warp, M& mem, std::uint64_t j, Offset fresh) const {
    if (!streams(j)) {
      mem.prefetch_to_write(warp, fresh,
                            table.max_record < 64 + kPrefetch ? table.max_record : 64 + kPrefetch);
    } else if (W::kReadsBackCheaply && table.records.split() && !table.records.bare()) {
      Offset const head = table.records.head(fresh);
      if (head.bytes % 64 < table.records.head_stride)
        mem.prefetch_to_write(warp, head, table.records.head_stride);
    }
  }

  /// Finds the key, folds its group, claims the slot that will change. False if nothing is to be
  /// carried out: the group waits for the next pass, or was refused.
  template <class W, class M>
  PERDURE_FN bool decide(W& warp, M& mem, std::uint64_t j, State<W>& s, Counts& counts) const {
    s.found = Ops::find(warp, mem, table, s.where, s.lanes, s.key);
    // Whether an update fits depends on a length that the mirror does not have.
    if (s.found.hit && !s.found.read && table.value_bytes == 0 && batch.rmw != Rmw::replace)
      Ops::read_record(mem, table, s.found);
    Group const group = group_at(j, s.key, s.found);
    s.folded = group.fold(warp);
    if (s.found.hit && !s.found.read && (s.folded.arithmetic || s.folded.gives))
      Ops::read_record(mem, table, s.found);
    s.plan = {};
    if (s.folded.arithmetic && s.found.hit && batch.verify && !pm::intact(warp, s.found.record)) {
      group.refuse(warp, counts);
      warp.elect([&] { return leave(batch, j); });
      return false;
    }
    PERDURE_ASSERT(!kCostlyAssertions || s.folded.writer < batch.n);
    Change const change = s.folded.change(s.found.hit);
    if (change == Change::none) return true;
    bool displaced = false;
    Verdict const verdict = Ops::plan(warp, mem, table, s.where, s.lanes, s.found, change,
                                      batch.displacement, s.plan, displaced);
    counts[BatchCounts::displaced] += displaced;
    if (verdict == Verdict::done) return true;
    ++counts[BatchCounts::pending];
    counts[BatchCounts::full] += verdict == Verdict::full;
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
    Group const group = group_at(j, s.key, s.found);
    // else see Group::answer_new_gets
    bool const sure = !(Ops::kPublishNeedsWarp && change == Change::insert);
    PERDURE_ASSERT(!kCostlyAssertions || !unlinks || s.found.hit);
    // A reservation is used once.
    PERDURE_ASSERT(!kCostlyAssertions || !writes || batch.used[mine] == 0 ||
                   mutated("group_split_over_warps"));
    if (writes && batch.replays) {
      complete_replayed<Ops>(s.plan, s.key.hash, batch.reserved[mine]);
    } else if (writes) {
      bool const over = mutated("record_overwritten_in_place") && change == Change::replace;
      Offset const at{over ? s.found.at.bytes : batch.reserved[mine]};
      std::uint32_t const sum = write(warp, mem, group, s.folded, at, sure);
      Ops::complete(s.plan, s.key.hash, at);
      if constexpr (Ops::kMirrored) note_identity(warp, mem, s, at, sum);
      if (mutated("word_published_with_record") && s.plan.target)
        mem.store(warp, s.plan.target, s.plan.value);
    } else if (s.folded.arithmetic) {
      // gets saw values that an erase then took away
      group.replay(warp, s.folded, nullptr, sure);
    }
    group.answer(warp, s.folded, sure, counts);
    warp.elect([&] {
      batch.plans[j] = s.plan;
      batch.unlinked[j] = unlinks ? s.found.at.bytes : 0;
      if (writes) batch.used[mine] = 1;
      return std::uint64_t{0};
    });
    counts[BatchCounts::pending] += s.folded.others_wait;
    counts[BatchCounts::used] += writes;
    counts[BatchCounts::inserted] += change == Change::insert;
    counts[BatchCounts::erased] += change == Change::erase;
    counts[BatchCounts::unlinked] += unlinks;
  }

  /// What the mirror will know of the new record, whose checksum is `sum`: of an arithmetic result,
  /// only the key, but in layout `log`, whose entries say a sum.
  template <class W, class M>
  PERDURE_FN void note_identity(W& warp, M& mem, State<W>& s, Offset at, std::uint32_t sum) const {
    if (table.mirror.identities == nullptr) return;
    s.plan.known = gphash::kKeyKnown;
    if (Ops::kLogged && !table.records.bare()) {
      s.plan.value_sum = pm::short_sum(sum);
      s.plan.known |= gphash::kSumKnown;
      return;
    }
    if (s.folded.arithmetic && !Ops::kLogged) return;
    std::byte const* const value =
        s.folded.arithmetic ? mem.address(at) : batch.values.at(s.folded.writer);
    s.plan.value_sum = Ops::kept_sum(warp.crc32c(0, value, s.folded.bytes));
    s.plan.known |= gphash::kSumKnown;
  }

  /// Writes the group's record at `at`, whole. Returns its checksum, where it has one.
  template <class W, class M>
  PERDURE_FN std::uint32_t write(W& warp, M& mem, Group const& group, Folded const& folded,
                                 Offset at, bool gets) const {
    PERDURE_ASSERT(!kCostlyAssertions || batch.values.data != nullptr);
    (void)mem.write(at);
    pm::RecordAddress const address = pm::address_at(mem.address(Offset{0}), table.records, at);
    pm::RecordView record{};
    bool const key_in_slot = Ops::kPublishNeedsWarp && table.key_bytes != 0;
    record.header.key_bytes = key_in_slot ? 0 : group.key.bytes;
    record.header.value_bytes = folded.bytes;
    record.header.sequence = batch.sequence;
    record.key = group.key.data;
    record.value = batch.values.at(folded.writer);
    if (folded.arithmetic) {
      group.replay(warp, folded, address.value(record.header.key_bytes), gets);
      return pm::seal_record(warp, address, record);
    }
    return pm::write_record(warp, address, record, streams(group.j));
  }
};

/// Between the phases of a batch that must be undoable: what phase two will overwrite.
template <class Ops, template <class> class Has = Held>
struct UndoBody {
  static constexpr int kStages = 1;
  Has<WriteView> batch;
  wal::UndoRegion region;
  // Positions that change nothing have zeros, an entry of no transaction. A row with holes crosses
  // a link in as many packets as it has parts.
  bool fills_rows = false;
  template <class W>
  struct State {};

  template <int kStage, class W, class M>
  PERDURE_FN void stage(W& warp, M& mem, std::uint64_t j, State<W>&, Counts&) const {
    Plan const plan = batch.plans[j];
    bool const changes = plan.change != Change::none;
    if ((!changes && !fills_rows) || mutated("undo_entry_skipped")) return;
    if (plan.change == Change::erase && mutated("erase_without_its_part")) return;
    PERDURE_ASSERT(!kCostlyAssertions || !changes || plan.claim[1] == Plan::kNoClaim);  // one slot
    wal::UndoEntry entry{};
    if (changes) {
      std::uint64_t const old = Ops::old_word(plan, batch.order[j].hash, Offset{batch.unlinked[j]});
      entry = wal::undo_entry(region, plan.target, old);
    }
    wal::append_undo(warp, mem, region, j, entry);
  }
};

/// The entries of a batch: what phase two is about to do, for good. Each position has one from the
/// first pass on, and of a batch that can be undone another, which says what was there.
template <class Ops>
struct EntriesOf {
  using Entry = std::conditional_t<Ops::kHashed, wal::NewHashEntry, wal::NewEntry>;
  WriteView const& batch;
  gphash::TableView const& table;

  [[nodiscard]] PERDURE_FN bool says(Plan const& plan) const {
    return plan.change != Change::none && !mutated("entry_skipped");
  }
  [[nodiscard]] PERDURE_FN bool writes(Plan const& plan) const {
    return batch.entries.segments != nullptr && (says(plan) || batch.pass == 1);
  }

  template <class W, class M>
  PERDURE_FN void log(W& warp, M& mem, std::uint64_t j, Plan const& plan, Counts& counts) const {
    if (!writes(plan)) return;
    Entry const entry = doing(j, plan);
    counts[BatchCounts::entries] += says(plan);
    counts[BatchCounts::entry_sum] += wal::sum_of(entry, batch.entries.cell_bytes);
    wal::append_entry(warp, mem, batch.entries, j, entry);
    if (batch.undoable)
      wal::append_entry(warp, mem, batch.entries, batch.n + j, undoing<W>(j, plan));
  }

  /// Of zeros where nothing changes.
  PERDURE_FN Entry doing(std::uint64_t j, Plan const& plan) const {
    if (!says(plan)) return {};
    bool const erases = plan.change == Change::erase;
    std::byte const* const key = batch.keys.at(batch.order[j].index);
    Offset const record = gphash::word::record(plan.value);
    if constexpr (Ops::kHashed) {
      Offset const old{mutated("entry_without_old") ? 0 : batch.unlinked[j]};
      return {batch.order[j].hash, erases ? wal::kErases : wal::putting(record, plan.value_sum),
              old};
    } else {
      return erases ? wal::erase_entry(key, table.key_bytes)
                    : wal::put_entry(key, table.key_bytes, record, plan.value_sum);
    }
  }

  /// The slot's identity is still that of what was there.
  template <class W>
  PERDURE_FN Entry undoing(std::uint64_t j, Plan const& plan) const {
    if (!says(plan)) return {};
    std::byte const* const key = batch.keys.at(batch.order[j].index);
    Offset const was{batch.unlinked[j]};
    std::uint32_t const sum = was ? table.mirror.template value_sum<W>(plan.claim[0]) : 0;
    if constexpr (Ops::kHashed) {
      bool const erased = plan.change == Change::erase || mutated("undo_entry_without_old");
      return {batch.order[j].hash, was ? wal::putting(was, sum) : wal::kErases,
              erased ? Offset{} : gphash::word::record(plan.value)};
    } else {
      return was ? wal::put_entry(key, table.key_bytes, was, sum)
                 : wal::erase_entry(key, table.key_bytes);
    }
  }
};

/// Before phase two, where the pool is across a link: entries of more than 16 bytes, 32 positions
/// an item. Single threads would write each in parts that lie apart, every one a packet of its own.
template <class Ops, template <class> class Has = Held>
struct LogEntriesBody {
  static constexpr int kStages = 1;
  Has<WriteView> batch;
  Has<gphash::TableView> table;
  template <class W>
  struct State {};

  template <int kStage, class W, class M>
  PERDURE_FN void stage(W& warp, M& mem, std::uint64_t item, State<W>&, Counts& counts) const {
    using Entry = typename EntriesOf<Ops>::Entry;
    EntriesOf<Ops> const all{batch, table};
    std::uint64_t const first = item * kKeysPerItem;
    typename W::template Each<Entry> done, undone;
    typename W::template Each<std::uint64_t> sum;
    std::uint32_t const mask = warp.ballot([&](std::uint32_t lane) {
      std::uint64_t const j = first + lane;
      if (j >= batch.n) return false;
      Plan const plan = batch.plans[j];
      if (!all.writes(plan)) return false;
      done[lane] = all.doing(j, plan);
      sum[lane] = wal::sum_of(done[lane], batch.entries.cell_bytes);
      if (batch.undoable) undone[lane] = all.template undoing<W>(j, plan);
      return true;
    });
    std::uint32_t const said = warp.ballot(
        [&](std::uint32_t lane) { return (mask >> lane & 1) != 0 && done[lane].what != 0; });
    counts[BatchCounts::entries] += exec::popcount(said);
    for (std::uint32_t rest = said; rest != 0; rest &= rest - 1)
      counts[BatchCounts::entry_sum] += warp.broadcast(sum, exec::lowest_bit(rest));
    auto const cells_at = [&](std::uint64_t from) {
      return [this, from](std::uint32_t lane) { return batch.entries.cell(from + lane); };
    };
    wal::append_each(warp, mem, mask, batch.entries.cell_bytes, cells_at(first), done);
    if (batch.undoable)
      wal::append_each(warp, mem, mask, batch.entries.cell_bytes, cells_at(batch.n + first),
                       undone);
  }
};

/// Phase two: makes each group's change visible.
template <class Ops, template <class> class Has = Held>
struct PublishBody {
  static constexpr int kStages = 3;
  Has<WriteView> batch;
  Has<gphash::TableView> table;
  bool entries_apart = false;  // another launch wrote them
  std::uint64_t const* unless = nullptr;  // this is not 0: phase one has not ended
  template <class W>
  struct State {
    Plan plan;
  };

  template <int kStage, class W, class M>
  PERDURE_FN void stage(W& warp, M& mem, std::uint64_t j, State<W>& s, Counts& counts) const {
    if (unless != nullptr && *unless != 0) return;
    if constexpr (kStage == 0) s.plan = batch.plans[j];
    Plan const& plan = s.plan;
    if constexpr (Ops::kLogged && kStage == 0) {
      if (!entries_apart) EntriesOf<Ops>{batch, table}.log(warp, mem, j, plan, counts);
    }
    if (plan.change == Change::none) return;
    PERDURE_ASSERT(!kCostlyAssertions || batch.order[j].index < batch.n);
    if constexpr (kStage == 0) {
      if constexpr (!Ops::kLogged)
        mem.prefetch_to_write(warp, plan.target, 8);
      else if constexpr (W::kReadsBackCheaply)
        Ops::prefetch_mirror(warp, table, plan.claim[0]);
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
    KeyRef key{batch.keys.at(i), batch.keys.size(i), batch.order[j].hash};
    if constexpr (Ops::kHashed) {  // the keys of a batch that replays are pairs
      if (batch.replays) key.hash = pair_at(batch, i).hash;
    }
    [[maybe_unused]] Verdict const verdict = Ops::publish(warp, mem, table, key, plan);
    if constexpr (Ops::kPublishNeedsWarp) {
      if (verdict == Verdict::full) {
        retry(warp, j, key, counts);
      } else if (plan.change == Change::insert && batch.kinds != nullptr) {
        pm::RecordView const absent{};
        Group{batch, table.value_bytes, j, key, false, absent}.answer_new_gets(warp);
      }
    }
  }

  /// Layout `in_place` learns only here that there is no room: the whole group is pending again.
  template <class W>
  PERDURE_FN void retry(W& warp, std::uint64_t j, KeyRef const& key, Counts& counts) const {
    PERDURE_ASSERT(!kCostlyAssertions || batch.plans[j].change == Change::insert);
    gphash::note_refusal(warp, table, key.hash);
    ++counts[BatchCounts::pending];
    ++counts[BatchCounts::full];
    --counts[BatchCounts::inserted];
    --counts[BatchCounts::used];
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
