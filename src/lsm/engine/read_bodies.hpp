// What reads a list of runs: bodies of one lane a key, or of one an entry.
#pragma once

#include <cstddef>
#include <cstdint>

#include "exec/counts.hpp"
#include "lsm/engine/engine.hpp"
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

/// A group of keys, through one run after the other. Those that are found drop out.
template <class W, std::uint32_t kGroup>
struct FindBody {
  static constexpr std::size_t kChunk = 512 / kGroup;
  ReadView view;
  Answer* answers;

  PERDURE_FN void operator()(std::size_t group) const {
    W const warp;
    std::size_t const first = group * kGroup;
    std::uint32_t left = view.in_group(first, kGroup);
    std::uint32_t keys[kGroup];
    Wanted wanted[kGroup];
    std::uint32_t at[kGroup];
    for (std::uint32_t j = 0; j < left; ++j) {
      keys[j] = j;
      answers[first + j] = {};
    }
    for (std::uint32_t r = 0; r < view.count && left != 0; ++r) {
      RunView const& run = view.runs[r];
      for (std::uint32_t j = 0; j < left; ++j) wanted[j] = view.wanted(run, first + keys[j]);
      lower_prefixes(warp, run, wanted, left, at);
      std::uint32_t missing = 0;
      for (std::uint32_t j = 0; j < left; ++j) {
        std::size_t const key = first + keys[j];
        std::uint32_t const seen = visible_behind(run, wanted[j], at[j], view.limit_of(key));
        if (seen != run.count) {
          answers[key] = answer_at(run, seen);
        } else {
          keys[missing++] = keys[j];
        }
      }
      left = missing;
    }
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
    Wanted wanted[kGroup];
    std::uint32_t at[kGroup];
    for (std::uint32_t j = 0; j < n; ++j) wanted[j] = view.wanted(run, first + j);
    lower_prefixes(W{}, run, wanted, n, at);
    for (std::uint32_t j = 0; j < n; ++j)
      positions[first + j] = bound_behind(run, wanted[j], at[j], bound == Bound::upper);
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
