// Pairs that one worker found, for ranges: byte strings one behind the other, and where each ends.
#pragma once

#include <rocksdb/slice.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "lsm/rocks/room.hpp"
#include "perdure/batch.h"

namespace perdure::lsm {

class FoundColumn {
 public:
  void clear() {
    bytes_.clear();
    ends_.clear();
  }
  void add(rocksdb::Slice const& one) {
    bytes_.add(one.data(), one.size());
    ends_.push_back(bytes_.size());
  }
  [[nodiscard]] std::size_t count() const { return ends_.size(); }
  /// Where element i begins; of count(), where all end.
  [[nodiscard]] std::uint64_t begin(std::size_t i) const { return i == 0 ? 0 : ends_[i - 1]; }

  /// Copies elements [first, first + n) to elements `to` and following, whose bytes begin at `at`.
  void copy(std::size_t first, std::size_t n, VariableValues& values, std::size_t to,
            std::uint64_t at) const {
    std::uint64_t const from = begin(first);
    if (begin(first + n) > from)
      std::memcpy(values.data.data() + at, bytes_.data() + from, begin(first + n) - from);
    for (std::size_t i = 1; i <= n; ++i)
      values.offsets[to + i] = static_cast<std::int64_t>(begin(first + i) - from + at);
  }
  [[nodiscard]] std::size_t room() const {
    return bytes_.capacity() + ends_.capacity() * sizeof(std::uint64_t);
  }

 private:
  AppendedBytes bytes_;
  std::vector<std::uint64_t> ends_;
};

struct FoundPairs {
  FoundColumn keys, values;
  void clear() {
    keys.clear();
    values.clear();
  }
  [[nodiscard]] std::size_t bytes() const { return keys.room() + values.room(); }
};

}  // namespace perdure::lsm
