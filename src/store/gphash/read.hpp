// Batches of gets, and scans. Invariant: they change nothing, so any number of them run side by
// side under the shared store lock.
#pragma once

#include <atomic>
#include <span>

#include "store/gphash/core.hpp"

namespace perdure {

class BatchReader {
 public:
  explicit BatchReader(Core& core) : core_(core) {}

  Status get(Call const& call, std::span<KeyStatus> statuses);
  Result<VariableValues> get_variable(Call const& call, std::span<KeyStatus> statuses);
  Result<ScanPage> scan(ScanCursor const& from, std::size_t limit, std::atomic<bool> const* stop);

 private:
  Core& core_;
};

}  // namespace perdure
