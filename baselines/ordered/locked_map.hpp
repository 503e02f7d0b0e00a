// A map of one thread behind the face: readers share a lock, and writers have it alone.
#pragma once

#include <mutex>
#include <new>
#include <shared_mutex>

#include "ordered_makers.hpp"

namespace perdure::ordered_baselines {

template <class Of>
class LockedMap final : public Map {
 public:
  bool put(Keys keys, std::span<std::uint64_t const> values) override {
    try {
      for (std::size_t i = 0; i < keys.size(); ++i) {
        std::unique_lock const lock(mutex_);
        map_.insert_or_assign(keys[i], values[i]);
      }
    } catch (std::bad_alloc const&) {
      return false;
    }
    return true;
  }
  std::uint64_t get(Keys keys, std::span<std::uint64_t> values) override {
    std::uint64_t found = 0;
    for (std::size_t i = 0; i < keys.size(); ++i) {
      std::shared_lock const lock(mutex_);
      auto const at = map_.find(keys[i]);
      if (at == map_.end()) continue;
      values[i] = at->second;
      ++found;
    }
    return found;
  }
  Scanned scan(std::uint64_t from, std::uint64_t most) override {
    std::shared_lock const lock(mutex_);
    Scanned scanned;
    for (auto at = map_.lower_bound(from); at != map_.end() && scanned.count < most; ++at) {
      ++scanned.count;
      scanned.keys += at->first;
      scanned.values += at->second;
    }
    return scanned;
  }

 private:
  std::shared_mutex mutex_;
  Of map_;
};

}  // namespace perdure::ordered_baselines
