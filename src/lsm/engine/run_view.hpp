// A run as kernel bodies see it: arrays in the machine's memory, and searching in them.
//
// Invariants: entries ascend by key, and of one key's the newest comes first. The first `shared`
// bytes of all keys are the same; prefixes[i] is the word behind them of key i. Where `keys` is
// null all keys have the same `width` of at most 8 bytes, nothing is shared, and the prefix is the
// key. Elsewhere a key begins at a whole word and is filled up with zeros. Values are addresses of
// the host, which no body looks behind.
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

struct RunView {
  std::uint32_t count = 0;
  std::uint32_t shared = 0;  // bytes
  std::uint32_t width = 0;  // bytes of each key, where `sizes` is null
  std::uint32_t value_size = 0;  // of each value, where `value_sizes` is null
  std::uint64_t const* prefixes = nullptr;
  StoredVersion const* versions = nullptr;
  std::uint64_t const* keys = nullptr;
  std::uint32_t const* places = nullptr;  // of keys, in words
  std::uint32_t const* sizes = nullptr;  // of keys, in bytes
  std::uint32_t const* value_sizes = nullptr;

  static PERDURE_FN std::uint32_t words(std::uint32_t bytes) {
    return bytes / 8 + (bytes % 8 != 0);
  }

  [[nodiscard]] PERDURE_FN std::uint32_t size(std::uint32_t i) const {
    return sizes != nullptr ? sizes[i] : width;
  }
  /// Not where `keys` is null.
  [[nodiscard]] PERDURE_FN std::byte const* key(std::uint32_t i) const {
    std::uint64_t const place = places != nullptr ? places[i] : std::uint64_t{i} * words(width);
    return reinterpret_cast<std::byte const*>(keys + place);
  }
  [[nodiscard]] PERDURE_FN std::uint64_t word(std::uint32_t i, std::uint64_t from) const {
    if (from == shared) return prefixes[i];
    if (keys != nullptr) return key_word(key(i), size(i), from);
    return from < 8 ? prefixes[i] << (8 * from) : 0;
  }
  /// In whole words.
  PERDURE_FN void copy_key(std::uint32_t i, std::uint64_t* to) const {
    if (keys == nullptr) {
      if (width != 0) to[0] = swapped(prefixes[i]);
      return;
    }
    std::uint32_t const n = words(size(i));
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

/// The first i from `from` on, below `end`, of which says(i) is not true, else `end`: of those
/// before it, it is true, of those behind it not. Looks near `from` first.
template <class F>
PERDURE_FN std::uint32_t first_not(std::uint32_t from, std::uint32_t end, F const& says) {
  if (from == end || !says(from)) return from;
  std::uint32_t known = from;  // says(known)
  std::uint32_t step = 1;
  while (step < end - known && says(known + step)) {
    known += step;
    step *= 2;
  }
  std::uint32_t rest = (step < end - known ? step : end - known) - 1;  // unknown behind `known`
  while (rest != 0) {
    std::uint32_t const half = (rest + 1) / 2;
    if (says(known + half)) {
      known += half;
      rest -= half;
    } else {
      rest = half - 1;
    }
  }
  return known + 1;
}

/// A key that is looked for in one run.
struct Wanted {
  std::byte const* key = nullptr;
  std::uint32_t size = 0;
  std::uint64_t word = 0;  // behind the bytes that the run's keys share
  int side = 0;  // below 0: comes before all of them, above 0: behind

  Wanted() = default;
  PERDURE_FN Wanted(RunView const& run, std::byte const* at, std::uint32_t bytes)
      : key(at), size(bytes), word(key_word(at, bytes, run.shared)) {
    if (run.shared == 0 || run.count == 0) return;
    std::uint32_t const both = size < run.shared ? size : run.shared;
    side = compare_from(0, at, both, run.key(0), run.shared);
  }

  /// Of entry i of the run, whose prefix is `word`.
  [[nodiscard]] PERDURE_FN int compare_rest(RunView const& run, std::uint32_t i) const {
    std::uint32_t const theirs = run.size(i);
    if (run.keys == nullptr || size <= run.shared + 8 || theirs <= run.shared + 8)
      return size == theirs ? 0 : size < theirs ? -1 : 1;
    return compare_from(std::uint64_t{run.shared} + 8, key, size, run.key(i), theirs);
  }
  [[nodiscard]] PERDURE_FN bool is(RunView const& run, std::uint32_t i) const {
    return i < run.count && run.prefixes[i] == word && compare_rest(run, i) == 0;
  }
};

/// The first entry whose prefix is not below the word.
PERDURE_FN std::uint32_t lower_prefix(RunView const& run, std::uint64_t word) {
  std::uint32_t first = 0;
  for (std::uint32_t n = run.count; n != 0;) {
    std::uint32_t const half = n / 2;
    bool const below = run.prefixes[first + half] < word;
    first = below ? first + half + 1 : first;
    n = below ? n - half - 1 : half;
  }
  return first;
}

/// The first entry with a key not below the one that is wanted, or, `above`, above it; `at` is the
/// first whose prefix is not below its word.
PERDURE_FN std::uint32_t bound_from(RunView const& run, Wanted const& wanted, std::uint32_t at,
                                    bool above) {
  return first_not(at, run.count, [&](std::uint32_t i) {
    if (run.prefixes[i] != wanted.word) return false;
    int const order = wanted.compare_rest(run, i);
    return above ? order >= 0 : order > 0;
  });
}

PERDURE_FN std::uint32_t bound_of(RunView const& run, Wanted const& wanted, bool above) {
  if (wanted.side != 0) return wanted.side < 0 ? 0 : run.count;
  return bound_from(run, wanted, lower_prefix(run, wanted.word), above);
}

/// The newest version of the key that a reader with the limit sees: the first entry from `at` on,
/// the first one of the key, whose request is not above it. What is not there is run.count.
PERDURE_FN std::uint32_t visible_from(RunView const& run, Wanted const& wanted, std::uint32_t at,
                                      RequestId limit) {
  if (!wanted.is(run, at)) return run.count;
  if (run.versions[at].request() <= limit) return at;
  std::uint32_t const seen = first_not(at, run.count, [&](std::uint32_t i) {
    return wanted.is(run, i) && run.versions[i].request() > limit;
  });
  return wanted.is(run, seen) ? seen : run.count;
}

PERDURE_FN std::uint32_t visible(RunView const& run, Wanted const& wanted, RequestId limit) {
  if (wanted.side != 0) return run.count;
  return visible_from(run, wanted, bound_of(run, wanted, false), limit);
}

}  // namespace perdure::lsm
