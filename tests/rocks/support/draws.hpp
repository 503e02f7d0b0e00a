// Random numbers of generated operations: splitmix64, which a seed starts at no cost. Equal seeds
// draw equal numbers, so both sides of a comparison draw for themselves.
#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace perdure::test {

class Draws {
 public:
  explicit Draws(std::uint64_t seed) : state_(seed) {}

  std::uint64_t any() {
    std::uint64_t z = state_ += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }
  std::uint64_t below(std::uint64_t n) { return any() % n; }
  std::uint64_t between(std::uint64_t low, std::uint64_t high) {  // both included
    return low + below(high - low + 1);
  }
  bool once_in(std::uint64_t n) { return below(n) == 0; }

  std::string bytes(std::size_t count) {
    std::string text(count, '\0');
    for (std::size_t i = 0; i < count; i += 8) {
      std::uint64_t const word = any();
      for (std::size_t j = i; j < count && j < i + 8; ++j)
        text[j] = static_cast<char>(word >> (8 * (j - i)));
    }
    return text;
  }

 private:
  std::uint64_t state_;
};

}  // namespace perdure::test
