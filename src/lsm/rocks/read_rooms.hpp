// What reads of arrays use again from call to call, and into how many parts they are split.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "exec/counts.hpp"
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

struct ReadRooms {
  struct Part {  // of what the machine is asked at a time
    Room<Answer> answers;
    Room<std::int64_t> offsets;
    [[nodiscard]] std::size_t bytes() const { return answers.bytes() + offsets.bytes(); }
  };
  struct RangePart {
    Room<std::int64_t> begins, ends;
    [[nodiscard]] std::size_t bytes() const { return begins.bytes() + ends.bytes(); }
  };
  struct Values {  // of any length: where they are
    Room<ValueRef> refs;
    [[nodiscard]] std::size_t bytes() const { return refs.bytes(); }
  };
  struct Below {  // the order of keys that RocksDB is asked for
    Room<exec::Sorted> order, spare;
    [[nodiscard]] std::size_t bytes() const { return order.bytes() + spare.bytes(); }
  };
  PartKeys part_keys;
  PartRanges part_ranges;
  Reused<Part> parts;
  Reused<RangePart> range_parts;
  Reused<Values> values;
  Reused<Below> below;
  Reused<FoundPairs> pairs;
  Reused<MixedColumns> mixed;
};

}  // namespace perdure::lsm
