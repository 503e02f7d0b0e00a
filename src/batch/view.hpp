// A batch as kernel bodies see it, whatever the index: plain pointers into machine memory.
// Invariant: who decides an operation stores its status before `decided`.
#pragma once

#include <cstdint>

#include "base/annotate.hpp"
#include "base/assert.hpp"
#include "base/hash.hpp"
#include "batch/call.hpp"
#include "batch/counts.hpp"
#include "perdure/batch.h"

namespace perdure {

struct PieceToAnswer;
struct PieceSum;

struct BatchView {
  std::uint64_t n = 0;
  exec::ByteColumn keys;
  exec::ByteColumn values;  // operands of puts and updates
  std::byte* out = nullptr;  // results of gets, row_bytes each
  std::uint32_t row_bytes = 0;  // a get of values of any length finds others a size_mismatch
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
  PieceToAnswer* pieces = nullptr;  // of long runs, for AnswerPiecesBody; null: at once
  std::uint64_t* pieces_count = nullptr;
  PieceSum* sums = nullptr;  // of pieces, by SumPiecesBody; null: there are none
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

  /// For the cache's next load: operation i got it, a slot or a bucket. Every operation is watched,
  /// for most keys that a cache chooses from are got once or twice while it learns. Of large
  /// batches one in sixteen is, 32 side by side, and counts sixteenfold. And counts end where more
  /// of them would change no choice, for every get of a hot key's waits for the one before.
  template <class W>
  PERDURE_FN void note_use(std::uint64_t i, std::uint32_t* noted) const {
    std::uint32_t const every = n < kLarge ? 1 : 16;
    if (uses == Uses::ignored || (i / 32 + watched) % every != 0) return;
    if (uses == Uses::stamped) return W::store(noted, stamp);
    if (W::load(noted) < kEnough) W::fetch_add(noted, every * kUse);
  }
  static constexpr std::uint64_t kLarge = std::uint64_t{1} << 20;
  static constexpr std::uint32_t kUse = 8;  // so much a use counts: halved, it still counts
  static constexpr std::uint32_t kEnough = 4096 * kUse;

  PERDURE_FN OpKind kind_of(std::uint64_t i) const {
    return kinds != nullptr ? static_cast<OpKind>(kinds[i]) : kind;
  }
};

/// What a body has of its batch and its table: copies, or whoever runs it has them.
template <class T>
using Held = T;
template <class T>
using Lent = T const&;

/// Hashes keys and makes the unsorted `order`; nothing is decided or used yet.
struct HashBody {
  BatchView batch;
  PERDURE_FN void operator()(std::uint64_t i) const {
    PERDURE_ASSERT(!kCostlyAssertions || (i < batch.n && batch.pass == 0));
    batch.order[i] = {i, hash_bytes(batch.keys.at(i), batch.keys.size(i))};
    if (batch.all_pending) batch.status[i] = kPending;
    batch.decided[i] = batch.status[i] == kPending ? 0 : BatchView::kExcluded;
    batch.used[i] = 0;
  }
};

/// A pass begins: nothing is counted, listed or planned yet.
struct BeginPassBody {
  exec::Counts* counts;
  std::uint64_t* counters;
  std::uint64_t counter_n;
  std::uint64_t* planned;  // so many, of gets; or null
  std::uint64_t planned_n;
  [[nodiscard]] PERDURE_FN std::uint64_t items() const {
    return planned_n < exec::Counts::kNames ? exec::Counts::kNames : planned_n;
  }
  PERDURE_FN void operator()(std::uint64_t i) const {
    if (i < exec::Counts::kNames) counts->value[i] = 0;
    if (i < counter_n) counters[i] = 0;
    if (i < planned_n) planned[i] = ~std::uint64_t{0};
  }
};

/// A pass has ended: what the host is to know, into memory that it shares with the machine.
struct TellHostBody {
  exec::Counts const* counts;
  exec::Counts* counts_there;
  std::uint8_t const* status;
  std::uint8_t* status_there;
  std::uint64_t n;
  [[nodiscard]] PERDURE_FN std::uint64_t items() const {
    return n < exec::Counts::kNames ? exec::Counts::kNames : n;
  }
  PERDURE_FN void operator()(std::uint64_t i) const {
    if (i < exec::Counts::kNames) counts_there->value[i] = counts->value[i];
    if (i < n) status_there[i] = status[i];
  }
};

}  // namespace perdure
