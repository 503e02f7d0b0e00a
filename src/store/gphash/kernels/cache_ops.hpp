// Bodies that load the record cache: copies of whole records in the machine's own memory, which the
// mirror's words lead to (GPHash section 3.3, BktCache). What is in it is chosen by loads alone.
// Loading reads the pool in the order of its addresses. Gets may run meanwhile: a word is changed
// last, and either of its values leads to the record.
#pragma once

#include <cstdint>

#include "base/assert.hpp"
#include "store/gphash/kernels/batch_ops.hpp"
#include "store/gphash/kernels/mirror_ops.hpp"

namespace perdure {

/// Lists what a load may choose from, each below its score: what gets counted or stamped, or, where
/// they note nothing, something random.
template <class Members>
struct ListMembersBody {
  static constexpr int kStages = 1;
  Members members;  // which numbers below n are worth choosing, and where their uses are noted
  std::uint64_t* listed = nullptr;
  std::uint64_t* count = nullptr;
  std::uint64_t n = 0;
  bool counted = false;
  std::uint64_t seed = 0;
  template <class W>
  struct State {};

  template <int kStage, class W, class M>
  PERDURE_FN void stage(W& warp, M&, std::uint64_t item, State<W>&, Counts&) const {
    std::uint32_t const mask = warp.ballot([&](std::uint32_t lane) {
      std::uint64_t const member = item * kKeysPerItem + lane;
      return member < n && members.worth(member);
    });
    append_each(warp, mask, listed, count, [&](std::uint32_t lane) {
      std::uint64_t const member = item * kKeysPerItem + lane;
      PERDURE_ASSERT(!kCostlyAssertions || member >> 32 == 0);
      std::uint64_t const entry = score<W>(member) << 32 | member;
      // The next load goes by what is got from here on; stamps grow by themselves.
      if (counted) W::store(members.uses() + member, 0u);
      return entry;
    });
  }

 private:
  template <class W>
  PERDURE_FN std::uint64_t score(std::uint64_t member) const {
    return members.uses() == nullptr ? nth_hash(member + seed, 1) >> 32
                                     : W::load(members.uses() + member);
  }
};

/// Halves what is counted, 32 slots an item, so that keys that are no longer got give way to those
/// that are. Gets may count meanwhile: one that is lost changes no choice.
struct AgeUsesBody {
  static constexpr int kStages = 1;
  std::uint32_t* uses = nullptr;
  std::uint64_t n = 0;
  template <class W>
  struct State {};

  template <int kStage, class W, class M>
  PERDURE_FN void stage(W& warp, M&, std::uint64_t item, State<W>&, Counts&) const {
    warp.each([&](std::uint32_t lane) {
      std::uint64_t const slot = item * kKeysPerItem + lane;
      if (slot >= n) return;
      std::uint32_t const counted = W::load(uses + slot);
      if (counted != 0) W::store(uses + slot, counted / 2);
    });
  }
};

/// Of the record cache: slots that lead to a record.
struct SlotMembers {
  gphash::TableView table;
  PERDURE_FN std::uint32_t* uses() const { return table.mirror.uses; }
  PERDURE_FN bool worth(std::uint64_t slot) const {
    std::uint64_t const word = table.mirror.words[slot];
    return word != gphash::word::kEmpty && table.may_hold_all(gphash::word::record(word));
  }
};

/// Turns scores into places, so that a sort puts the chosen slots in the order of their records.
struct PlaceSlotsBody {
  gphash::TableView table;
  std::uint64_t* entries;
  std::uint64_t* slots;
  std::uint32_t shift;

  PERDURE_FN void operator()(std::uint64_t i) const {
    std::uint64_t const slot = Deferred::operation(entries[i]);
    PERDURE_ASSERT(!kCostlyAssertions || table.mirror.words[slot] != gphash::word::kEmpty);
    slots[i] = slot;
    entries[i] =
        gphash::word::record(table.mirror.words[slot]).bytes / pm::kRecordAlign >> shift << 32 | i;
  }
};

/// Copies 32 records an item into the cache, and points the mirror's words at those that are whole.
template <class Ops>
struct FillCacheBody {
  static constexpr int kStages = 1;
  gphash::TableView table;
  std::uint64_t const* chosen = nullptr;  // entries, whose operations are numbers of `slots`
  std::uint64_t const* slots = nullptr;
  std::uint64_t n = 0;
  std::byte* entries = nullptr;
  std::uint64_t* sources = nullptr;
  template <class W>
  struct State {};

  template <int kStage, class W, class M>
  PERDURE_FN void stage(W& warp, M& mem, std::uint64_t item, State<W>&, Counts& counts) const {
    typename W::template Each<std::uint64_t> slot;
    std::uint32_t const mask =
        warp.ballot([&](std::uint32_t lane) { return item * kKeysPerItem + lane < n; });
    warp.each([&](std::uint32_t lane) {
      if ((mask >> lane & 1) == 0) return;
      std::uint64_t const entry = item * kKeysPerItem + lane;
      slot[lane] = slots[Deferred::operation(chosen[entry])];
      PERDURE_ASSERT(!kCostlyAssertions ||
                     (table.mirror.words[slot[lane]] & gphash::Mirror::kCached) == 0);
      sources[entry] = table.mirror.words[slot[lane]] & gphash::word::kAddressMask;
    });
    auto const to = [&](std::uint32_t lane) {
      return entries + (item * kKeysPerItem + lane) * table.mirror.entry_bytes;
    };
    auto const source = [&](std::uint32_t lane) {
      return gphash::word::record(table.mirror.words[slot[lane]]);
    };
    auto const from = [&](std::uint32_t lane) { return mem.peek(source(lane)); };
    mem.read_each(mask);
    typename W::template Each<std::uint32_t> sums;  // of values, where there is nothing else
    if (pm::RecordShape const& records = table.records; records.bare()) {
      warp.copy_each(mask, table.value_bytes, to, from, &sums);
    } else if (records.split()) {
      warp.copy_each(mask, records.value_stride, to, from, nullptr);
      auto const head_to = [&](std::uint32_t lane) { return to(lane) + records.value_stride; };
      auto const head_from = [&](std::uint32_t lane) {
        return mem.peek(records.head(source(lane)));
      };
      warp.copy_each(mask, records.head_stride, head_to, head_from, nullptr);
    } else {
      warp.copy_each(mask, (table.max_record + 15) / 16 * 16, to, from, nullptr);
    }
    auto const same_sum = [&](std::uint32_t lane) {
      return (mask >> lane & 1) != 0 &&
             Ops::kept_sum(sums[lane]) == table.mirror.template value_sum<W>(slot[lane]);
    };
    std::uint32_t const whole =
        table.records.bare() ? warp.ballot(same_sum) : whole_entries(warp, mask, to);
    counts[BatchCounts::corrupt] += exec::popcount(mask & ~whole);
    warp.fence();  // the entry before the word that leads there
    warp.each([&](std::uint32_t lane) {
      if ((whole >> lane & 1) == 0) return;
      std::uint64_t& word = table.mirror.words[slot[lane]];
      W::store(&word, (word & ~gphash::word::kAddressMask) | gphash::Mirror::kCached |
                          (item * kKeysPerItem + lane));
    });
  }

 private:
  template <class W, class To>
  PERDURE_FN std::uint32_t whole_entries(W& warp, std::uint32_t mask, To const& to) const {
    std::uint32_t whole = 0;
    for (std::uint32_t rest = mask; rest != 0; rest &= rest - 1) {
      std::uint32_t const lane = exec::lowest_bit(rest);
      pm::RecordView const record = table.entry(to(lane));
      bool const fits = record.header.key_bytes == table.key_bytes &&
                        record.header.value_bytes == table.value_bytes;
      if (fits && pm::intact(warp, record)) whole |= 1u << lane;
    }
    return whole;
  }
};

/// Between the phases of a batch: entries whose records it replaces become copies of the new ones,
/// so that they stay in the cache (WordOps::reflect). Until phase two the slots' words lead to the
/// old ones; where that does not come, a refresh finds entries that lead elsewhere than their
/// slots, and lets them go. No get runs.
template <class Ops, template <class> class Has = Held>
struct FollowChangesBody {
  static constexpr int kStages = 1;
  static constexpr std::uint32_t kKeys = kKeysPerItem;
  Has<WriteView> batch;
  Has<gphash::TableView> table;
  template <class W>
  struct State {};

  template <int kStage, class W, class M>
  PERDURE_FN void stage(W& warp, M&, std::uint64_t item, State<W>&, Counts&) const {
    typename W::template Each<std::uint64_t> entry;
    std::uint32_t const mask = warp.ballot([&](std::uint32_t lane) {
      std::uint64_t const j = item * kKeysPerItem + lane;
      return j < batch.n && is_cached<W>(batch.plans[j], entry[lane]);
    });
    if (mask == 0) return;
    if (!mutated("cache_keeps_old_value")) write_entries(warp, mask, item, entry);
    warp.each([&](std::uint32_t lane) {
      if ((mask >> lane & 1) == 0) return;
      table.mirror.sources[entry[lane]] =
          batch.plans[item * kKeysPerItem + lane].value & gphash::word::kAddressMask;
    });
  }

 private:
  template <class W>
  PERDURE_FN bool is_cached(Plan const& plan, std::uint64_t& entry) const {
    if (plan.change != Change::replace || plan.writer == Plan::kNoWriter) return false;
    std::uint64_t const word = W::load(table.mirror.words + plan.claim[0]);
    entry = word & gphash::Mirror::kEntryMask;
    return (word & gphash::Mirror::kCached) != 0;
  }

  template <class W>
  PERDURE_FN void write_entries(W& warp, std::uint32_t mask, std::uint64_t item,
                                typename W::template Each<std::uint64_t> const& entry) const {
    pm::RecordShape const& records = table.records;
    typename W::template Each<pm::RecordParts> parts;
    warp.each([&](std::uint32_t lane) {
      if ((mask >> lane & 1) == 0) return;
      std::uint64_t const j = item * kKeysPerItem + lane;
      std::byte* const to = table.mirror.entries + entry[lane] * table.mirror.entry_bytes;
      bool const has_head = records.split() && !records.bare();
      parts[lane] = {{to, has_head ? to + records.value_stride : nullptr, records.bare()},
                     batch.keys.at(batch.order[j].index),
                     batch.values.at(batch.plans[j].writer)};
    });
    pm::RecordHeader const header{0, table.value_bytes, table.key_bytes, 0, batch.sequence};
    typename W::template Each<std::uint32_t> sums;
    pm::write_each(warp, mask, 0, records, header, parts, sums);
  }
};

/// The mirror's words lead to PM again. No get runs.
template <class Ops>
struct EmptyCacheBody {
  gphash::TableView table;
  PERDURE_FN void operator()(std::uint64_t slot) const {
    table.mirror.words[slot] = Ops::on_pm(table, table.mirror.words[slot]);
  }
};

}  // namespace perdure
