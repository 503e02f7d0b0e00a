#include "rocks/support/transcript.hpp"

#include <algorithm>
#include <cstdio>

namespace perdure::test {

std::string printable(std::string_view bytes) {
  std::string text;
  for (char const c : bytes) {
    if (c >= ' ' && c <= '~') {
      text.push_back(c);
      continue;
    }
    char escaped[5];
    std::snprintf(escaped, sizeof escaped, "\\x%02x", static_cast<unsigned char>(c));
    text.append(escaped);
  }
  return text;
}

std::string difference(std::string const& left, std::string const& right) {
  if (left == right) return {};
  auto const parted = std::mismatch(left.begin(), left.end(), right.begin(), right.end());
  auto const at = static_cast<std::size_t>(parted.first - left.begin());
  std::size_t const begin = at > 100 ? at - 100 : 0;
  return "at byte " + std::to_string(at) + " of " + std::to_string(left.size()) + " and " +
         std::to_string(right.size()) + "\n  left:  " + printable(left.substr(begin, 200)) +
         "\n  right: " + printable(right.substr(begin, 200));
}

}  // namespace perdure::test
