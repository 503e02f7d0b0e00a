// Values lie at random in the buffers of memtables: who copies many brings each near some before.
#pragma once

#include <algorithm>
#include <cstddef>

#include "base/prefetch.hpp"
#include "lsm/engine/engine.hpp"
#include "lsm/entry.hpp"

namespace perdure::lsm {

/// How many values before its turn.
inline constexpr std::size_t kValuesAhead = 16;

inline void prefetch_value(ValueRef const& value) {
  constexpr std::size_t kLine = 64;
  constexpr std::size_t kFirst = 256;  // bytes; what follows the processor brings by itself
  std::size_t const bytes = std::min<std::size_t>(value.size, kFirst);
  for (std::size_t at = 0; at < bytes; at += kLine) prefetch_line(value.data + at);
  if (bytes > 1) prefetch_line(value.data + bytes - 1);  // it may begin within a line
}

/// Of a key that was put, unless the answer has the value itself.
inline void prefetch_value(Answer const& answer) {
  if (answer.found == Found::put && !answer.inside) prefetch_value(answer.value());
}

}  // namespace perdure::lsm
