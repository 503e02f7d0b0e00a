// The body that writes an entry of the log for each key of the table, 32 slots an item: what stands
// further up in the log can go then. Entries lie side by side, in no order. Invariant: nobody
// changes the table meanwhile, and a key is in one slot.
#pragma once

#include <cstdint>

#include "base/assert.hpp"
#include "base/hooks.hpp"
#include "exec/bits.hpp"
#include "store/gphash/kernels/mirror_ops.hpp"
#include "wal/entries.hpp"

namespace perdure {

template <class Ops>
struct CopyEntriesBody {
  static constexpr int kStages = 1;
  gphash::TableView table;
  std::uint64_t slots = 0;
  wal::EntryRegion region;
  std::uint64_t* count = nullptr;  // machine memory

  template <class W>
  struct State {};

  template <int kStage, class W, class M>
  PERDURE_FN void stage(W& warp, M& mem, std::uint64_t item, State<W>&, Counts& counts) const {
    std::uint64_t const first = item * kKeysPerItem;
    typename W::template Each<wal::LogEntry> entry;
    std::uint32_t const mask = warp.ballot([&](std::uint32_t lane) {
      return first + lane < slots && entry_of<W>(first + lane, entry[lane]);
    });
    if (mask == 0) return;
    std::uint64_t const at = warp.elect([&] { return W::fetch_add(count, exec::popcount(mask)); });
    auto const cell = [&](std::uint32_t lane) {
      return region.cell(at + exec::popcount(mask & ((1u << lane) - 1)));
    };
    mem.store_pair_each(
        warp, mask, cell, [&](std::uint32_t lane) { return entry[lane].key; },
        [&](std::uint32_t lane) { return entry[lane].what; });
    counts[BatchCounts::entries] += exec::popcount(mask);
    counts[BatchCounts::entry_sum] += sum_of_all(warp, mask, entry);
  }

 private:
  template <class W>
  PERDURE_FN bool entry_of(std::uint64_t slot, wal::LogEntry& entry) const {
    std::uint64_t const word = W::load(table.mirror.words + slot);
    if (word == gphash::word::kEmpty) return false;
    entry = wal::put_entry(table.mirror.identity(slot), table.key_bytes, Ops::source(table, word),
                           table.mirror.template value_sum<W>(slot));
    return true;
  }

  template <class W>
  PERDURE_FN std::uint64_t sum_of_all(W& warp, std::uint32_t mask,
                                      typename W::template Each<wal::LogEntry> const& entry) const {
    std::uint64_t sum = 0;
    for (; mask != 0; mask &= mask - 1)
      sum += wal::sum_of(warp.broadcast(entry, exec::lowest_bit(mask)));
    return sum;
  }
};

}  // namespace perdure
