// Keys of RocksDB's interface as a column, which is what machines take.
#pragma once

#include <rocksdb/slice.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "lsm/rocks/status.hpp"
#include "perdure/batch.h"

namespace perdure::lsm {

class KeyColumn {
 public:
  void reserve(std::size_t keys, std::size_t bytes) {
    offsets_.reserve(keys + 1);
    bytes_.reserve(bytes);
  }
  void add(rocksdb::Slice const& key) {
    bytes_.insert(bytes_.end(), as_bytes(key.data()), as_bytes(key.data()) + key.size());
    offsets_.push_back(static_cast<std::int64_t>(bytes_.size()));
  }
  [[nodiscard]] rocksdb::Slice key(std::size_t i) const {
    auto const from = static_cast<std::size_t>(offsets_[i]);
    return as_slice(
        std::span(bytes_).subspan(from, static_cast<std::size_t>(offsets_[i + 1]) - from));
  }
  /// As long as nothing is added.
  [[nodiscard]] Column column() const {
    return {bytes_.data(), offsets_.data(), 0, offsets_.size() - 1, MemorySpace::host};
  }

 private:
  std::vector<std::byte> bytes_;
  std::vector<std::int64_t> offsets_ = {0};
};

}  // namespace perdure::lsm
