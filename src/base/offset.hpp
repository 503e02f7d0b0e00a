// A place in a pool file, in bytes from its start. Never a pointer: pools are mapped wherever there
// is room. Offset 0 is the pool header, so it doubles as "nowhere".
#pragma once

#include <cstdint>

#include "base/annotate.hpp"

namespace perdure {

struct Offset {
  std::uint64_t bytes = 0;

  PERDURE_FN constexpr explicit operator bool() const { return bytes != 0; }
  PERDURE_FN constexpr Offset operator+(std::uint64_t more) const { return Offset{bytes + more}; }
  PERDURE_FN constexpr bool operator==(Offset other) const { return bytes == other.bytes; }
};

}  // namespace perdure
