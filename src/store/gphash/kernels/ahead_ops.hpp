// The body that writes the records of a batch before anything is known of its keys, 32 operations
// an item. In array order values are read, and records written, as they lie. Across a link, which
// records keep busy for most of a batch, that happens beside the kernels which find out what
// becomes of each operation. Invariant: every operation has a reservation of its own, and none of
// them leads anywhere yet; what turns out to need no record gives its back.
#pragma once

#include <cstdint>

#include "base/assert.hpp"
#include "exec/bits.hpp"
#include "pm/record.hpp"
#include "store/gphash/kernels/batch_ops.hpp"
#include "store/gphash/kernels/mirror_ops.hpp"

namespace perdure {

/// The sums of values that pm::write_each() would give; nothing is written.
template <class W>
PERDURE_FN void sum_values(W& warp, std::uint32_t mask, std::uint32_t value_bytes,
                           typename W::template Each<pm::RecordParts> const& parts,
                           typename W::template Each<std::uint32_t>& sums) {
  if constexpr (W::kJoinsEach) {
    warp.sum_each(mask, value_bytes, [&](std::uint32_t lane) { return parts[lane].value; }, sums);
  } else {
    for (; mask != 0; mask &= mask - 1) {
      std::uint32_t const lane = exec::lowest_bit(mask);
      std::uint32_t const sum = warp.crc32c(0, warp.broadcast(parts, lane).value, value_bytes);
      warp.each([&](std::uint32_t each) {
        if (each == lane) sums[each] = sum;
      });
    }
  }
}

struct WriteAheadBody {
  static constexpr int kStages = 1;
  // Of a GPU's multiprocessor: these keep the link as busy as twice as many.
  static constexpr unsigned kBlocks = 2;
  WriteView batch;
  gphash::TableView table;

  template <class W>
  struct State {};

  template <int kStage, class W, class M>
  PERDURE_FN void stage(W& warp, M& mem, std::uint64_t item, State<W>&, Counts&) const {
    std::uint64_t const first = item * kKeysPerItem;
    PERDURE_ASSERT(!kCostlyAssertions || (batch.ahead && !batch.any_fits));
    std::uint32_t const mask =
        warp.ballot([&](std::uint32_t lane) { return first + lane < batch.n; });
    typename W::template Each<pm::RecordParts> parts;
    warp.each([&](std::uint32_t lane) {
      if ((mask >> lane & 1) == 0) return;
      std::uint64_t const i = first + lane;
      PERDURE_ASSERT(!kCostlyAssertions || batch.reserved[i] != 0);
      parts[lane] = {
          pm::address_at(mem.address(Offset{0}), table.records, Offset{batch.reserved[i]}),
          batch.keys.at(i), batch.values.at(i)};
    });
    mem.write_each(mask);
    typename W::template Each<std::uint32_t> sums;
    pm::RecordHeader const header{0, table.value_bytes, table.key_bytes, 0, batch.sequence};
    pm::write_each(warp, mask, table.records.split(), header, parts, sums);
  }
};

}  // namespace perdure
