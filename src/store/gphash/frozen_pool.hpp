// The pool as it was when a checkpoint began, for as long as that is copied piece by piece beside
// batches. What changes where it lies is copied at once: everything but the superblocks of records.
// Records are never changed where they lie, so that those stay as they were until they are written
// anew, which the heap holds back (RecordHeap::hold_from).
//
// Invariant: a record that a frozen word leads to is read before the heap hands it out again.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "exec/workers.hpp"
#include "pm/heap.hpp"
#include "pm/pool.hpp"
#include "wal/disk/block_file.hpp"

namespace perdure {

class FrozenPool {
 public:
  /// Memory is kept for the next time.
  Status freeze(pm::Pool& pool, pm::RecordHeap const& heap, exec::Workers& workers);
  /// Bytes of the pool from `at` on. Of superblocks that were free, and of records that were, they
  /// may be of any time.
  void read(std::uint64_t at, std::span<std::byte> into) const;
  [[nodiscard]] std::uint64_t bytes() const { return bytes_; }

 private:
  static constexpr std::uint64_t kNotCopied = ~std::uint64_t{0};

  pm::Pool const* pool_ = nullptr;
  std::uint64_t bytes_ = 0;
  std::vector<std::uint64_t> copy_of_;  // by superblock: where in copies_
  wal::AlignedBuffer copies_;
};

}  // namespace perdure
