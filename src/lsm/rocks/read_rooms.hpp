// What reads of arrays use again from call to call, and into how many parts they are split.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

#include "exec/counts.hpp"
#include "exec/pinning.hpp"
#include "lsm/engine/engine.hpp"
#include "lsm/rocks/found_pairs.hpp"
#include "lsm/rocks/mixed_columns.hpp"
#include "lsm/rocks/room.hpp"

namespace perdure::lsm {

/// Keys that the machine looks up at a time: enough to be worth a launch, and few enough for every
/// worker to have some. A test has fewer.
struct PartKeys {
  std::size_t least = std::size_t{1} << 13;
  std::size_t most = std::size_t{1} << 16;

  [[nodiscard]] std::size_t of(std::size_t keys, std::size_t workers) const {
    return std::clamp((keys + workers - 1) / workers, least, most);
  }
};

/// The same of ranges, of which the engine says how many are worth a question.
struct PartRanges {
  std::size_t most = ~std::size_t{0};  // a test has fewer

  [[nodiscard]] std::size_t of(std::size_t ranges, std::size_t workers,
                               PartKeys const& of_engine) const {
    return std::min(of_engine.of(ranges, workers), most);
  }
};

/// What a device sends: into pinned memory where that can be had, for all other memory is sent
/// through pieces of the driver's, one at a time.
template <class T>
class PinnedRoom {
 public:
  PinnedRoom() = default;
  PinnedRoom(PinnedRoom const&) = delete;
  PinnedRoom& operator=(PinnedRoom const&) = delete;
  ~PinnedRoom() { release(); }

  /// `most`: of any later call.
  std::span<T> take(std::size_t n, std::size_t most, bool pinned) {
    if (!pinned) return pageable_.take(n);
    if (n > capacity_) {
      release();
      pinned_ = static_cast<T*>(exec::allocate_pinned(std::max(n, most) * sizeof(T)));
      if (pinned_ == nullptr) return pageable_.take(n);
      capacity_ = std::max(n, most);
    }
    return {pinned_, n};
  }
  [[nodiscard]] std::size_t bytes() const { return capacity_ * sizeof(T) + pageable_.bytes(); }

 private:
  void release() {
    if (pinned_ != nullptr) exec::free_pinned(pinned_);
    pinned_ = nullptr;
    capacity_ = 0;
  }

  Room<T> pageable_;
  T* pinned_ = nullptr;
  std::size_t capacity_ = 0;
};

struct ReadRooms {
  struct Part {  // of what the machine is asked at a time
    PinnedRoom<Answer> answers;
    PinnedRoom<std::uint64_t> rows;  // of answers
    Room<std::int64_t> offsets;
    [[nodiscard]] std::size_t bytes() const {
      return answers.bytes() + rows.bytes() + offsets.bytes();
    }
  };
  struct RangePart {
    Room<std::int64_t> begins, ends;
    [[nodiscard]] std::size_t bytes() const { return begins.bytes() + ends.bytes(); }
  };
  struct Values {  // of any length: where they are, and those that lay in rooms of parts
    Room<ValueRef> refs;
    Room<std::uint64_t> rows;
    [[nodiscard]] std::size_t bytes() const { return refs.bytes() + rows.bytes(); }
  };
  struct Below {  // the order of keys that RocksDB is asked for
    Room<exec::Sorted> order, spare;
    [[nodiscard]] std::size_t bytes() const { return order.bytes() + spare.bytes(); }
  };
  /// Of the rows of a part.
  static constexpr std::size_t kRowWords = (std::size_t{16} << 20) / sizeof(std::uint64_t);
  PartKeys part_keys;
  bool pinned = false;  // the machine is a device
  /// Reads that go on. Of several at a time one has the workers and the others their own thread.
  std::atomic<std::uint32_t> reads = 0;
  PartRanges part_ranges;
  Reused<Part> parts;
  Reused<RangePart> range_parts;
  Reused<Values> values;
  Reused<Below> below;
  Reused<FoundPairs> pairs;
  Reused<MixedColumns> mixed;
};

}  // namespace perdure::lsm
