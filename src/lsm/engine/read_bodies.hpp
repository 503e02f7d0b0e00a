// What reads a list of runs: bodies of one lane a key, or of one an entry.
#pragma once

#include <cstddef>
#include <cstdint>

#include "exec/bits.hpp"
#include "exec/counts.hpp"
#include "lsm/engine/engine.hpp"
#include "lsm/engine/filter.hpp"
#include "lsm/engine/run_search.hpp"

namespace perdure::lsm {

/// Keys that are looked for in runs, newest first.
struct ReadView {
  RunView const* runs = nullptr;
  std::uint32_t count = 0;  // of runs
  std::size_t n = 0;  // keys
  exec::ByteColumn keys;
  RequestId const* limits = nullptr;  // null: all have `limit`
  RequestId limit = kNewest;

  [[nodiscard]] PERDURE_FN RequestId limit_of(std::size_t i) const {
    return limits != nullptr ? limits[i] : limit;
  }
  [[nodiscard]] PERDURE_FN std::uint32_t in_group(std::size_t first, std::uint32_t most) const {
    return n - first < most ? static_cast<std::uint32_t>(n - first) : most;
  }
  [[nodiscard]] PERDURE_FN Wanted wanted(RunView const& run, std::size_t i) const {
    return {run, keys.at(i), keys.size(i)};
  }
};

static_assert(static_cast<int>(Found::put) == static_cast<int>(Kind::put) + 1);
static_assert(static_cast<int>(Found::erased) == static_cast<int>(Kind::erase) + 1);
static_assert(static_cast<int>(Found::merge) == static_cast<int>(Kind::merge) + 1);

PERDURE_FN Answer answer_at(RunView const& run, std::uint32_t at) {
  StoredVersion const version = run.versions[at];
  auto const found = static_cast<Found>(static_cast<std::uint8_t>(version.kind()) + 1);
  return {run.value(at), version.request(), found};
}

/// A group of keys, through several runs at a time: filters say which runs a key may be in, and
/// each key is looked for in the newest of these, then, where it is not there, in the next.
template <class W, std::uint32_t kGroup>
struct FindBody {
  static constexpr std::size_t kChunk = 512 / kGroup;
  static constexpr std::uint32_t kRuns = 8;
  ReadView view;
  Answer* answers;

  struct Group {
    std::size_t first = 0;  // key
    std::uint32_t missing = 0;  // bit j: key first + j
    std::uint64_t hashes[kGroup];
    std::uint32_t runs[kGroup];  // bit r: the r-th run of this time may have it
  };

  PERDURE_FN void operator()(std::size_t number) const {
    Group group;
    group.first = number * kGroup;
    std::uint32_t const n = view.in_group(group.first, kGroup);
    for (std::uint32_t j = 0; j < n; ++j) {
      std::size_t const key = group.first + j;
      group.missing |= 1u << j;
      if (view.count > 1) group.hashes[j] = hash_bytes(view.keys.at(key), view.keys.size(key));
      answers[key] = {};
    }
    for (std::uint32_t r = 0; r < view.count && group.missing != 0; r += kRuns)
      find_in(group, view.runs + r, view.count - r < kRuns ? view.count - r : kRuns);
  }

 private:
  PERDURE_FN void find_in(Group& group, RunView const* runs, std::uint32_t count) const {
    choose_runs(group, runs, count);
    for (std::uint32_t left = group.missing; left != 0;) {
      Search searches[kGroup];
      std::uint32_t who[kGroup];
      std::uint32_t n = 0;
      for (std::uint32_t keys = left; keys != 0; keys &= keys - 1) {
        std::uint32_t const j = exec::lowest_bit(keys);
        if (group.runs[j] == 0) {
          left &= ~(1u << j);
          continue;
        }
        RunView const& run = runs[exec::lowest_bit(group.runs[j])];
        group.runs[j] &= group.runs[j] - 1;
        std::size_t const key = group.first + j;
        who[n] = j;
        searches[n++] = Search(run, view.keys.at(key), view.keys.size(key));
      }
      search(W{}, searches, n);
      for (std::uint32_t s = 0; s < n; ++s) {
        Search const& one = searches[s];
        std::size_t const key = group.first + who[s];
        std::uint32_t const seen = visible_behind(*one.run, one.wanted, one.at, view.limit_of(key));
        if (seen == one.run->count) continue;
        answers[key] = answer_at(*one.run, seen);
        group.missing &= ~(1u << who[s]);
        left &= ~(1u << who[s]);
      }
    }
  }

  /// The words of a run's filter are on their way while those of the run before it are looked at.
  PERDURE_FN void choose_runs(Group& group, RunView const* runs, std::uint32_t count) const {
    W const warp;
    FilterWord words[2][kGroup];
    for (std::uint32_t j = 0; j < kGroup; ++j) group.runs[j] = 0;
    for (std::uint32_t r = 0; r <= count; ++r) {
      for (std::uint32_t keys = group.missing; keys != 0; keys &= keys - 1) {
        std::uint32_t const j = exec::lowest_bit(keys);
        if (r < count && filters(runs[r])) {
          words[r % 2][j] = {group.hashes[j], runs[r].filter_words};
          warp.prefetch(reinterpret_cast<std::byte const*>(runs[r].filter + words[r % 2][j].at), 4);
        }
        if (r == 0) continue;
        RunView const& run = runs[r - 1];
        FilterWord const& word = words[(r - 1) % 2][j];
        bool const may_be = !filters(run) || (run.filter[word.at] & word.bits) == word.bits;
        group.runs[j] |= static_cast<std::uint32_t>(may_be) << (r - 1);
      }
    }
  }
  /// Of one run alone, the filter tells little: most keys are there, or it is as well searched.
  [[nodiscard]] PERDURE_FN bool filters(RunView const& run) const {
    return run.filter != nullptr && view.count > 1;
  }
};

/// Calls f(run, entry) for the versions of key i's chain.
template <class F>
PERDURE_FN void walk_chain(ReadView const& view, std::size_t i, F const& f) {
  for (std::uint32_t r = 0; r < view.count; ++r) {
    RunView const& run = view.runs[r];
    Wanted const wanted = view.wanted(run, i);
    std::uint32_t at = visible(run, wanted, view.limit_of(i));
    for (; wanted.is(run, at); ++at) {
      f(run, at);
      if (run.versions[at].kind() != Kind::merge) return;
    }
  }
}

PERDURE_FN Version version_at(RunView const& run, std::uint32_t at) {
  return {run.value(at), run.versions[at].request(), run.versions[at].kind()};
}

struct ChainLengthBody {
  ReadView view;
  std::uint64_t* lengths;
  PERDURE_FN void operator()(std::size_t i) const {
    std::uint64_t n = 0;
    walk_chain(view, i, [&](RunView const&, std::uint32_t) { ++n; });
    lengths[i] = n;
  }
};

struct ChainBody {
  ReadView view;
  std::uint64_t const* offsets;
  Version* versions;
  PERDURE_FN void operator()(std::size_t i) const {
    Version* to = versions + offsets[i];
    walk_chain(view, i, [&](RunView const& run, std::uint32_t at) { *to++ = version_at(run, at); });
  }
};

template <class W, std::uint32_t kGroup>
struct SeekBody {
  static constexpr std::size_t kChunk = 512 / kGroup;
  ReadView view;  // of one run
  Bound bound;
  std::uint32_t* positions;

  PERDURE_FN void operator()(std::size_t group) const {
    RunView const& run = view.runs[0];
    std::size_t const first = group * kGroup;
    std::uint32_t const n = view.in_group(first, kGroup);
    Search searches[kGroup];
    for (std::uint32_t j = 0; j < n; ++j)
      searches[j] = Search(run, view.keys.at(first + j), view.keys.size(first + j));
    search(W{}, searches, n);
    for (std::uint32_t j = 0; j < n; ++j) {
      Search const& one = searches[j];
      positions[first + j] = bound_behind(run, one.wanted, one.at, bound == Bound::upper);
    }
  }
};

/// Entries [first, ...) of a run.
struct EntrySizesBody {
  RunView run;
  std::uint32_t first;
  std::uint64_t* sizes;
  PERDURE_FN void operator()(std::size_t i) const {
    sizes[i] = run.size(first + static_cast<std::uint32_t>(i));
  }
};

struct EntryVersionsBody {
  RunView run;
  std::uint32_t first;
  Version* versions;
  PERDURE_FN void operator()(std::size_t i) const {
    versions[i] = version_at(run, first + static_cast<std::uint32_t>(i));
  }
};

struct EntryKeysBody {
  RunView run;
  std::uint32_t first;
  std::uint64_t const* offsets;
  std::byte* keys;
  PERDURE_FN void operator()(std::size_t i) const {
    std::uint32_t const entry = first + static_cast<std::uint32_t>(i);
    std::uint32_t const size = run.size(entry);
    if (size == 0) return;  // `keys` may be null
    std::uint64_t const word = run.keys == nullptr ? swapped(run.prefixes[entry]) : 0;
    void const* const key = run.keys == nullptr ? static_cast<void const*>(&word) : run.key(entry);
    memcpy(keys + offsets[i], key, size);
  }
};

}  // namespace perdure::lsm
