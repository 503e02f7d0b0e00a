// Where the segments of Dash-LH lie: in arrays, the first `kStride` of one superblock each, the
// next of two, then of four (hybrid expansion). Invariants: an array is named in the index
// superblock once it is the table's, and for good; there is one for each segment that the root
// names.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <string>

#include "base/assert.hpp"
#include "base/mutex.hpp"
#include "index/dash/segmented.hpp"
#include "pm/pool.hpp"

namespace perdure::dash {

/// `Table` derives from it: a table that numbers its segments.
template <class Table, class Keys, class K>
class WithArrays : public Segmented<Table, Keys, K> {
  using Base = Segmented<Table, Keys, K>;

 protected:
  using Base::Base;
  ~WithArrays() = default;
  using Base::memory_;
  using Base::ops_;
  using Base::pool_;
  using Base::root_;
  using Base::segment_at;

  static constexpr std::uint32_t kStride = 8;  // arrays of a size
  static constexpr std::uint32_t kArrays = kLinearArrays;
  static constexpr std::uint32_t kChunks = Extent::kMostDepth;

  /// How many segments there are: first << rounds, and `next` more.
  struct Extents {
    std::uint64_t word = 0;
    [[nodiscard]] std::uint32_t rounds() const { return static_cast<std::uint32_t>(word >> 32); }
    [[nodiscard]] std::uint64_t next() const { return word & 0xffffffffu; }
  };

  [[nodiscard]] std::uint64_t* arrays() const {
    return reinterpret_cast<std::uint64_t*>(reinterpret_cast<std::byte*>(root_) + kDirectories);
  }
  [[nodiscard]] std::uint64_t superblocks_of(std::uint32_t array) const {
    return std::uint64_t{1} << array / kStride;
  }
  [[nodiscard]] std::uint64_t segments_of(std::uint32_t array) const {
    return superblocks_of(array) * pool_->superblock_bytes() / ops_.shape().bytes();
  }
  struct InArray {
    std::uint32_t array = 0;
    std::uint64_t segment = 0;
  };
  [[nodiscard]] InArray array_of(std::uint64_t i) const {
    InArray at{0, i};
    for (; at.segment >= segments_of(at.array); ++at.array) at.segment -= segments_of(at.array);
    return at;
  }
  /// Whether or not anything is there yet.
  template <class Host>
  Segment segment(Host& host, std::uint64_t i) {
    InArray const at = array_of(i);
    return segment_at(host.load(arrays() + at.array) + at.segment * ops_.shape().bytes());
  }

  /// Segment i has an array to lie in.
  template <class Host>
  Status back(Host& host, std::uint64_t i) {
    std::uint32_t const array = array_of(i).array;
    if (array >= kArrays)
      return {Code::no_space,
              "an index of this kind has at most " + std::to_string(i) + " segments"};
    if (host.load(arrays() + array) != 0) return {};
    MutexLock const lock(*memory_);
    auto run = pool_->take_run(superblocks_of(array));
    if (!run) return run.status();
    PERDURE_ASSERT(run->bytes % pool_->superblock_bytes() == 0);
    host.store(arrays() + array, run->bytes);
    host.persist(arrays() + array, sizeof(std::uint64_t));
    return {};
  }
  template <class Host>
  Status claim(Host& host) {
    if (Status s = claim_arrays(host); !s.ok()) return s;
    return check_extents(host);
  }
  template <class Host>
  Status claim_arrays(Host& host) {
    MutexLock const lock(*memory_);
    for (std::uint32_t a = 0; a < kArrays; ++a) {
      Offset const run{host.load(arrays() + a)};
      if (!run) continue;
      if (!pool_->is_free_run(run, superblocks_of(a)))
        return {Code::corrupt,
                told("array ", a, " of the index's segments cannot lie at byte ", run.bytes)};
      pool_->claim_run(run, superblocks_of(a));
    }
    return {};
  }
  /// There are arrays for just as many segments as the index names, and for the one that comes next
  /// perhaps.
  template <class Host>
  Status check_extents(Host& host) {
    std::uint64_t const first = host.load(&root_->first);
    Extents const now{host.load(&root_->directory)};
    Status const impossible{Code::corrupt,
                            told("the index names an impossible number of segments: ", first,
                                 " at first, ", now.rounds(), " rounds, and ", now.next())};
    if (first < 2 || !std::has_single_bit(first) ||
        static_cast<std::uint32_t>(std::countr_zero(first)) + now.rounds() >= kChunks ||
        now.next() >= first << now.rounds())
      return impossible;
    std::uint64_t const all = (first << now.rounds()) + now.next();
    std::uint32_t const last = array_of(all - 1).array, next = array_of(all).array;
    for (std::uint32_t a = 0; a < kArrays; ++a) {
      bool const there = host.load(arrays() + a) != 0;
      if (there ? a > next : a <= last) return impossible;
    }
    return {};
  }
};

}  // namespace perdure::dash
