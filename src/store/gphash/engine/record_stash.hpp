// Free records that small batches will take, taken from the map beforehand: a batch of some
// hundreds need not look at all free records. Invariants: writers use it one at a time; what is in
// it counts as in use in the map; it is given back before the lease ends.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/assert.hpp"
#include "base/hooks.hpp"
#include "perdure/status.h"
#include "pm/memory.hpp"
#include "store/gphash/kernels/record_map.hpp"

namespace perdure {

template <class Machine>
class RecordStash {
 public:
#if defined(PERDURE_EXPLORE)  // whose pools have some dozens of records
  static constexpr std::uint64_t kMost = 24, kLargestBatch = 9;
#else
  static constexpr std::uint64_t kMost = std::uint64_t{1} << 15, kLargestBatch = 4096;
#endif
  using Numbers = typename Machine::template Buffer<std::uint32_t>;

  /// n of them, side by side; null: so many are not free.
  Result<std::uint64_t*> take(Machine& machine, RecordMap const& map, std::uint64_t& at_least,
                              pm::Memory const& memory, std::uint64_t n, Numbers& free,
                              Numbers& before) {
    PERDURE_ASSERT(n <= kLargestBatch);
    if (end_ - next_ < n) {
      if (Status s = give_back(machine, map, at_least, memory); !s.ok()) return s;
      auto const filled = fill(machine, map, at_least, n, free, before);
      if (!filled) return filled.status();
      if (!filled.value()) return static_cast<std::uint64_t*>(nullptr);
    }
    std::uint64_t* const taken = records_.data() + next_;
    if (!mutated("stash_dealt_out_twice")) next_ += n;
    PERDURE_ASSERT(next_ <= end_ && end_ <= kMost);
    return taken;
  }

  /// What is left of it, to the map.
  Status give_back(Machine& machine, RecordMap const& map, std::uint64_t& at_least,
                   pm::Memory const& memory) {
    std::uint64_t const n = end_ - next_;
    if (n == 0) return {};
    PERDURE_ASSERT(map.bits != nullptr);
    ReleaseUnusedBody const unused{map, records_.data() + next_};
    if (Status s = machine.template warps<typename Machine::Solo>(n, unused, memory, nullptr);
        !s.ok())
      return s;
    at_least += n;
    next_ = end_;
    return {};
  }

 private:
  /// With half of those that are free, where these are few.
  Result<bool> fill(Machine& machine, RecordMap const& map, std::uint64_t& at_least,
                    std::uint64_t n, Numbers& free, Numbers& before) {
    next_ = end_ = 0;
    auto const most = take_records(machine, map, at_least, kMost, free, before, records_);
    if (!most) return most;
    if (most.value()) {
      end_ = kMost;
      return true;
    }
    std::uint64_t const size = std::max(at_least / 2, n);
    if (size > at_least) return false;
    auto const some = take_records(machine, map, at_least, size, free, before, records_);
    if (some && some.value()) end_ = size;
    return some;
  }

  typename Machine::template Buffer<std::uint64_t> records_;
  std::uint64_t next_ = 0, end_ = 0;
};

}  // namespace perdure
