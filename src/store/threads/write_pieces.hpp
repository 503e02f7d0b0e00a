// A run of a batch's writes by one thread, in pieces: room for the records of a piece, then, under
// a guard, its operations in array order, a few at a time. Invariant: what a piece unlinked comes
// back only when no guard is left that could have seen it.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "base/assert.hpp"
#include "base/hooks.hpp"
#include "exec/epochs.hpp"
#include "store/threads/engine.hpp"
#include "store/threads/reservation.hpp"
#include "store/threads/space.hpp"

namespace perdure::threads {

inline constexpr std::size_t kPiece = 256;  // operations between two guards
inline constexpr std::size_t kGroup = 16;  // whose lines are on their way at a time

class WritePieces {
 public:
  WritePieces(Space& space, exec::Epochs& epochs, Batch const& batch, Tally& tally)
      : space_(space), epochs_(epochs), batch_(batch), tally_(tally), records_(space, epochs) {}

  /// stride_of(i): of the record that operation i may write; 0: it writes none. group(from, to)
  /// does ops[from] to ops[to - 1].
  template <class StrideOf, class Group>
  void run(Ops const& ops, StrideOf stride_of, Group group) {
    std::array<std::uint64_t, kPiece> strides{};
    for (std::size_t at = 0; at < ops.count;) {
      std::size_t n = std::min(kPiece, ops.count - at);
      for (std::size_t k = 0; k < n; ++k) strides[k] = stride_of(ops[at + k]);
      n = records_.fill(std::span(strides).first(n));
      if (n == 0) {
        refuse(ops[at++], records_.refusal());
        continue;
      }
      PERDURE_ASSERT(n > 0 && n <= kPiece);  // else there is no end
      piece(at, at + n, group);
      at += n;
    }
  }

  // Of group(): a record of that stride, which run() has seen to; one that was not used; one that
  // nothing leads to any more; and an operation that found no room.
  [[nodiscard]] std::uint64_t take(std::uint64_t stride) { return records_.take(stride); }
  void put_back(std::uint64_t stride, std::uint64_t record) { records_.put_back(stride, record); }
  void unlink(std::uint64_t record) { unlinked_.push_back(record); }
  void refuse(std::size_t i, Status why) {
    PERDURE_ASSERT(batch_.pending(i));  // nothing has been done for it
    batch_.complete(i, KeyStatus::no_space);
    ++tally_.refused;
    tally_.why_refused = std::move(why);
  }

 private:
  // records for readers to release, until somebody looks
  static constexpr std::uint64_t kMostWaiting = 1024;

  template <class Group>
  void piece(std::size_t from, std::size_t to, Group& group) {
    PERDURE_ASSERT(unlinked_.empty());  // of the piece before
    std::uint64_t waiting = 0;
    {
      exec::EpochGuard const guard(epochs_);
      for (std::size_t at = from; at < to; at += kGroup) group(at, std::min(to, at + kGroup));
      if (unlinked_.empty()) return;
      PERDURE_ASSERT(unlinked_.size() <= to - from);  // one an operation at most
      records_.freed();
      waiting = space_.wait_for_readers(unlinked_.size());
      if (mutated("btree_record_reused_early"))
        return space_.give_waiting(std::exchange(unlinked_, {}));
      epochs_.retire([space = &space_, records = std::exchange(unlinked_, {})] {
        space->give_waiting(records);
      });
    }
    if (waiting > kMostWaiting) epochs_.collect();
  }

  Space& space_;
  exec::Epochs& epochs_;
  Batch const& batch_;
  Tally& tally_;
  Reservation records_;  // taken and not used yet
  std::vector<std::uint64_t> unlinked_;  // by this piece
};

}  // namespace perdure::threads
