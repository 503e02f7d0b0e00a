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
#include "index/dash/damage.hpp"
#include "index/dash/linear_directory.hpp"
#include "index/dash/table_core.hpp"
#include "pm/pool.hpp"

namespace perdure::dash {

template <class Core>
class SegmentArrays {
 public:
  explicit SegmentArrays(Core& core) : core_(core) {}

  /// Of an index that is new: none. Ordered by who fences next.
  template <class Host>
  void create(Host& host) {
    for (std::uint32_t a = 0; a < kLinearArrays; ++a) host.store(words() + a, 0);
    host.flush(words(), kLinearArrays * 8);
  }
  /// At open: they are in use.
  template <class Host>
  Status claim(Host& host) {
    if (Status s = claim_arrays(host); !s.ok()) return s;
    return check_extents(host);
  }

  /// Whether or not anything is there yet.
  template <class Host>
  Segment segment(Host& host, std::uint64_t i) {
    InArray const at = array_of(i);
    return core_.segment_at(host.load(words() + at.array) + at.segment * core_.ops.shape().bytes());
  }

  /// Segment i has an array to lie in.
  template <class Host>
  Status back(Host& host, std::uint64_t i) {
    std::uint32_t const array = array_of(i).array;
    if (array >= kLinearArrays)
      return {Code::no_space,
              "an index of this kind has at most " + std::to_string(i) + " segments"};
    if (host.load(words() + array) != 0) return {};
    MutexLock const lock(*core_.memory);
    auto run = core_.pool->take_run(superblocks_of(array));
    if (!run) return run.status();
    PERDURE_ASSERT(run->bytes % core_.pool->superblock_bytes() == 0);
    host.store(words() + array, run->bytes);
    host.persist(words() + array, sizeof(std::uint64_t));
    return {};
  }
  /// How many segments there is room for, named by now or not.
  template <class Host>
  std::uint64_t room(Host& host) {
    std::uint64_t n = 0;
    for (std::uint32_t a = 0; a < kLinearArrays; ++a)
      if (host.load(words() + a) != 0) n += segments_of(a);
    return n;
  }

 private:
  static constexpr std::uint32_t kStride = 8;  // arrays of a size

  [[nodiscard]] std::uint64_t* words() const {
    return reinterpret_cast<std::uint64_t*>(reinterpret_cast<std::byte*>(core_.root) +
                                            kDirectories);
  }
  [[nodiscard]] std::uint64_t superblocks_of(std::uint32_t array) const {
    return std::uint64_t{1} << array / kStride;
  }
  [[nodiscard]] std::uint64_t segments_of(std::uint32_t array) const {
    return superblocks_of(array) * core_.pool->superblock_bytes() / core_.ops.shape().bytes();
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
  template <class Host>
  Status claim_arrays(Host& host) {
    MutexLock const lock(*core_.memory);
    for (std::uint32_t a = 0; a < kLinearArrays; ++a) {
      Offset const run{host.load(words() + a)};
      if (!run) continue;
      if (!core_.pool->is_free_run(run, superblocks_of(a)))
        return {Code::corrupt,
                told("array ", a, " of the index's segments cannot lie at byte ", run.bytes)};
      core_.pool->claim_run(run, superblocks_of(a));
    }
    return {};
  }
  /// There are arrays for just as many segments as the index names, and for the one that comes next
  /// perhaps.
  template <class Host>
  Status check_extents(Host& host) {
    std::uint64_t const first = host.load(&core_.root->first);
    Extents const now{host.load(&core_.root->directory)};
    Status const impossible{Code::corrupt,
                            told("the index names an impossible number of segments: ", first,
                                 " at first, ", now.rounds(), " rounds, and ", now.next())};
    if (first < 2 || !std::has_single_bit(first) ||
        static_cast<std::uint32_t>(std::countr_zero(first)) + now.rounds() >=
            Extents::kMostRounds ||
        now.next() >= first << now.rounds())
      return impossible;
    std::uint64_t const all = (first << now.rounds()) + now.next();
    std::uint32_t const last = array_of(all - 1).array, next = array_of(all).array;
    for (std::uint32_t a = 0; a < kLinearArrays; ++a) {
      bool const there = host.load(words() + a) != 0;
      if (there ? a > next : a <= last) return impossible;
    }
    return {};
  }

  Core& core_;
};

}  // namespace perdure::dash
