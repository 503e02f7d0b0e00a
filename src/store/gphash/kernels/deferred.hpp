// Gets that are put aside, so that their values are fetched in the order of their addresses: an
// entry each. Invariant: what is no entry sorts behind all that are.
#pragma once

#include <cstdint>

#include "base/annotate.hpp"
#include "base/offset.hpp"
#include "pm/pool_format.hpp"

namespace perdure {

/// Keys (or slots, or entries) that a warp takes at a time, one a lane.
inline constexpr std::uint32_t kKeysPerItem = 32;

PERDURE_FN constexpr std::uint64_t items_of(std::uint64_t n) {
  return (n + kKeysPerItem - 1) / kKeysPerItem;
}

/// Gets put aside: place on PM (in units of 16 bytes << shift) above, operation below. Those from
/// place `pivot` on go to a list of their own.
struct Deferred {
  std::uint64_t* entries = nullptr;  // null: nothing is put aside
  std::uint64_t* count = nullptr;    // two: of those below the pivot, of the others
  std::uint64_t* values = nullptr;  // by operation: see value()
  std::uint32_t shift = 0;
  std::uint64_t pivot = ~std::uint64_t{0};
  std::uint64_t* upper = nullptr;
  std::uint32_t* sums = nullptr;  // checksums of the values, by operation; null: nobody asks
  std::uint64_t* copied = nullptr;  // how many values were not put aside; null: nobody asks
  // Of few gets: `entries` has one for each operation, and so has this, which the host reads; what
  // is none says so, and nothing is counted.
  std::uint64_t* told = nullptr;
  // Of a batch of writes: `entries` has one for each of its positions, or kNone, and so has this:
  // the operation whose value a get is answered with.
  std::uint64_t* fresh = nullptr;
  static constexpr std::uint64_t kNone = ~std::uint64_t{0};
  static constexpr std::uint64_t kCopied = kNone - 1;  // the value has been copied already

  PERDURE_FN static bool is_entry(std::uint64_t entry) { return entry < kCopied; }
  PERDURE_FN static std::uint64_t entry(Offset at, std::uint32_t shift, std::uint64_t operation) {
    return (at.bytes / pm::kRecordAlign >> shift) << 32 | operation;
  }
  /// The rest of what a get knows of its value, so that no slot is looked at again, which a write
  /// may have changed: the lower half of its record's address, and its checksum.
  PERDURE_FN static std::uint64_t value(Offset at, std::uint32_t sum) {
    return std::uint64_t{sum} << 32 | (at.bytes / pm::kRecordAlign & 0xffffffffu);
  }
  PERDURE_FN static std::uint32_t sum(std::uint64_t value) {
    return static_cast<std::uint32_t>(value >> 32);
  }
  /// Of a get's record.
  PERDURE_FN Offset at(std::uint64_t entry, std::uint64_t value) const {
    std::uint64_t const high = (address(entry) << shift) >> 32;
    return Offset{(high << 32 | (value & 0xffffffffu)) * pm::kRecordAlign};
  }
  PERDURE_FN static std::uint64_t operation(std::uint64_t entry) { return entry & 0xffffffffu; }
  PERDURE_FN static std::uint64_t address(std::uint64_t entry) { return entry >> 32; }
};

}  // namespace perdure
