// A table as the kernels of a device session see it, and what they count there. Invariant: all of
// it is plain data that travels as a kernel's argument, and leads to machine memory and the pool
// alone.
#pragma once

#include <cstddef>
#include <cstdint>

#include "index/gphash/layout.hpp"
#include "store/gphash/kernels/record_map.hpp"
#include "wal/entries.hpp"

namespace perdure {

inline constexpr std::uint32_t kKeyLocks = 1u << 16;

/// What warps count during a session, in machine memory.
struct DeviceTotals {
  std::uint64_t taken;  // of the session's free records; more than there are once they are used up
  std::uint64_t inserted;
  std::uint64_t erased;
  std::uint64_t cells;  // taken, of the session's extent
  std::uint64_t erases;  // begun, of those that it may do; more once they are used up
};

/// A table as kernels see it; plain data that travels as a kernel's argument.
struct DeviceView {
  gphash::TableView table;
  RecordMap records;
  std::byte* base = nullptr;
  std::uint64_t const* fresh = nullptr;  // free records, taken for this session
  std::uint64_t fresh_count = 0;
  std::uint32_t* unlinked = nullptr;  // as RecordMap::bits: records that no slot leads to any more
  std::uint32_t* locks = nullptr;  // a bit each
  DeviceTotals* totals = nullptr;
  std::uint64_t sequence = 0;  // written into every record
  bool verify = true;  // check records' checksums before using their values
  std::uint64_t erase_count = ~std::uint64_t{0};  // that this session may do
  wal::EntryRegion entries;  // layout `log`: the session's cells; else it has no segments

  [[nodiscard]] PERDURE_FN bool logged() const { return entries.segments != nullptr; }
};

}  // namespace perdure
