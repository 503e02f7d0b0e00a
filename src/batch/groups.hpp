// The operations on one key within a write batch, whatever the index. A *group* is what of a run of
// equal hashes in `order` has one key, in array order: who begins a run, who belongs to a group,
// what a group comes to, and what each of its operations is answered; long runs are in runs.hpp.
// Invariants: what a group is depends on what was decided in earlier passes
// only, so warps may decide groups meanwhile; operations take effect in array order, and the
// answers are those that step() gives one after the other; nothing here touches the index or
// durable memory.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/annotate.hpp"
#include "base/assert.hpp"
#include "base/hooks.hpp"
#include "batch/arithmetic.hpp"
#include "batch/key.hpp"
#include "batch/runs.hpp"
#include "batch/view.hpp"
#include "exec/bits.hpp"
#include "pm/record.hpp"

namespace perdure {

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
      return for_pieces(
          warp, batch, j, key, folded, [](auto const&, std::uint64_t, Folded const&) {},
          [](std::uint64_t, auto const&, std::uint32_t) {});
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
  /// As answer(), a piece at a time; the stored record is checked once. Of a large batch the pieces
  /// are listed, and AnswerPiecesBody answers them side by side.
  template <class W>
  PERDURE_FN void answer_long(W& warp, Folded const& folded, bool gets, Counts& counts) const {
    PieceToAnswer each{.j = j, .base = j, .before = unchanged(), .gets = gets};
    each.damaged = folded.gives && batch.verify && !pm::intact(warp, stored);
    each.stored = was_there ? stored.value : nullptr;
    each.stored_bytes = was_there ? stored.header.value_bytes : 0;
    std::uint64_t at = 0;
    if (batch.pieces != nullptr)
      at = warp.elect(
          [&] { return W::fetch_add(batch.pieces_count, std::uint64_t{folded.pieces}); });
    auto const list = [&](std::uint64_t where, std::uint64_t base, Folded const& before) {
      PieceToAnswer listed = each;
      listed.base = base;
      listed.before = mutated("pieces_know_last_writer") ? folded : before;
      batch.pieces[where] = listed;
    };
    for_pieces(
        warp, batch, j, key, unchanged(),
        [&](RunPiece<W> const& piece, std::uint64_t base, Folded const& before) {
          if (batch.pieces == nullptr)
            return answer_piece(warp, batch, value_bytes, piece, before, each, counts);
          warp.elect([&] {
            list(at, base, before);
            return std::uint64_t{0};
          });
          ++at;
        },
        [&](std::uint64_t base, auto const& before, std::uint32_t n) {
          warp.each([&](std::uint32_t lane) {
            if (lane < n) list(at + lane, base + std::uint64_t{lane} * kRunPiece, before[lane]);
          });
          at += n;
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
