// Keys and values by number. Keys are random bytes, all different; a value follows from its key and
// a version, so that whatever comes back can be checked by itself.
#pragma once

#include <rocksdb/slice.h>

#include <cstdint>
#include <cstring>
#include <optional>
#include <string>

#include "dataset.hpp"

namespace perdure::bench::rocks {

class Pairs {
 public:
  /// Widths in bytes, of both at least 8.
  Pairs(std::uint64_t seed, std::uint32_t key_bytes, std::uint32_t value_bytes)
      : data_(seed, key_bytes, value_bytes), first_word_(seed, 8, 8) {
    first_word_.write_increment(reinterpret_cast<std::byte*>(&increment_));
    // Newton's iteration: each step doubles how many low bits are right, from three on.
    inverse_ = increment_;
    for (int step = 0; step < 5; ++step) inverse_ *= 2 - increment_ * inverse_;
  }

  [[nodiscard]] std::uint32_t key_bytes() const { return data_.key_bytes(); }
  [[nodiscard]] std::uint32_t value_bytes() const { return data_.value_bytes(); }
  [[nodiscard]] std::uint64_t pair_bytes() const {
    return std::uint64_t{key_bytes()} + value_bytes();
  }

  void key(std::uint64_t number, char* to) const {
    data_.write_key(number, reinterpret_cast<std::byte*>(to));
  }
  void value(char const* key, std::uint64_t version, char* to) const {
    data_.write_value(id(key), version, reinterpret_cast<std::byte*>(to));
  }
  /// Of a value that is whole.
  [[nodiscard]] std::optional<std::uint64_t> version(char const* key,
                                                     rocksdb::Slice const& value) const {
    if (value.size() != value_bytes()) return std::nullopt;
    std::uint64_t found = 0;
    std::memcpy(&found, value.data(), sizeof found);
    std::uint64_t first = 0;
    first_word_.write_value(id(key), 0, reinterpret_cast<std::byte*>(&first));
    std::uint64_t const version = (found - first) * inverse_;
    if (!data_.holds(reinterpret_cast<std::byte const*>(value.data()), id(key), version))
      return std::nullopt;
    return version;
  }

 private:
  static std::uint64_t id(char const* key) {
    std::uint64_t word = 0;
    std::memcpy(&word, key, sizeof word);
    return word;
  }

  Dataset data_;
  Dataset first_word_;  // the same values, cut off after 8 bytes
  std::uint64_t increment_ = 0;  // of a value's first word, from version to version; odd
  std::uint64_t inverse_ = 0;
};

}  // namespace perdure::bench::rocks
