// Moments at which keys expire, as commands give them: EX, PX, EXAT, PXAT.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "serve/command.hpp"

namespace perdure::serve {

enum class ExpiryUnit : std::uint8_t { ex, px, exat, pxat };

struct Expiry {
  ExpiryUnit unit;
  std::string_view number;
};

std::optional<ExpiryUnit> expiry_unit(std::string_view word);
/// Milliseconds since 1970; none where the error has been said. The number is above 0.
std::optional<std::int64_t> moment_of(Call& call, Expiry const& expiry);

}  // namespace perdure::serve
