// What the keys of a scenario of a B+-tree's store are in its pool: numbers of one word, or strings
// of several lengths, of which every third differs from its neighbours only behind the 8 bytes that
// a leaf has of a key. Invariant: of a key's bytes its number can be had again.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <vector>

namespace perdure::explore {

/// The first bytes as a number, padded by zeros.
[[nodiscard]] inline std::uint64_t word_of(std::span<std::byte const> bytes) {
  std::uint64_t word = 0;
  std::memcpy(&word, bytes.data(), std::min(bytes.size(), sizeof word));
  return word;
}

class KeyForm {
 public:
  explicit KeyForm(bool strings) : strings_(strings) {}

  [[nodiscard]] bool strings() const { return strings_; }
  [[nodiscard]] std::vector<std::byte> bytes(std::uint64_t key) const {
    std::string text(reinterpret_cast<char const*>(&key), sizeof key);
    if (strings_) text = (key % 3 == 0 ? "" : "shared by keys ") + std::to_string(key);
    auto const* const from = reinterpret_cast<std::byte const*>(text.data());
    return {from, from + text.size()};
  }
  [[nodiscard]] std::uint64_t number(std::span<std::byte const> bytes) const {
    if (!strings_) return word_of(bytes);
    std::uint64_t number = 0;
    for (std::byte const each : bytes) {
      auto const digit = static_cast<std::uint64_t>(each) - '0';
      if (digit < 10) number = number * 10 + digit;
    }
    return number;
  }

 private:
  bool strings_;
};

}  // namespace perdure::explore
