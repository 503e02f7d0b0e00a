// A batch as kernel bodies see it, whatever the index: plain pointers into machine memory; and the
// operations on one key within a write batch. A *group* is what of a run of equal hashes in `order`
// has one key, in array order: who begins a run, who belongs to a group, and what a group comes to,
// values aside. Invariant: all of it depends on what was decided in earlier passes only, so warps
// may decide groups meanwhile.
#pragma once

#include <cstdint>

#include "base/annotate.hpp"
#include "base/assert.hpp"
#include "base/hash.hpp"
#include "base/hooks.hpp"
#include "batch/call.hpp"
#include "batch/key.hpp"
#include "exec/counts.hpp"
#include "perdure/batch.h"

namespace perdure {

struct BatchView {
  std::uint64_t n = 0;
  exec::ByteColumn keys;
  exec::ByteColumn values;  // operands of puts and updates
  std::byte* out = nullptr;  // results of gets, value_bytes each
  std::uint8_t const* kinds = nullptr;  // OpKind per operation; null = all `kind`
  OpKind kind = OpKind::get;
  Rmw rmw = Rmw::replace;
  Element element = Element::u8;
  bool verify = true;  // check records' checksums before using their values
  bool displacement = true;
  std::uint64_t sequence = 0;  // written into every record
  std::uint8_t* status = nullptr;  // KeyStatus per operation, or kPending
  bool all_pending = false;  // nobody has set `status` before a get, for all take part
  // Per operation: the pass that decided it, 0 = none yet, kExcluded = it takes no part. Written
  // by the warp that decides a group while others look for heads of groups, who take this pass's
  // number for pending: so what a group is does not depend on who comes first.
  std::uint8_t* decided = nullptr;
  std::uint8_t pass = 0;
  exec::Sorted* order = nullptr;  // operations by (hash, array order)
  std::uint64_t* reserved = nullptr;  // free records, see reservation(); 0 = none
  std::uint8_t* used = nullptr;  // per reservation: 1 = published
  bool any_fits = false;  // every reserved record fits every operation
  std::uint64_t* unlinked = nullptr;  // per position: the record that phase two unlinks, or 0
  std::uint64_t* located = nullptr;  // variable-length get: record per operation
  std::uint64_t* lengths = nullptr;  // and its value's bytes
  std::int64_t const* out_offsets = nullptr;
  enum class Uses : std::uint8_t { ignored, counted, stamped };
  Uses uses = Uses::ignored;  // of what a get finds
  std::uint32_t stamp = 0;
  std::uint32_t watched = 0;  // any number: shifts which of its operations are watched for uses

  static constexpr std::uint8_t kExcluded = 0xff;

  /// Whether operation i was undecided when this pass began.
  template <class W>
  PERDURE_FN bool pending(std::uint64_t i) const {
    std::uint8_t const when = W::load(decided + i);
    return when == 0 || when == pass;
  }

  /// Which reservation a group at `position` takes that operation `writer` writes for. Where any
  /// fits, they are taken in the order of `order`, so that a worker writes records side by side.
  PERDURE_FN std::uint64_t reservation(std::uint64_t position, std::uint64_t writer) const {
    return any_fits ? position : writer;
  }

  /// Of a get: whether operation i is to be answered.
  PERDURE_FN bool takes_part(std::uint64_t i) const { return all_pending || status[i] == kPending; }

  /// For the cache's next load: operation i got it, a slot or a bucket. Some operations are
  /// watched, 32 side by side: one in four, or of large batches one in sixteen, which counts
  /// fourfold; enough to tell what is got often. And counts end where more of them would change no
  /// choice, for every get of a hot key's waits for the one before.
  template <class W>
  PERDURE_FN void note_use(std::uint64_t i, std::uint32_t* noted) const {
    std::uint32_t const every = n < kLarge ? 4 : 16;
    if (uses == Uses::ignored || (i / 32 + watched) % every != 0) return;
    if (uses == Uses::stamped) return W::store(noted, stamp);
    if (W::load(noted) < kEnough) W::fetch_add(noted, every / 4);
  }
  static constexpr std::uint64_t kLarge = std::uint64_t{1} << 20;
  static constexpr std::uint32_t kEnough = 4096;

  PERDURE_FN OpKind kind_of(std::uint64_t i) const {
    return kinds != nullptr ? static_cast<OpKind>(kinds[i]) : kind;
  }
};

/// Hashes keys and makes the unsorted `order`.
struct HashBody {
  BatchView batch;
  PERDURE_FN void operator()(std::uint64_t i) const {
    PERDURE_ASSERT(!kCostlyAssertions || (i < batch.n && batch.pass == 0));
    batch.order[i] = {i, hash_bytes(batch.keys.at(i), batch.keys.size(i))};
    batch.decided[i] = batch.status[i] == kPending ? 0 : BatchView::kExcluded;
  }
};

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

}  // namespace perdure
