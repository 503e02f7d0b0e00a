// The Memory concept: the only way to durable bytes. Index and store code names places by Offset
// and goes through these verbs, so every access can be counted here (and, later, recorded or cut
// short).
//
// One *access* is one bucket row or one record, whatever its bytes: that is what a spread-out GPU
// access to host memory costs. Ordering between a batch's two phases is the launcher's order();
// order() here is the one inside an operation, which only layout `in_place` needs.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/annotate.hpp"
#include "base/assert.hpp"
#include "base/hooks.hpp"
#include "base/offset.hpp"
#include "exec/bits.hpp"

namespace perdure::pm {

/// Of one warp in one launch, or of one chunk of it, so 32 bits are enough: a GPU keeps them in
/// registers.
struct Tally {
  std::uint32_t reads = 0;
  std::uint32_t writes = 0;
  std::uint32_t orders = 0;
};

class Memory {
 public:
  Memory() = default;
  explicit Memory(std::byte* base) : base_(base) {}

  /// Bucket rows into lanes: lane g*slots+s is word s of the row at row_of(g).
  template <class W, class RowOf>
  PERDURE_FN auto rows(W& warp, std::uint32_t groups, std::uint32_t slots, RowOf row_of) {
    tally_.reads += groups;
    return warp.rows(groups, slots, [&](std::uint32_t g) { return word(row_of(g)); });
  }

  /// The same where near(g) may know a copy of the row in the machine's own memory, or null: those
  /// are no access.
  template <class W, class RowOf, class Near>
  PERDURE_FN auto rows_or_copies(W& warp, std::uint32_t groups, std::uint32_t slots, RowOf row_of,
                                 Near near) {
    for (std::uint32_t g = 0; g < groups; ++g) tally_.reads += near(g) == nullptr;
    return warp.rows(groups, slots, [&](std::uint32_t g) {
      std::uint64_t const* const copy = near(g);
      return copy != nullptr ? copy : word(row_of(g));
    });
  }

  /// One bucket row for a thread by itself.
  template <std::uint32_t kSlots, class W>
  PERDURE_FN auto row(W& warp, Offset at) {
    ++tally_.reads;
    return warp.template row<kSlots>(word(at));
  }

  template <class W>
  PERDURE_FN void prefetch(W& warp, Offset at, std::size_t bytes) const {
    warp.prefetch(base_ + at.bytes, bytes);
  }

  template <class W>
  PERDURE_FN void prefetch_to_write(W& warp, Offset at, std::size_t bytes) const {
    warp.prefetch_to_write(base_ + at.bytes, bytes);
  }

  template <class W>
  PERDURE_FN std::uint64_t load(W& warp, Offset at) {
    ++tally_.reads;
    return warp.elect([&] { return W::load(word(at)); });
  }

  /// Publishes one 8-byte word.
  template <class W>
  PERDURE_FN void store(W& warp, Offset at, std::uint64_t value) {
    ++tally_.writes;
    warp.elect([&] {
      W::store(word(at), value);
      fault::passes(fault::TrapPoint::word);
      return std::uint64_t{0};
    });
  }

  /// Two words side by side, as one access. A crash may leave one of them.
  template <class W>
  PERDURE_FN void store_pair(W& warp, Offset at, std::uint64_t first, std::uint64_t second) {
    ++tally_.writes;
    warp.elect([&] {
      W::store_pair(word(at), first, second);
      fault::passes(fault::TrapPoint::word);
      return std::uint64_t{0};
    });
  }

  /// For each lane of the mask an even number of words, to where its run says (`to`, a multiple of
  /// 16); word(run, w) is the w-th. A GPU's lanes write runs that lie side by side as one.
  template <class W, class Runs, class Word>
  PERDURE_FN void store_runs(W& warp, std::uint32_t mask, Runs const& runs, std::uint32_t words,
                             Word word) {
    PERDURE_ASSERT(!kCostlyAssertions || words % 2 == 0);
    tally_.writes += exec::popcount(mask);
    if (mask != 0) fault::warp_passes(fault::TrapPoint::word);
    if constexpr (W::kJoinsEach) return warp.join_each(mask, runs, words, word);
    warp.each([&](std::uint32_t lane) {
      if ((mask >> lane & 1) == 0) return;
      auto const& run = runs[lane];
      auto* const to = reinterpret_cast<std::uint64_t*>(run.to);
      for (std::uint32_t w = 0; w < words; w += 2)
        W::store_pair(to + w, word(run, w), word(run, w + 1));
    });
  }

  /// Publishes a word for each lane of the mask, at(lane).
  template <class W, class At, class Value>
  PERDURE_FN void store_each(W& warp, std::uint32_t mask, At at, Value value) {
    tally_.writes += exec::popcount(mask);
    warp.each([&](std::uint32_t lane) {
      if ((mask >> lane & 1) == 0) return;
      W::store(word(at(lane)), value(lane));
      fault::passes(fault::TrapPoint::word);
    });
  }

  /// Publishes 4 bytes of a row that `lane` shares with its neighbours; a row counts as one access.
  template <class W>
  PERDURE_FN void store_cell(W& warp, Offset at, std::uint32_t value, std::uint64_t lane) {
    tally_.writes += lane == 0;
    warp.elect([&] {
      W::store_cell(reinterpret_cast<std::uint32_t*>(base_ + at.bytes), value);
      return std::uint64_t{0};
    });
  }

  /// Returns the word found; the swap happened if that is `expected`.
  template <class W>
  PERDURE_FN std::uint64_t cas(W& warp, Offset at, std::uint64_t expected, std::uint64_t desired) {
    ++tally_.writes;
    return warp.elect([&] {
      std::uint64_t const before = W::cas(word(at), expected, desired);
      fault::passes(fault::TrapPoint::word);
      return before;
    });
  }

  /// Bytes for reading, as one access; the caller stays inside one record (or one inline key).
  PERDURE_FN std::byte const* read(Offset at) {
    ++tally_.reads;
    return base_ + at.bytes;
  }

  /// As read(), for bytes that are counted by read_each(), or that nobody reads.
  PERDURE_FN std::byte const* peek(Offset at) const { return base_ + at.bytes; }
  /// An access for each lane of the mask.
  PERDURE_FN void read_each(std::uint32_t mask) { tally_.reads += exec::popcount(mask); }

  /// Bytes for writing, as one access; nobody reads them before a word that leads there is stored.
  PERDURE_FN std::byte* write(Offset at) {
    PERDURE_ASSERT(!kCostlyAssertions || at.bytes > 0);  // the pool's head is nobody's record
    ++tally_.writes;
    fault::warp_passes(fault::TrapPoint::record);
    return base_ + at.bytes;
  }

  /// As write(), of places that write_each() counts.
  PERDURE_FN std::byte* address(Offset at) const { return base_ + at.bytes; }
  /// An access for each lane of the mask.
  PERDURE_FN void write_each(std::uint32_t mask) {
    tally_.writes += exec::popcount(mask);
    if (mask != 0) fault::warp_passes(fault::TrapPoint::record);
  }

  template <class W>
  PERDURE_FN void order(W& warp) {
    ++tally_.orders;
    fault::warp_passes(fault::TrapPoint::ordering);
    warp.fence();
  }

  PERDURE_FN Tally const& tally() const { return tally_; }

 private:
  PERDURE_FN std::uint64_t* word(Offset at) const {
    PERDURE_ASSERT(!kCostlyAssertions || at.bytes % sizeof(std::uint64_t) == 0);
    return reinterpret_cast<std::uint64_t*>(base_ + at.bytes);
  }

  std::byte* base_ = nullptr;
  Tally tally_;
};

}  // namespace perdure::pm
