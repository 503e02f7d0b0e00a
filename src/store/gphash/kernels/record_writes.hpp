// Records of puts whose addresses are known before anything is planned, 32 an item: so that a
// machine that has the values writes them, while another plans with what they came to. Invariant:
// nothing leads to the records yet.
#pragma once

#include <cstdint>

#include "base/assert.hpp"
#include "exec/counts.hpp"
#include "pm/record.hpp"
#include "store/gphash/kernels/mirror_ops.hpp"

namespace perdure {

/// Records of n operations, all with the header's sizes and sequence.
struct RecordWrites {
  exec::ByteColumn keys, values;
  std::uint64_t const* reserved = nullptr;  // by operation: where its record goes
  std::uint32_t* sums = nullptr;  // and what its value's CRC-32C turns out to be
  std::uint64_t n = 0;
  pm::RecordHeader header;
  pm::RecordShape shape;
  std::uint64_t reach = 0;  // RecordShape::reach()
};

struct WriteRecordsBody {
  static constexpr int kStages = 1;
  static constexpr std::uint32_t kKeys = kKeysPerItem;
  RecordWrites writes;

  template <class W>
  struct State {};

  template <int kStage, class W, class M>
  PERDURE_FN void stage(W& warp, M& mem, std::uint64_t item, State<W>&, exec::Counts&) const {
    std::uint64_t const first = item * kKeysPerItem;
    PERDURE_ASSERT(!kCostlyAssertions || first < writes.n);
    typename W::template Each<pm::RecordParts> parts;
    typename W::template Each<std::uint32_t> sums;
    warp.each([&](std::uint32_t lane) {
      std::uint64_t const i = first + lane;
      if (i >= writes.n) return;
      parts[lane] = {pm::address_at(mem.address(Offset{0}), writes.shape, record(i)),
                     writes.keys.at(i), writes.values.at(i)};
    });
    std::uint32_t const mask =
        warp.ballot([&](std::uint32_t lane) { return first + lane < writes.n; });
    std::uint32_t const streaming = warp.ballot([&](std::uint32_t lane) {
      std::uint64_t const next = first + lane + 1;
      return next < writes.n && record(next).bytes - record(next - 1).bytes <= writes.reach;
    });
    mem.write_each(mask);
    pm::write_each(warp, mask, streaming, writes.shape, writes.header, parts, sums);
    warp.each([&](std::uint32_t lane) {
      if (first + lane < writes.n) writes.sums[first + lane] = sums[lane];
    });
  }

 private:
  PERDURE_FN Offset record(std::uint64_t i) const { return Offset{writes.reserved[i]}; }
};

}  // namespace perdure
