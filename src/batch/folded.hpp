// What the operations on one key come to, one after the other, and which they are: the parts of
// groups.hpp that one lane does. Invariant: nothing here touches the index or durable memory.
#pragma once

#include <cstdint>

#include "base/annotate.hpp"
#include "base/hash.hpp"
#include "base/hooks.hpp"
#include "batch/key.hpp"
#include "batch/view.hpp"

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
  std::uint32_t pieces = 0;  // of a long run, so many

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

/// Calls f(operation), or f(operation, its position in `order`), for each pending operation of the
/// group that begins at j, by one lane, in array order. True: pending operations on another key
/// have this hash.
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
    if constexpr (requires { f(i, k); })
      f(i, k);
    else
      f(i);
  }
  return others;
}

}  // namespace perdure
