// The block cache's memory: one mapping of a fixed size, of which the sets are there at once, and
// slots get their pages as they are written. Invariant: it is all zeros at first, which is a cache
// of empty sets.
#pragma once

#include <cstddef>
#include <cstdint>

#include "lsm/cache/cache_view.hpp"
#include "perdure/status.h"

namespace perdure::lsm {

struct CacheShape {
  std::uint64_t bytes = 0;  // of all
  std::uint32_t entry_bytes = 128;  // a slot's, of which 8 are not the key's or the value's

  static constexpr std::uint64_t kLeastBytes = 1 << 16;
  static constexpr std::uint32_t kEntryUnit = 64, kMostEntryBytes = 1 << 15;

  /// What is wrong with it, with the options' names; OK: nothing, or it is off.
  [[nodiscard]] Status check() const;
};

class CacheMemory {
 public:
  static Result<CacheMemory> map(CacheShape const& shape);
  CacheMemory(CacheMemory&& other) noexcept;
  CacheMemory& operator=(CacheMemory&&) = delete;
  ~CacheMemory();

  [[nodiscard]] CacheView const& view() const { return view_; }
  [[nodiscard]] std::uint64_t bytes() const { return bytes_; }

 private:
  CacheMemory(void* at, std::uint64_t bytes, CacheView const& view)
      : at_(at), bytes_(bytes), view_(view) {}

  void* at_;
  std::uint64_t bytes_;
  CacheView view_;
};

}  // namespace perdure::lsm
