// Batches of a store of host threads: what its calls of Store have alike. How a put and a get read:
// batches.cpp.
#pragma once

#include <span>

#include "perdure/store.h"
#include "store/threads/core.hpp"

namespace perdure::threads {

class Batches {
 public:
  explicit Batches(Core& core) : core_(core) {}

  Status read(Call const& call, std::span<KeyStatus> statuses, CallOptions const& how);
  Result<VariableValues> read_variable(Call const& call, std::span<KeyStatus> statuses,
                                       CallOptions const& how);
  /// A batch of puts into an empty index, by itself. False: it was not done, and write() does it.
  bool load(Call const& call, std::span<KeyStatus> statuses, CallOptions const& how);
  Status write(Call const& call, std::span<KeyStatus> statuses, CallOptions const& how);

 private:
  /// Runs what changes the index: as a transaction, where the pool has such.
  template <class F>
  Status change(F f);

  Core& core_;
};

}  // namespace perdure::threads
