// Whether bytes are text. Invariant: what is one character has one form here: no surrogate, no
// longer form than it needs, nothing beyond U+10FFFF (RFC 3629).
#pragma once

#include <bit>
#include <cstdint>
#include <string_view>

namespace perdure {

[[nodiscard]] constexpr bool is_utf8(std::string_view text) {
  constexpr std::uint32_t kLeast[] = {0, 0, 0x80, 0x800, 0x10000};  // that takes so many bytes
  while (!text.empty()) {
    auto const first = static_cast<std::uint8_t>(text.front());
    auto const ones = static_cast<std::size_t>(std::countl_one(first));
    std::size_t const bytes = ones == 0 ? 1 : ones;
    if (ones == 1 || bytes > 4 || bytes > text.size()) return false;
    std::uint32_t character = first & (0x7fu >> ones);
    for (std::size_t i = 1; i < bytes; ++i) {
      auto const next = static_cast<std::uint8_t>(text[i]);
      if (next >> 6 != 2) return false;
      character = character << 6 | (next & 0x3fu);
    }
    bool const surrogate = character >= 0xd800 && character < 0xe000;
    if (character < kLeast[bytes] || surrogate || character > 0x10ffff) return false;
    text.remove_prefix(bytes);
  }
  return true;
}

}  // namespace perdure
