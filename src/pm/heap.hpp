// The record heap: superblocks cut into records of one stride each. Which records are free is
// volatile: at open every record is free until the index marks the ones its slots lead to, so a
// crash can leak nothing. Where that has to wait (claim_superblocks), every record is in use until
// a sweep has marked those that are. Invariant: a record is handed out only if no word leads to it,
// and release() is called only after the batch that unlinked it has committed, and nobody can be
// reading it any more.
#pragma once

#include <bit>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <unordered_map>
#include <vector>

#include "base/offset.hpp"
#include "perdure/status.h"
#include "pm/flush.hpp"
#include "pm/heap_headers.hpp"
#include "pm/pool.hpp"
#include "pm/record_shape.hpp"
#include "pm/superblock_map.hpp"

namespace perdure::pm {

/// The stride that holds a record of `bytes` bytes among others of any size: within 1/8, so that
/// few strides, and so few half-filled superblocks, serve all sizes.
[[nodiscard]] std::uint64_t stride_for(std::uint64_t bytes);

class RecordHeap {
 public:
  explicit RecordHeap(Pool& pool) : pool_(&pool), headers_(pool), shape_(pool.header()) {}

  [[nodiscard]] RecordShape const& shape() const { return shape_; }

  /// Bitmaps of the superblocks of one stride, kept elsewhere; those of other strides, and what is
  /// not of the heap, look full.
  struct Lease {
    RecordShape shape;
    std::uint64_t stride = 0;
    std::uint64_t capacity = 0;  // records a superblock
    std::uint64_t words_each = 0;  // 32-bit words of bitmap a superblock
    std::vector<std::uint32_t> bits;
    std::vector<std::uint8_t> leased;  // by superblock
  };

  /// Before recovery: keeps what may be heap superblocks out of the pool's hands, then lets them
  /// go.
  void guard_superblocks(bool on);
  /// Recovery, step 1: finds the heap superblocks among those the index does not use.
  void find_superblocks();
  enum class Mark : std::uint8_t { first, again, invalid };
  /// Where it is noted that a record is in use.
  struct MarkBit {
    std::uint64_t* word = nullptr;  // null: there can be no record
    std::uint64_t bit = 0;
  };
  /// Recovery, step 2, from any number of threads: brings the address near, for records lie
  /// anywhere,
  MarkBit bit_to_mark(Offset record);
  /// and notes that the record is in use.
  static Mark mark(MarkBit address);
  /// The same for whoever marks elsewhere: maps without any mark, and what they have become.
  [[nodiscard]] Lease maps_to_mark(std::uint64_t stride) const;
  void take_marks(Lease const& maps);
  /// Recovery, step 3: counts what was marked.
  void finish_recovery();
  /// Back to before step 1.
  void forget();

  /// At open, where superblocks have maps: what they say. Nothing else has to be recovered.
  void load_superblocks();
  /// f(address of a line of a map, what it is to hold) for each that the bitmaps differ from.
  template <class F>
  void for_each_changed_line(F f) const {
    for (std::uint32_t const index : changed_) for_each_changed_line_of(index, f);
  }
  /// The maps hold what the bitmaps do.
  void maps_written();

  /// At open, instead of recovery: superblocks that hold records are in use, and every record in
  /// them, until a sweep has ended.
  void claim_superblocks();
  /// Marks what is reached of those between begin_sweep() and finish_sweep(). Records may be
  /// reserved and released meanwhile; whoever finishes makes sure that what was unlinked before it
  /// was reached has been released.
  void begin_sweep();
  void mark_reached(Offset record);
  void finish_sweep();

  /// Hands out `n` records of `stride` bytes as out[0..n); all or none.
  Status reserve(std::uint64_t stride, std::uint64_t n, std::uint64_t* out);
  void release(Offset record);
  /// Somebody copies the pool piece by piece as it is now: what is released in superblocks from
  /// `first` on stays in use, and whole, until a later call has passed it. kHoldsNothing: the copy
  /// has ended.
  static constexpr std::uint64_t kHoldsNothing = ~std::uint64_t{0};
  void hold_from(std::uint64_t first);
  [[nodiscard]] bool holds_any() const { return !held_.empty(); }
  /// One that is free by a damaged map, and in use nevertheless.
  void take_back(Offset record);
  /// After an opening, before anything has been written: one that no slot leads to is in use.
  /// False: it is in use already, or none of this heap's.
  bool keep_unreached(Offset record);
  /// Superblocks for records to come: so many, and up to `more` for which the pool need not grow.
  Status add_superblocks(std::uint64_t stride, std::uint64_t n, std::uint64_t more);
  /// Superblocks without a record in use serve any stride, and the index, again.
  void give_back_empty();

  /// Bytes a record at `record` may span; 0 where there can be none.
  [[nodiscard]] std::uint64_t room(Offset record) const;
  [[nodiscard]] bool in_use(Offset record) const;
  /// Whether a record may begin there.
  [[nodiscard]] bool is_record(Offset at) const;
  [[nodiscard]] std::uint64_t records_in_use() const;

  /// Those of the heap.
  struct Superblock {
    std::uint64_t at = 0;  // byte of the pool
    std::uint64_t stride = 0;  // of its records
  };
  [[nodiscard]] std::vector<Superblock> superblocks() const;

  /// Lends the superblocks of one stride to whoever keeps their bitmaps elsewhere. Until
  /// end_lease() nothing of that stride is reserved or released here.
  [[nodiscard]] Lease lease_out(std::uint64_t stride);
  void end_lease(Lease const& lease);

 private:
  // superblocks with free records (and, lazily, full ones); records come from the last of them
  using Open = std::deque<std::uint32_t>;

  void complete(std::uint64_t index);
  SuperblockMap& attach(std::uint64_t index, std::uint64_t stride);
  Status take_superblock(std::uint64_t stride);
  void write_empty_map(std::uint64_t superblock, std::uint64_t stride) const;
  void list(std::uint64_t index);
  void note_changed(std::uint64_t index, SuperblockMap& map) {
    if (!shape_.maps || map.changed) return;
    changed_.push_back(static_cast<std::uint32_t>(index));
    map.changed = true;
  }
  template <class F>
  void for_each_changed_line_of(std::uint32_t index, F f) const {
    SuperblockMap const& s = superblocks_[index];
    if (s.stride == 0) return;  // empty: nothing of it is in use, as before
    std::uint64_t const map = index * pool_->superblock_bytes() + shape_.map_address(s.stride);
    for (std::size_t w = 0; w < s.changed_lines.size(); ++w) {
      for (std::uint64_t left = s.changed_lines[w]; left != 0; left &= left - 1) {
        std::size_t const line = w * 64 + static_cast<std::size_t>(std::countr_zero(left));
        f(Offset{map + line * kCacheLine}, &s.bitmap[line * SuperblockMap::kLineWords]);
      }
    }
  }

  [[nodiscard]] Lease empty_lease(std::uint64_t stride) const;
  void copy_bitmap(Lease& lease, std::size_t superblock) const;
  [[nodiscard]] bool index_of(Offset record, std::uint64_t& i) const;
  void free(Offset record);

  Pool* pool_;
  HeapHeaders headers_;
  RecordShape shape_;
  std::vector<SuperblockMap> superblocks_;
  std::unordered_map<std::uint64_t, Open> open_;
  std::vector<Offset> released_unswept_;
  std::uint64_t hold_from_ = kHoldsNothing;
  std::map<std::uint64_t, std::vector<Offset>> held_;  // released, by superblock
  std::uint64_t empty_ = 0;  // superblocks of the heap without a record in use
  std::vector<std::uint32_t> changed_;  // superblocks whose maps differ from their bitmaps
};

}  // namespace perdure::pm
