// Where gets of host threads leave values: give(i, value) for the value of operation i, as runs of
// every index call it, answers how the key fared. Invariant: nothing but what the call handed over
// is written.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "base/assert.hpp"
#include "store/threads/engine.hpp"

namespace perdure::threads {

/// Of one width: into the call's output.
[[nodiscard]] inline auto give_into_output(Batch const& batch) {
  return [&out = batch.call->out](std::size_t i, std::span<std::byte const> value) {
    PERDURE_ASSERT(!kCostlyAssertions || i < out.count);
    if (value.size() != out.width) return KeyStatus::size_mismatch;
    std::memcpy(out.data + i * out.width, value.data(), value.size());
    return KeyStatus::ok;
  };
}
/// Of any size: one behind the other, and of each its length, which is 0 until it is given.
[[nodiscard]] inline auto give_behind(Ops const& ops, std::vector<std::byte>& values,
                                      std::int64_t* lengths) {
  for (std::size_t k = 0; k < ops.count; ++k) lengths[ops[k]] = 0;
  return [&values, lengths](std::size_t i, std::span<std::byte const> value) {
    values.insert(values.end(), value.begin(), value.end());
    lengths[i] = static_cast<std::int64_t>(value.size());
    return KeyStatus::ok;
  };
}

}  // namespace perdure::threads
