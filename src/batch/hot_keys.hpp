// Long runs of operations on one key within a write batch: the warp that has the group looks at 32
// of them at a time. So a hot key's thousands of operations cost a warp what some hundreds cost one
// lane. Invariant: the answers are those that step() gives one operation after the other
// (batch/groups.hpp).
#pragma once

#include <cstdint>

#include "base/hooks.hpp"
#include "batch/groups.hpp"
#include "exec/bits.hpp"

namespace perdure {

#if defined(PERDURE_EXPLORE)  // whose batches have nine operations
inline constexpr std::uint64_t kLongRun = 2;
inline constexpr std::uint32_t kRunPiece = 3;
#else
inline constexpr std::uint64_t kLongRun = 32;
inline constexpr std::uint32_t kRunPiece = 32;
#endif

/// Whether more than kLongRun operations have the hash of the one at j, which begins their run.
/// What computes (Rmw) goes operation by operation however many there are.
PERDURE_FN bool runs_long(BatchView const& batch, std::uint64_t j) {
  return batch.rmw == Rmw::replace && j + kLongRun < batch.n &&
         batch.order[j + kLongRun].hash == batch.order[j].hash;
}

/// Some operations of a run, side by side in `order`, a lane each. Sets of lanes are masks.
template <class W>
class RunPiece {
 public:
  /// Those from `base` on, of the group that begins at j; `before` is what it comes to without
  /// them.
  PERDURE_FN RunPiece(W& warp, BatchView const& batch, std::uint64_t j, std::uint64_t base,
                      KeyRef const& key, Folded const& before) {
    std::uint32_t const run = warp.ballot([&](std::uint32_t lane) {
      return lane < kRunPiece && base + lane < batch.n && batch.order[base + lane].hash == key.hash;
    });
    ends_ = exec::popcount(run) < kRunPiece;
    warp.each([&](std::uint32_t lane) {
      operation_[lane] = in(run, lane) ? batch.order[base + lane].index : 0;
    });
    std::uint32_t const pending = warp.ballot([&](std::uint32_t lane) {
      return in(run, lane) && (base + lane == j || batch.template pending<W>(operation_[lane]));
    });
    members_ = warp.ballot([&](std::uint32_t lane) {
      std::uint64_t const i = operation_[lane];
      return in(pending, lane) && batch.keys.size(i) == key.bytes &&
             (base + lane == j || same_bytes(batch.keys.at(i), key.data, key.bytes));
    });
    others_ = (pending & ~members_) != 0;
    auto const are = [&](OpKind kind) {
      return warp.ballot([&](std::uint32_t lane) {
        return in(members_, lane) && batch.kind_of(operation_[lane]) == kind;
      });
    };
    puts_ = are(OpKind::put);
    gets_ = are(OpKind::get);
    std::uint32_t const updates = are(OpKind::update);
    // puts and erasures say whether the key is there
    std::uint32_t const sets = members_ & ~gets_ & ~updates;
    live_ = warp.ballot([&](std::uint32_t lane) {
      std::uint32_t const earlier = sets & below(lane);
      bool const there = earlier == 0 ? before.present : in(puts_, exec::highest_bit(earlier));
      return in(members_, lane) && there;
    });
    writes_ = puts_ | (updates & live_);
    there_after_ = sets == 0 ? before.present : in(puts_, exec::highest_bit(sets));
    std::uint32_t const unwritten = writes_ == 0 ? ~0u : below(exec::lowest_bit(writes_));
    stored_gets_ = before.changed ? 0 : gets_ & live_ & unwritten;
  }

  [[nodiscard]] PERDURE_FN bool ends() const { return ends_; }
  [[nodiscard]] PERDURE_FN std::uint32_t members() const { return members_; }
  [[nodiscard]] PERDURE_FN std::uint64_t operation(std::uint32_t lane) const {
    return operation_[lane];
  }
  [[nodiscard]] PERDURE_FN KeyStatus status(std::uint32_t lane) const {
    return in(puts_ | live_, lane) ? KeyStatus::ok : KeyStatus::not_found;
  }
  /// Gets that are answered with the value that was there before the batch, and with one of the
  /// batch's.
  [[nodiscard]] PERDURE_FN std::uint32_t stored_gets() const { return stored_gets_; }
  [[nodiscard]] PERDURE_FN std::uint32_t fresh_gets() const {
    return gets_ & live_ & ~stored_gets_;
  }

  /// By lane: the last operation before it that wrote the value.
  [[nodiscard]] PERDURE_FN typename W::template Each<std::uint64_t> writers(
      W& warp, Folded const& before) const {
    typename W::template Each<std::uint32_t> from;
    warp.each([&](std::uint32_t lane) {
      std::uint32_t const earlier = writes_ & below(lane);
      from[lane] = earlier == 0 ? lane : exec::highest_bit(earlier);
    });
    auto writer = warp.shuffle(operation_, from);
    warp.each([&](std::uint32_t lane) {
      if ((writes_ & below(lane)) == 0) writer[lane] = before.writer;
    });
    return writer;
  }

  /// What the group comes to with these operations.
  PERDURE_FN void fold(W& warp, BatchView const& batch, Folded& folded) const {
    folded.gives |= stored_gets_ != 0;
    folded.others_wait |= others_;
    folded.present = there_after_;
    if (writes_ == 0 || (folded.changed && mutated("long_run_keeps_first_writer"))) return;
    folded.changed = true;
    folded.writer = warp.broadcast(operation_, exec::highest_bit(writes_));
    folded.bytes = batch.values.size(folded.writer);
  }

 private:
  PERDURE_FN static bool in(std::uint32_t mask, std::uint32_t lane) {
    return (mask >> lane & 1) != 0;
  }
  PERDURE_FN static std::uint32_t below(std::uint32_t lane) { return (1u << lane) - 1; }

  typename W::template Each<std::uint64_t> operation_;
  std::uint32_t members_, puts_, gets_, live_, writes_, stored_gets_;
  bool ends_, others_, there_after_;
};

/// Calls f(piece, what the group comes to before it) piece by piece; returns what it comes to.
template <class W, class F>
PERDURE_FN Folded for_pieces(W& warp, BatchView const& batch, std::uint64_t j, KeyRef const& key,
                             Folded folded, F f) {
  for (std::uint64_t base = j;; base += kRunPiece) {
    RunPiece<W> const piece(warp, batch, j, base, key, folded);
    f(piece, folded);
    piece.fold(warp, batch, folded);
    if (piece.ends()) return folded;
  }
}

}  // namespace perdure
