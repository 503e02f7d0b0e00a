// Keys and values of generated operations. Keys are few, so that operations meet: 0 to 40 bytes,
// with prefixes in common and bytes of all values.
//
// Invariant: no key of the pool, nor a fresh one, begins with two bytes 0xff. Keys that do are
// those of SingleDelete, which nothing but one Put and one SingleDelete in turn may touch.
#pragma once

#include <string>
#include <vector>

#include "rocks/support/draws.hpp"

namespace perdure::test {

/// Column families by their places in a side's handles.
enum Family : std::size_t { kPlainFamily, kCounts, kAppends, kExtra, kFamilies };

class Keys {
 public:
  explicit Keys(std::uint64_t seed, std::size_t count = 3000);

  [[nodiscard]] std::string const& draw(Draws& draws) const;
  /// Two of the pool, the first not above the second; mostly near each other.
  [[nodiscard]] std::pair<std::string, std::string> range(Draws& draws) const;
  [[nodiscard]] std::vector<std::string> const& sorted() const { return sorted_; }

 private:
  std::vector<std::string> sorted_;
  std::vector<std::string> hot_;
};

/// Perhaps of no pool.
std::string fresh_key(Draws& draws);
std::string single_key(Draws& draws);
std::string draw_value(Draws& draws, std::size_t family);
std::string draw_operand(Draws& draws, std::size_t family);

}  // namespace perdure::test
