// What a batch of writes needs of its machine's memory, an element an operation.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>

#include "base/hooks.hpp"
#include "batch/groups.hpp"
#include "index/gphash/ops.hpp"
#include "store/gphash/kernels/batch_ops.hpp"

namespace perdure {

/// Segments of the log of entries, in the machine's memory. Where they are few it remembers them: a
/// small batch, which is to take some microseconds, mostly has the same ones as the batch before.
/// Invariant: what it remembers is what was sent last, by whomever.
template <class Machine>
class SegmentsThere {
 public:
  template <class Launcher>
  Status send(Launcher& launcher, std::span<std::uint64_t const> segments) {
    bool const alike = count_ != 0 && segments.size() == count_;
    if (alike && (std::ranges::equal(segments, std::span(kept_.data(), count_)) ||
                  mutated("segments_taken_for_sent")))
      return {};
    count_ = 0;
    if (Status s = launcher.send(buffer_, segments); !s.ok()) return s;
    if (segments.size() > kept_.size()) return {};
    count_ = segments.size();
    std::ranges::copy(segments, kept_.begin());
    return {};
  }
  [[nodiscard]] std::uint64_t const* data() const { return buffer_.data(); }

 private:
  typename Machine::template Buffer<std::uint64_t> buffer_;
  std::array<std::uint64_t, 8> kept_{};
  std::size_t count_ = 0;
};

template <class Machine>
struct WriteBuffers {
  template <class T>
  using Buffer = typename Machine::template Buffer<T>;

  Buffer<exec::Sorted> order;
  Buffer<gphash::Plan> plans;
  Buffer<std::uint64_t> reserved, unlinked;
  Buffer<std::uint8_t> used, decided;
  Buffer<PieceToAnswer> pieces;
  Buffer<PieceSum> sums;
  Buffer<std::uint64_t> counters;  // of positions that lanes leave, of pieces, of equal hashes
  Buffer<std::uint32_t> free, before;  // to take records by
  SegmentsThere<Machine> segments;

  Status resize(std::uint64_t n) {
    if (Status s = order.resize(n); !s.ok()) return s;
    if (Status s = plans.resize(n); !s.ok()) return s;
    if (Status s = unlinked.resize(n); !s.ok()) return s;
    if (Status s = used.resize(n); !s.ok()) return s;
    if (Status s = counters.resize(3); !s.ok()) return s;
    if (n >= kAnsweredApart) {
      if (Status s = pieces.resize(most_pieces(n)); !s.ok()) return s;
      if (Status s = sums.resize(n / kRunPiece + 1); !s.ok()) return s;
    }
    return decided.resize(n);
  }
  /// For what Session::download() says of records.
  Status need_twins(std::uint64_t n) {
    if (Status s = reserved.need_twin(n); !s.ok()) return s;
    if (Status s = unlinked.need_twin(n); !s.ok()) return s;
    return used.need_twin(n);
  }
  void show(WriteView& batch) {
    batch.order = order.data();
    batch.plans = plans.data();
    batch.reserved = reserved.data();
    batch.unlinked = unlinked.data();
    batch.used = used.data();
    batch.decided = decided.data();
    batch.pieces = batch.n >= kAnsweredApart ? pieces.data() : nullptr;
    batch.pieces_count = counters.data() + 1;
    batch.sums = batch.pieces != nullptr ? sums.data() : nullptr;
  }
};

}  // namespace perdure
