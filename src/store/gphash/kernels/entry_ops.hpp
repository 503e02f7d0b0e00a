// Bodies over the log of entries, and over the table that it comes to. One writes an entry for each
// key of the table, side by side, in no order: what stands further up in the log can go then. At an
// opening others make a batch of what cells of the log say, and mark the records that the table's
// words lead to. Invariant: nobody changes the table meanwhile, and a key is in one slot.
#pragma once

#include <cstdint>
#include <type_traits>

#include "base/assert.hpp"
#include "base/hooks.hpp"
#include "batch/call.hpp"
#include "exec/bits.hpp"
#include "index/gphash/slot_sums.hpp"
#include "pm/host_verbs.hpp"
#include "store/gphash/kernels/mirror_ops.hpp"
#include "store/gphash/kernels/record_map.hpp"
#include "wal/entries.hpp"

namespace perdure {

/// 32 slots an item.
template <class Ops>
struct CopyEntriesBody {
  static constexpr int kStages = 1;
  gphash::TableView table;
  std::uint64_t slots = 0;
  wal::EntryRegion region;
  std::uint64_t* count = nullptr;  // machine memory

  using Entry = std::conditional_t<Ops::kHashed, wal::NewHashEntry, wal::NewEntry>;
  template <class W>
  struct State {};

  template <int kStage, class W, class M>
  PERDURE_FN void stage(W& warp, M& mem, std::uint64_t item, State<W>&, Counts& counts) const {
    std::uint64_t const first = item * kKeysPerItem;
    typename W::template Each<Entry> entry;
    typename W::template Each<std::uint64_t> sum;
    std::uint32_t const mask = warp.ballot([&](std::uint32_t lane) {
      return first + lane < slots && entry_of<W>(first + lane, entry[lane], sum[lane]);
    });
    if (mask == 0) return;
    std::uint64_t const at = warp.elect([&] { return W::fetch_add(count, exec::popcount(mask)); });
    auto const cell = [&](std::uint32_t lane) {
      return region.cell(at + exec::popcount(mask & ((1u << lane) - 1)));
    };
    wal::append_each(warp, mem, mask, region.cell_bytes, cell, entry);
    counts[BatchCounts::entries] += exec::popcount(mask);
    for (std::uint32_t rest = mask; rest != 0; rest &= rest - 1)
      counts[BatchCounts::entry_sum] += warp.broadcast(sum, exec::lowest_bit(rest));
  }

 private:
  template <class W>
  PERDURE_FN bool entry_of(std::uint64_t slot, Entry& entry, std::uint64_t& sum) const {
    std::uint64_t const word = W::load(table.mirror.words + slot);
    if (word == gphash::word::kEmpty) return false;
    Offset const at = mutated("copied_entry_leads_to_cache") ? gphash::word::record(word)
                                                             : Ops::source(table, word);
    std::uint32_t const value_sum = table.mirror.template value_sum<W>(slot);
    if constexpr (Ops::kHashed)
      entry = {table.mirror.template hash<W>(slot), wal::putting(at, value_sum), Offset{}};
    else
      entry = wal::put_entry(table.mirror.identity(slot), table.key_bytes, at, value_sum);
    sum = wal::sum_of(entry, region.cell_bytes);
    return true;
  }
};

/// A batch that puts what cells of the log say into the table: an operation a cell, in their order.
struct ReplayView {
  static constexpr std::uint8_t kSaysNothing = 0;  // any status but kPending

  wal::EntryRegion region;
  std::uint64_t cells = 0;
  std::uint32_t key_bytes = 0;
  std::byte* keys = nullptr;
  std::uint8_t* kinds = nullptr;
  std::uint8_t* status = nullptr;
  std::uint64_t* said = nullptr;  // LogEntry::what
  bool takes_out = false;  // as CellsToReplay has it

  [[nodiscard]] PERDURE_FN std::uint64_t operation(std::uint64_t cell) const {
    return mutated("entries_replayed_backwards") ? cells - 1 - cell : cell;
  }
};

struct ReplayCellsBody {
  ReplayView to;
  std::byte const* base = nullptr;  // of the pool

  PERDURE_FN void operator()(std::uint64_t cell) const {
    std::byte const* const at = base + to.region.cell(cell).bytes;
    pm::will_read(at, to.region.cell_bytes);
    wal::LogEntry const entry = *reinterpret_cast<wal::LogEntry const*>(at);
    std::uint64_t const i = to.operation(cell);
    std::byte* const key = to.keys + i * to.key_bytes;
    constexpr std::uint32_t kFirst = sizeof entry.key;
    memcpy(key, &entry.key, to.key_bytes < kFirst ? to.key_bytes : kFirst);
    if (to.key_bytes > kFirst) memcpy(key + kFirst, at + sizeof entry, to.key_bytes - kFirst);
    bool const erases = to.takes_out || wal::says_erase(entry.what);
    to.kinds[i] = static_cast<std::uint8_t>(erases ? OpKind::erase : OpKind::put);
    to.said[i] = entry.what;
    to.status[i] = entry.what == 0 ? ReplayView::kSaysNothing : kPending;
  }
};

/// After it: cells of heads of extents, of which this is the first of each.
struct SkipHeadsBody {
  ReplayView to;
  std::uint32_t const* heads = nullptr;

  PERDURE_FN void operator()(std::uint64_t i) const {
    if (mutated("extent_head_replayed")) return;
    for (std::uint32_t c = 0; c < wal::head_cells_of(to.region.cell_bytes); ++c)
      to.status[to.operation(heads[i] + c)] = ReplayView::kSaysNothing;
  }
};

/// Marks records that are in use, 32 slots an item. Of a whole log no two words lead to one record,
/// and none leads elsewhere.
template <class Ops>
struct MarkRecordsBody {
  static constexpr int kStages = 2;
  gphash::TableView table;
  std::uint64_t slots = 0;
  RecordMap map;  // bits and leased superblocks

  template <class W>
  struct State {
    typename W::template Each<std::uint64_t> word;  // of bits
    typename W::template Each<std::uint32_t> bit;
    std::uint32_t records;  // lanes that have one
  };

  template <int kStage, class W, class M>
  PERDURE_FN void stage(W& warp, M&, std::uint64_t item, State<W>& s, Counts& counts) const {
    std::uint64_t const first = item * kKeysPerItem;
    if constexpr (kStage == 0) {
      typename W::template Each<std::uint64_t> mixed;
      std::uint32_t const used = warp.ballot([&](std::uint32_t lane) {
        return first + lane < slots && look<W>(first + lane, s, lane, mixed[lane]);
      });
      s.records = warp.ballot([&](std::uint32_t lane) { return s.bit[lane] != 0; });
      warp.each([&](std::uint32_t lane) {
        if ((s.records >> lane & 1) != 0) warp.prefetch_to_write(map.bits + s.word[lane], 4);
      });
      counts[BatchCounts::corrupt] += exec::popcount(used & ~s.records);
      counts[BatchCounts::entry_sum] += sum(warp, used, mixed);
    } else {
      std::uint32_t const again = warp.ballot([&](std::uint32_t lane) {
        return (s.records >> lane & 1) != 0 && !mutated("replayed_record_not_marked") &&
               (W::fetch_or(map.bits + s.word[lane], s.bit[lane]) & s.bit[lane]) != 0;
      });
      counts[BatchCounts::left] += exec::popcount(again);
      counts[BatchCounts::used] += exec::popcount(s.records & ~again);
    }
  }

 private:
  template <class W>
  PERDURE_FN bool look(std::uint64_t slot, State<W>& s, std::uint32_t lane,
                       std::uint64_t& mixed) const {
    s.bit[lane] = 0;
    std::uint64_t const word = W::load(table.mirror.words + slot);
    if (word == gphash::word::kEmpty) return false;
    mixed = gphash::slot_sums::mixed(word, Offset{});
    if (!map.locate(Ops::source(table, word).bytes, s.word[lane], s.bit[lane])) s.bit[lane] = 0;
    return true;
  }

  template <class W>
  PERDURE_FN std::uint64_t sum(W& warp, std::uint32_t mask,
                               typename W::template Each<std::uint64_t> const& mixed) const {
    std::uint64_t all = 0;
    for (; mask != 0; mask &= mask - 1) all += warp.broadcast(mixed, exec::lowest_bit(mask));
    return all;
  }
};

}  // namespace perdure
