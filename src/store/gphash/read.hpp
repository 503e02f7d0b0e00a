// Batches of gets, and scans. Invariant: they change nothing, so any number of them run side by
// side under the shared store lock.
#pragma once

#include <atomic>
#include <span>

#include "store/gphash/core.hpp"
#include "store/gphash/shared_gets.hpp"

namespace perdure {

class BatchReader {
 public:
  BatchReader(Core& core, SharedGets& shared) : core_(core), shared_(shared) {}

  Status get(Call const& call, std::span<KeyStatus> statuses);
  Result<VariableValues> get_variable(Call const& call, std::span<KeyStatus> statuses);
  Result<ScanPage> scan(ScanCursor const& from, std::size_t limit, std::atomic<bool> const* stop);

 private:
  Core& core_;
  SharedGets& shared_;
};

}  // namespace perdure
