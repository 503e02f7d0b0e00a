// The operations on one key within a write batch, whatever the index. A *group* is what of a run of
// equal hashes in `order` has one key, in array order: who begins a run, who belongs to a group,
// what a group comes to, and what each of its operations is answered. Long runs are looked at 32
// operations at a time, a lane each: so a hot key's thousands of operations cost a warp what some
// hundreds cost one lane. Invariants: what a group is depends on what was decided in earlier passes
// only, so warps may decide groups meanwhile; operations take effect in array order, and the
// answers are those that step() gives one after the other; nothing here touches the index or
// durable memory.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/annotate.hpp"
#include "base/assert.hpp"
#include "base/hash.hpp"
#include "base/hooks.hpp"
#include "batch/arithmetic.hpp"
#include "batch/key.hpp"
#include "batch/view.hpp"
#include "exec/bits.hpp"
#include "pm/record.hpp"

namespace perdure {

PERDURE_FN constexpr std::uint8_t code(KeyStatus status) {
  return static_cast<std::uint8_t>(status);
}

/// What a group comes to.
struct Folded {
  bool present;  // the key is there afterwards
  bool changed = false;  // its record is another one
  bool arithmetic = false;  // some update computed
  bool gives = false;  // a get is answered with the stored value
  // operations on another key have this hash: their turn comes in the next pass
  bool others_wait = false;
  std::uint32_t bytes;  // of the value afterwards
  std::uint64_t writer = 0;  // last operation that changed the value

  /// Of a group before its operations; `value_bytes` is 0 where the key is not there.
  PERDURE_FN Folded(bool there, std::uint32_t value_bytes) : present(there), bytes(value_bytes) {}
  Folded() = default;

  /// What the index must do.
  [[nodiscard]] PERDURE_FN Change change(bool was_there) const {
    if (!present) return was_there ? Change::erase : Change::none;
    if (!changed) return Change::none;
    return was_there ? Change::replace : Change::insert;
  }
};

/// One operation's effect, values aside; returns its status.
PERDURE_FN KeyStatus step(BatchView const& batch, Folded& folded, std::uint64_t i) {
  OpKind const kind = batch.kind_of(i);
  if (kind == OpKind::put) {
    folded.present = true;
  } else if (!folded.present) {
    return KeyStatus::not_found;
  } else if (kind == OpKind::get) {
    folded.gives |= !folded.changed;
    return KeyStatus::ok;
  } else if (kind == OpKind::erase) {
    folded.present = false;
    return KeyStatus::ok;
  } else if (batch.rmw != Rmw::replace) {
    if (batch.values.size(i) != folded.bytes) return KeyStatus::size_mismatch;
    folded.arithmetic = true;
  }
  folded.changed = true;
  folded.bytes = batch.values.size(i);
  folded.writer = i;
  return KeyStatus::ok;
}

/// The first pending operation of its run of equal hashes.
template <class W>
PERDURE_FN bool is_head(BatchView const& batch, std::uint64_t j) {
  if (!batch.template pending<W>(batch.order[j].index)) return false;
  if (mutated("group_split_over_warps")) return true;
  for (std::uint64_t k = j; k > 0 && batch.order[k - 1].hash == batch.order[j].hash; --k) {
    if (batch.template pending<W>(batch.order[k - 1].index)) return false;
  }
  return true;
}

/// Keys of equal length, by one lane.
PERDURE_FN bool same_bytes(std::byte const* a, std::byte const* b, std::uint32_t bytes) {
  for (std::uint32_t at = 0; at < bytes; at += 8)
    if (hash_detail::load_tail(a + at, bytes - at) != hash_detail::load_tail(b + at, bytes - at))
      return false;
  return true;
}

/// Calls f(operation) for each pending operation of the group that begins at j, by one lane, in
/// array order. True: pending operations on another key have this hash.
template <class W, class F>
PERDURE_FN bool for_group_lanewise(BatchView const& batch, std::uint64_t j, KeyRef const& key,
                                   F f) {
  bool others = false;
  for (std::uint64_t k = j; k < batch.n && batch.order[k].hash == key.hash; ++k) {
    std::uint64_t const i = batch.order[k].index;
    if (k > j) {
      if (!batch.template pending<W>(i)) continue;
      if (batch.keys.size(i) != key.bytes || !same_bytes(batch.keys.at(i), key.data, key.bytes)) {
        others = true;
        continue;
      }
    }
    f(i);
  }
  return others;
}

// ------------------------------------------------------------------------------------------------
// Long runs

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

// ------------------------------------------------------------------------------------------------
// A group's operations, by a warp

/// The group that begins at position j of `order`. `stored` is the record that the index has of its
/// key: looked at only where the key was there.
struct Group {
  using Counts = exec::Counts;

  BatchView const& batch;
  std::uint32_t value_bytes;  // of an element of `out`; 0 = sizes vary
  std::uint64_t j;
  KeyRef const& key;
  bool was_there;
  pm::RecordView const& stored;

  /// Before its operations.
  [[nodiscard]] PERDURE_FN Folded unchanged() const {
    return {was_there, was_there ? stored.header.value_bytes : 0};
  }

  /// Calls f(operation) for each pending operation on this key, in array order. True: pending
  /// operations on another key have this hash.
  template <class W, class F>
  PERDURE_FN bool for_each(W& warp, F f) const {
    bool others = false;
    for (std::uint64_t k = j; k < batch.n && batch.order[k].hash == key.hash; ++k) {
      std::uint64_t const i = batch.order[k].index;
      if (k > j) {
        if (!batch.template pending<W>(i)) continue;
        if (batch.keys.size(i) != key.bytes || !warp.equal(batch.keys.at(i), key.data, key.bytes)) {
          others = true;
          continue;
        }
      }
      f(i);
    }
    return others;
  }

  /// What the group comes to.
  template <class W>
  [[nodiscard]] PERDURE_FN Folded fold(W& warp) const {
    Folded folded = unchanged();
    if (runs_long(batch, j))
      return for_pieces(warp, batch, j, key, folded, [](auto const&, Folded const&) {});
    folded.others_wait = for_each(warp, [&](std::uint64_t i) { step(batch, folded, i); });
    return folded;
  }

  /// Statuses of the group, and, with `gets`, the values of its gets where no arithmetic is
  /// involved.
  template <class W>
  PERDURE_FN void answer(W& warp, Folded const& folded, bool gets, Counts& counts) const {
    if (runs_long(batch, j)) return answer_long(warp, folded, gets, counts);
    Folded walk = unchanged();
    for_each(warp, [&](std::uint64_t i) {
      bool const get = batch.kind_of(i) == OpKind::get;
      KeyStatus status = step(batch, walk, i);
      if (get && status == KeyStatus::ok) {
        bool const gives_stored = !walk.changed;
        if (gives_stored && batch.verify && !pm::intact(warp, stored)) {
          status = KeyStatus::corrupt;
          ++counts[BatchCounts::corrupt];
        } else if (gets && !folded.arithmetic) {
          give(warp, i, gives_stored ? stored.value : batch.values.at(walk.writer), walk.bytes);
        }
      }
      warp.elect([&] {
        batch.status[i] = code(status);
        W::store(batch.decided + i, batch.pass);
        return std::uint64_t{0};
      });
    });
  }

  /// The values of a new key's gets, once it has found room: a refused get leaves its output alone,
  /// and layout `in_place` learns only in phase two whether there is room.
  template <class W>
  PERDURE_FN void answer_new_gets(W& warp) const {
    PERDURE_ASSERT(!kCostlyAssertions || !was_there);
    Folded const folded = fold(warp);
    if (folded.arithmetic) return replay(warp, folded, nullptr, true);
    Folded walk = unchanged();
    for_each(warp, [&](std::uint64_t i) {
      KeyStatus const status = step(batch, walk, i);
      if (batch.kind_of(i) == OpKind::get && status == KeyStatus::ok)
        give(warp, i, batch.values.at(walk.writer), walk.bytes);
    });
  }

  /// The stored value is damaged and some operation would compute with it: leave everything alone.
  template <class W>
  PERDURE_FN void refuse(W& warp, Counts& counts) const {
    ++counts[BatchCounts::corrupt];
    counts[BatchCounts::pending] += for_each(warp, [&](std::uint64_t i) {
      warp.elect([&] {
        batch.status[i] = code(KeyStatus::corrupt);
        W::store(batch.decided + i, batch.pass);
        return std::uint64_t{0};
      });
    });
  }

  /// Arithmetic: each lane replays the whole group on its own elements, so the final value is
  /// written once however many operations there are. `value` is null when only the gets' answers
  /// are asked for, `gets` false when they are not.
  template <class W>
  PERDURE_FN void replay(W& warp, Folded const& folded, std::byte* value, bool gets) const {
    switch (batch.element) {
      case Element::u8: return replay_as<std::uint8_t>(warp, folded, value, gets);
      case Element::i32: return replay_as<std::int32_t>(warp, folded, value, gets);
      case Element::u32: return replay_as<std::uint32_t>(warp, folded, value, gets);
      case Element::i64: return replay_as<std::int64_t>(warp, folded, value, gets);
      case Element::u64: return replay_as<std::uint64_t>(warp, folded, value, gets);
      case Element::f32: return replay_as<float>(warp, folded, value, gets);
      case Element::f64: return replay_as<double>(warp, folded, value, gets);
    }
  }

 private:
  /// As answer(), a piece at a time; the stored record is checked once.
  template <class W>
  PERDURE_FN void answer_long(W& warp, Folded const& folded, bool gets, Counts& counts) const {
    bool const damaged = folded.gives && batch.verify && !pm::intact(warp, stored);
    std::uint32_t const stored_bytes = was_there ? stored.header.value_bytes : 0;
    for_pieces(warp, batch, j, key, unchanged(),
               [&](RunPiece<W> const& piece, Folded const& before) {
                 std::uint32_t const corrupt = damaged ? piece.stored_gets() : 0;
                 counts[BatchCounts::corrupt] += exec::popcount(corrupt);
                 if (gets) {
                   auto const to = [&](std::uint32_t lane) {
                     return batch.out + piece.operation(lane) * value_bytes;
                   };
                   warp.copy_each(
                       piece.stored_gets() & ~corrupt,
                       stored_bytes < value_bytes ? stored_bytes : value_bytes, to,
                       [&](std::uint32_t) { return stored.value; }, nullptr);
                   auto const writers = piece.writers(warp, before);
                   warp.copy_each(
                       piece.fresh_gets(), value_bytes, to,
                       [&](std::uint32_t lane) { return batch.values.at(writers[lane]); }, nullptr);
                 }
                 warp.each([&](std::uint32_t lane) {
                   if ((piece.members() >> lane & 1) == 0) return;
                   std::uint64_t const i = piece.operation(lane);
                   batch.status[i] =
                       code((corrupt >> lane & 1) != 0 ? KeyStatus::corrupt : piece.status(lane));
                   W::store(batch.decided + i, batch.pass);
                 });
               });
  }

  /// One get's value to its place in the output.
  template <class W>
  PERDURE_FN void give(W& warp, std::uint64_t i, std::byte const* value,
                       std::uint32_t bytes) const {
    PERDURE_ASSERT(!kCostlyAssertions || (batch.out != nullptr && i < batch.n));
    warp.copy(batch.out + i * value_bytes, value, bytes < value_bytes ? bytes : value_bytes);
  }

  template <class T, class W>
  PERDURE_FN void replay_as(W& warp, Folded const& folded, std::byte* value, bool gets) const {
    std::uint32_t longest = was_there ? stored.header.value_bytes : 0;
    for_each(warp, [&](std::uint64_t i) {
      if (batch.kind_of(i) == OpKind::put && batch.values.size(i) > longest)
        longest = batch.values.size(i);
    });
    warp.strided(longest / sizeof(T), [&](std::size_t e) {
      Folded walk = unchanged();
      T element{};
      if ((e + 1) * sizeof(T) <= walk.bytes) element = load_element<T>(stored.value, e);
      for_group_lanewise<W>(batch, j, key, [&](std::uint64_t i) {
        OpKind const kind = batch.kind_of(i);
        if (step(batch, walk, i) != KeyStatus::ok || (e + 1) * sizeof(T) > walk.bytes) return;
        if (kind == OpKind::put) element = load_element<T>(batch.values.at(i), e);
        if (kind == OpKind::update)
          element = combine<T>(batch.rmw, element, load_element<T>(batch.values.at(i), e));
        if (gets && kind == OpKind::get && (e + 1) * sizeof(T) <= value_bytes)
          store_element<T>(batch.out + i * value_bytes, e, element);
      });
      if (value != nullptr && (e + 1) * sizeof(T) <= folded.bytes)
        store_element<T>(value, e, element);
    });
    if (sizeof(T) > 1 && (value_bytes == 0 || value_bytes % sizeof(T) != 0))
      replay_tail(warp, folded, static_cast<std::uint32_t>(sizeof(T)), value, gets);
  }

  /// Trailing bytes that make no whole element: updates leave them, so they are those of the last
  /// put.
  template <class W>
  PERDURE_FN void replay_tail(W& warp, Folded const& folded, std::uint32_t element_bytes,
                              std::byte* value, bool gets) const {
    Folded walk = unchanged();
    std::byte const* last = was_there ? stored.value : nullptr;
    auto const copy_tail = [&](std::byte* to, std::uint32_t bytes) {
      std::uint32_t const whole = bytes - bytes % element_bytes;
      if (whole < bytes) warp.copy(to + whole, last + whole, bytes - whole);
    };
    for_each(warp, [&](std::uint64_t i) {
      OpKind const kind = batch.kind_of(i);
      if (step(batch, walk, i) != KeyStatus::ok) return;
      if (kind == OpKind::put) last = batch.values.at(i);
      if (gets && kind == OpKind::get && walk.bytes == value_bytes)
        copy_tail(batch.out + i * value_bytes, walk.bytes);
    });
    if (value != nullptr) copy_tail(value, folded.bytes);
  }
};

}  // namespace perdure
