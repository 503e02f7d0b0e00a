// A run as kernel bodies see it: arrays in the machine's memory. run_search.hpp searches in them.
//
// Invariants: entries ascend by key, and of one key's the newest comes first. The first `shared`
// bytes of all keys are the same; prefixes[i] is the word behind them of key i. Where `keys` is
// null all keys have the same `width` of at most 8 bytes, nothing is shared, and the prefix is the
// key. Elsewhere a key begins at a whole word and is filled up with zeros. Values are addresses of
// the host, which no body looks behind. Where all have one size, and no larger one than the engine
// keeps inside, the run has their bytes too, filled up with zeros: those of a word in `words`, and
// larger ones in `rows`, one behind the other. Behind the prefixes, up to a whole line of them, are
// words that no word is above.
//
// A search descends through samples: level 1 has the last prefix of each line of prefixes, level 2
// the last word of each line of level 1, and so on up to a level of one line. The last sample of a
// level, and what fills up its line, are words that no word is above, so every search ends in a
// line, and looks at one line a level.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/annotate.hpp"
#include "lsm/engine/key_words.hpp"
#include "lsm/entry.hpp"

namespace perdure::lsm {

struct alignas(16) StoredVersion {
  static constexpr std::uint32_t kKindBits = 2;
  std::uint64_t request_and_kind = 0;
  std::byte const* value = nullptr;

  [[nodiscard]] PERDURE_FN RequestId request() const { return request_and_kind >> kKindBits; }
  [[nodiscard]] PERDURE_FN Kind kind() const {
    return static_cast<Kind>(request_and_kind & ((1u << kKindBits) - 1));
  }
};

struct Samples {
  static constexpr std::uint32_t kFan = 8;  // words of a line
  static constexpr std::uint32_t kMostLevels = 11;
  static constexpr std::uint64_t kAboveAll = ~std::uint64_t{0};

  std::uint64_t const* words = nullptr;
  std::uint32_t height = 0;
  std::uint32_t lines[kMostLevels] = {};  // where level l + 1 begins
  std::uint32_t all_lines = 0;

  static PERDURE_FN std::uint32_t lines_of(std::uint32_t n) { return n / kFan + (n % kFan != 0); }

  Samples() = default;
  /// Of so many prefixes.
  explicit Samples(std::uint32_t count) {
    for (std::uint32_t n = lines_of(count); n > 1; n = lines_of(n)) {
      lines[height++] = all_lines;
      all_lines += lines_of(n);
    }
  }
};

struct RunView {
  std::uint32_t count = 0;
  std::uint32_t shared = 0;  // bytes
  std::uint32_t width = 0;  // bytes of each key, where `sizes` is null
  std::uint32_t value_size = 0;  // of each value, where `value_sizes` is null
  bool has_values = true;  // false: all entries are erases
  std::uint64_t const* prefixes = nullptr;
  StoredVersion const* versions = nullptr;
  std::uint64_t const* keys = nullptr;
  std::uint32_t const* places = nullptr;  // of keys, in words
  std::uint32_t const* sizes = nullptr;  // of keys, in bytes
  std::uint32_t const* value_sizes = nullptr;
  std::uint64_t const* words = nullptr;  // of values of at most a word
  std::uint64_t const* rows = nullptr;  // of values of more: words_of(value_size) each
  std::uint32_t const* filter = nullptr;  // see filter.hpp; null: every key may be there
  std::uint64_t filter_words = 0;
  Samples samples;

  static PERDURE_FN std::uint32_t words_of(std::uint32_t bytes) {
    return bytes / 8 + (bytes % 8 != 0);
  }

  /// Of samples, or, on level 0, of prefixes.
  [[nodiscard]] PERDURE_FN std::uint64_t const* line(std::uint32_t level, std::uint32_t i) const {
    return level > 0 ? samples.words + (std::uint64_t{samples.lines[level - 1]} + i) * Samples::kFan
                     : prefixes + std::uint64_t{i} * Samples::kFan;
  }
  [[nodiscard]] PERDURE_FN std::uint32_t size(std::uint32_t i) const {
    return sizes != nullptr ? sizes[i] : width;
  }
  /// Not where `keys` is null.
  [[nodiscard]] PERDURE_FN std::byte const* key(std::uint32_t i) const {
    std::uint64_t const place = places != nullptr ? places[i] : std::uint64_t{i} * words_of(width);
    return reinterpret_cast<std::byte const*>(keys + place);
  }
  [[nodiscard]] PERDURE_FN std::uint64_t word(std::uint32_t i, std::uint64_t from) const {
    if (from == shared) return prefixes[i];
    if (keys != nullptr) return key_word(key(i), size(i), from);
    return from < 8 ? prefixes[i] << (8 * from) : 0;
  }
  [[nodiscard]] PERDURE_FN std::uint64_t const* row(std::uint32_t i) const {
    return rows + std::uint64_t{i} * words_of(value_size);
  }
  /// In whole words.
  PERDURE_FN void copy_key(std::uint32_t i, std::uint64_t* to) const {
    if (keys == nullptr) {
      if (width != 0) to[0] = swapped(prefixes[i]);
      return;
    }
    std::uint32_t const n = words_of(size(i));
    auto const* const from = reinterpret_cast<std::uint64_t const*>(key(i));
    for (std::uint32_t w = 0; w < n; ++w) to[w] = from[w];
  }
  [[nodiscard]] PERDURE_FN std::uint32_t size_of_value(std::uint32_t i) const {
    if (versions[i].kind() == Kind::erase) return 0;
    return value_sizes != nullptr ? value_sizes[i] : value_size;
  }
  [[nodiscard]] PERDURE_FN ValueRef value(std::uint32_t i) const {
    return {versions[i].value, size_of_value(i)};
  }
};

}  // namespace perdure::lsm
