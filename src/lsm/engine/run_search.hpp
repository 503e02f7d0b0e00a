// Searching in a run: where a key's entries are, and which of its versions a reader sees.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/annotate.hpp"
#include "lsm/engine/key_words.hpp"
#include "lsm/engine/run_view.hpp"

namespace perdure::lsm {

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

/// A key that is looked for in one run. (Nothing is set at first: a group has an array of these,
/// and most calls need few.)
struct Target {
  std::byte const* key;
  std::uint32_t size;
  int side;  // below 0: comes before all of the run's keys, above 0: behind
  std::uint64_t word;  // behind the bytes that the run's keys share

  Target() = default;
  PERDURE_FN Target(RunView const& run, std::byte const* at, std::uint32_t bytes)
      : key(at), size(bytes), side(0), word(key_word(at, bytes, run.shared)) {
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

/// How many words of a line are below `word`.
PERDURE_FN std::uint32_t below_in_line(std::uint64_t const* line, std::uint64_t word) {
  std::uint32_t below = 0;
  for (std::uint32_t i = 0; i < Samples::kFan; ++i) below += line[i] < word;
  return below;
}

/// One search of several. Afterwards `at` is the first entry whose prefix is not below the word.
struct Search {
  RunView const* run;
  Target target;
  std::uint32_t at;

  Search() = default;
  PERDURE_FN Search(RunView const& in, std::byte const* key, std::uint32_t size)
      : run(&in), target(in, key, size), at(0) {}
};

/// What is looked at first of an entry; where keys have several sizes, where its key lies.
template <class W>
PERDURE_FN void prefetch_entry(W const& warp, RunView const& run, std::uint32_t i) {
  warp.prefetch(run.versions + i, sizeof(StoredVersion));
  if (run.words != nullptr) warp.prefetch(run.words + i, sizeof(std::uint64_t));
  if (run.places != nullptr) {
    warp.prefetch(run.places + i, sizeof(std::uint32_t));
    warp.prefetch(run.sizes + i, sizeof(std::uint32_t));
  } else if (run.keys != nullptr) {
    warp.prefetch(run.keys + std::uint64_t{i} * RunView::words_of(run.width),
                  sizeof(std::uint64_t));
  }
}

/// The searches go down side by side, so that what each of them waits for is on its way while the
/// others have their turn.
template <class W>
PERDURE_FN void search(W const& warp, Search* searches, std::uint32_t n) {
  std::uint32_t height = 0;
  for (std::uint32_t j = 0; j < n; ++j) {
    std::uint32_t const mine = searches[j].run->samples.height;
    height = mine > height ? mine : height;
  }
  for (std::uint32_t level = height; level > 0; --level) {
    for (std::uint32_t j = 0; j < n; ++j) {
      Search& one = searches[j];
      RunView const& run = *one.run;
      if (level > run.samples.height) continue;
      one.at = one.at * Samples::kFan + below_in_line(run.line(level, one.at), one.target.word);
      warp.prefetch(run.line(level - 1, one.at), sizeof(std::uint64_t));
    }
  }
  for (std::uint32_t j = 0; j < n; ++j) {
    Search& one = searches[j];
    if (one.run->count == 0) continue;
    one.at = one.at * Samples::kFan + below_in_line(one.run->line(0, one.at), one.target.word);
    prefetch_entry(warp, *one.run, one.at);
  }
  for (std::uint32_t j = 0; j < n; ++j) {
    Search const& one = searches[j];
    if (one.run->places == nullptr || one.at >= one.run->count) continue;
    warp.prefetch(one.run->key(one.at), sizeof(std::uint64_t));
  }
}

/// The first entry with a key not below the target, or, `above`, above it; `at` is the
/// first whose prefix is not below its word.
PERDURE_FN std::uint32_t first_bound(RunView const& run, Target const& target, std::uint32_t at,
                                     bool above) {
  if (target.side != 0) return target.side < 0 ? 0 : run.count;
  return first_not(at, run.count, [&](std::uint32_t i) {
    if (run.prefixes[i] != target.word) return false;
    int const order = target.compare_rest(run, i);
    return above ? order >= 0 : order > 0;
  });
}

/// The newest version of the key that a reader with the limit sees, or run.count; `at` as above.
PERDURE_FN std::uint32_t visible(RunView const& run, Target const& target, std::uint32_t at,
                                 RequestId limit) {
  if (target.side != 0) return run.count;
  std::uint32_t const newest = first_bound(run, target, at, false);
  if (!target.is(run, newest)) return run.count;
  if (run.versions[newest].request() <= limit) return newest;
  std::uint32_t const seen = first_not(newest, run.count, [&](std::uint32_t i) {
    return target.is(run, i) && run.versions[i].request() > limit;
  });
  return target.is(run, seen) ? seen : run.count;
}

}  // namespace perdure::lsm
