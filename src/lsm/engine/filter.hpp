// Which keys a run may have: a Bloom filter whose bits of one key all lie in one word, so that a
// run without the key costs one access instead of a search. Invariant: a key of the run passes.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/annotate.hpp"
#include "base/hash.hpp"
#include "lsm/engine/run_view.hpp"

namespace perdure::lsm {

struct FilterWord {
  static constexpr std::uint32_t kFewest = 64;  // entries: below it, a search costs as little
  static constexpr std::uint64_t kBitsPerKey = 12;

  std::uint64_t at;
  std::uint32_t bits;

  static std::uint64_t words(std::uint32_t count) {
    return count < kFewest ? 0 : std::uint64_t{count} * kBitsPerKey / 32;
  }
  FilterWord() = default;
  PERDURE_FN FilterWord(std::uint64_t hash, std::uint64_t words)
      : at((hash >> 32) * words >> 32),
        bits(1u << (hash & 31) | 1u << (hash >> 5 & 31) | 1u << (hash >> 10 & 31)) {}
};

PERDURE_FN std::uint64_t hash_of_entry(RunView const& run, std::uint32_t i) {
  if (run.keys != nullptr) return hash_bytes(run.key(i), run.size(i));
  return hash_word(swapped(run.prefixes[i]), run.width);
}

/// The entries of a group, side by side as in a search.
template <class W, std::uint32_t kGroup>
struct FilterBody {
  static constexpr std::size_t kChunk = 2048 / kGroup;
  RunView run;
  std::uint32_t* filter;

  PERDURE_FN void operator()(std::size_t group) const {
    W const warp;
    std::uint64_t const first = group * kGroup;
    std::uint64_t const left = run.count - first;
    std::uint32_t const n = left < kGroup ? static_cast<std::uint32_t>(left) : kGroup;
    FilterWord words[kGroup];
    for (std::uint32_t j = 0; j < n; ++j) {
      words[j] = {hash_of_entry(run, static_cast<std::uint32_t>(first + j)), run.filter_words};
      warp.prefetch_to_write(reinterpret_cast<std::byte*>(filter + words[j].at), sizeof(*filter));
    }
    for (std::uint32_t j = 0; j < n; ++j) W::fetch_or(filter + words[j].at, words[j].bits);
  }
};

}  // namespace perdure::lsm
