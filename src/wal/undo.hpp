// The undo log of a transaction, as kernels write it: for each slot word that phase two will
// overwrite, what stands there. Laid out as libGPM's hierarchical coalesced log (GPM section 5.2):
// tiles of 32 entries, a row of 32 lanes x 4 bytes for each word of an entry, so that 32 operations
// side by side fill whole lines, each at an offset of its own and without a lock.
//
//   tile t:  row 0: slot, low half, of entries 32t .. 32t+31 (128 bytes) row 1: slot, high half row
//            4, 5: transaction row 2, 3: old word row 6: step row 7: check
//
// Invariants: an entry is ordered before the word it describes is overwritten; it counts if its
// check matches and its transaction is the one after the pool's epoch; of two entries for one slot
// the one of the lower step holds the older word.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "base/annotate.hpp"
#include "base/assert.hpp"
#include "base/hash.hpp"
#include "base/hooks.hpp"
#include "base/offset.hpp"
#include "pm/memory.hpp"

namespace perdure::wal {

struct UndoEntry {  // rows
  std::uint64_t slot;  // 0, 1  byte offset of the slot word in the pool
  std::uint64_t old;  // 2, 3  what stood there
  std::uint64_t transaction;  // 4, 5
  std::uint32_t step;  // 6     counts rounds of a transaction
  std::uint32_t check;  // 7     low half of hash_bytes() of the 28 bytes before it
};
static_assert(sizeof(UndoEntry) == 32 && offsetof(UndoEntry, slot) == 0 &&
              offsetof(UndoEntry, old) == 8 && offsetof(UndoEntry, transaction) == 16 &&
              offsetof(UndoEntry, step) == 24 && offsetof(UndoEntry, check) == 28);
static_assert(std::has_unique_object_representations_v<UndoEntry>);

inline constexpr std::uint64_t kUndoLanes = 32;
inline constexpr std::uint64_t kUndoRows = sizeof(UndoEntry) / 4;
inline constexpr std::uint64_t kUndoRowBytes = kUndoLanes * 4;

/// Where one round's entries go: operation j's is number first + j.
struct UndoRegion {
  Offset base;
  std::uint64_t first = 0;
  std::uint64_t transaction = 0;
  std::uint32_t step = 0;
};

PERDURE_FN Offset undo_cell(Offset base, std::uint64_t entry, std::uint64_t row) {
  return base + (entry / kUndoLanes * kUndoRows + row) * kUndoRowBytes + entry % kUndoLanes * 4;
}

PERDURE_FN std::uint32_t undo_check(UndoEntry const& entry) {
  std::byte bytes[sizeof entry];
  memcpy(bytes, &entry, sizeof entry);
  return static_cast<std::uint32_t>(hash_bytes(bytes, sizeof entry - sizeof entry.check));
}

PERDURE_FN UndoEntry undo_entry(UndoRegion const& region, Offset slot, std::uint64_t old) {
  PERDURE_ASSERT(!kCostlyAssertions || slot.bytes % sizeof old == 0);
  UndoEntry entry{slot.bytes, old, region.transaction, region.step, 0};
  entry.check = undo_check(entry);
  return entry;
}

/// Writes entry number region.first + j. Ordered by whoever launches this, before phase two.
template <class W, class M>
PERDURE_FN void append_undo(W& warp, M& mem, UndoRegion const& region, std::uint64_t j,
                            UndoEntry const& entry) {
  PERDURE_ASSERT(!kCostlyAssertions || (region.step > 0 && region.base.bytes > 0));
  std::uint32_t words[kUndoRows];
  memcpy(words, &entry, sizeof entry);
  std::uint64_t const number = region.first + j;
  for (std::uint32_t row = 0; row < kUndoRows; ++row)
    mem.store_cell(warp, undo_cell(region.base, number, row), words[row], number % kUndoLanes);
}

}  // namespace perdure::wal
