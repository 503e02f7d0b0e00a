// What the records of a benchmark hold: keys and values are functions of a record's number, so that
// whatever is read back can be checked without a copy of it.
//
// Invariant: two numbers never have the same key (the first 8 bytes of a key are a bijection of the
// number). A value says which record and which version of it it is; adding `increment` to version v
// as 64-bit integers gives version v + 1, so a read-modify-write can be checked too.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace perdure::bench {

/// A bijection of the 64-bit integers that leaves no structure of its argument (splitmix64's).
[[nodiscard]] constexpr std::uint64_t mix(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

class Dataset {
 public:
  /// `seed` chooses the keys. Widths in bytes; key_bytes is at least 8.
  Dataset(std::uint64_t seed, std::uint32_t key_bytes, std::uint32_t value_bytes);

  [[nodiscard]] std::uint32_t key_bytes() const { return key_bytes_; }
  [[nodiscard]] std::uint32_t value_bytes() const { return value_bytes_; }

  void write_key(std::uint64_t id, std::byte* to) const;
  void write_value(std::uint64_t id, std::uint64_t version, std::byte* to) const;
  void write_increment(std::byte* to) const;
  [[nodiscard]] bool holds(std::byte const* value, std::uint64_t id, std::uint64_t version) const;

 private:
  std::uint64_t seed_;
  std::uint32_t key_bytes_;
  std::uint32_t value_bytes_;
  std::vector<std::uint64_t> increments_;  // of each word of a value
};

}  // namespace perdure::bench
