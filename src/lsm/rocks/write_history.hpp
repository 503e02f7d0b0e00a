// What transactions need to know of writes that the memtables hold no more: which generations were
// flushed, and which sequence numbers of RocksDB are writes of its own.
//
// Invariants: while a snapshot is pinned, every generation with writes after it is in the view or
// kept here, unless there were too many: then `floor_` is above the snapshot, and the question is
// refused. Guarded by whoever publishes views (Tables), so that view and history are of one moment.
#pragma once

#include <cstdint>
#include <deque>
#include <set>
#include <vector>

#include "lsm/rocks/generation.hpp"

namespace perdure::lsm {

class WriteHistory {
 public:
  static constexpr std::size_t kMostKept = 16;  // generations

  void pin(RequestId sequence) { pins_.insert(sequence); }
  void unpin(RequestId sequence);

  /// RocksDB gets no writes of its own from here on. `base` is its last sequence number.
  void generations_begin(std::uint64_t base);
  /// It has them again; they count `ahead` of RocksDB's own numbers.
  void generations_end(std::uint64_t base, std::uint64_t ahead);
  /// It left the view.
  void keep(GenerationPtr const& generation);

  // For a look, in a copy of this.
  [[nodiscard]] bool reaches_back_to(RequestId since) const { return since >= floor_; }
  /// Of the generations kept; newest first.
  [[nodiscard]] std::vector<RunPtr> runs(std::uint32_t family) const;
  /// Whether RocksDB had writes of its own after `since`. `base` is its last sequence number.
  [[nodiscard]] bool any_direct(RequestId since, std::uint64_t base) const;
  /// Whether this number of RocksDB's is a write of its own, after `since`.
  [[nodiscard]] bool is_direct(std::uint64_t base, RequestId since) const;

 private:
  static constexpr std::uint64_t kOpen = ~std::uint64_t{0};
  /// A time in which RocksDB got writes of its own: numbers (before, last].
  struct Direct {
    std::uint64_t before = 0;
    std::uint64_t last = kOpen;
    std::uint64_t ahead = 0;
  };

  void trim();

  std::multiset<RequestId> pins_;
  std::deque<GenerationPtr> kept_;  // newest first
  std::vector<Direct> direct_{{}};
  RequestId floor_ = 0;  // what was written at or before it may be forgotten
};

}  // namespace perdure::lsm
