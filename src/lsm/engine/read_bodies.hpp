// What reads a list of runs: bodies of one lane a key, or of one an entry.
#pragma once

#include <cstddef>
#include <cstdint>

#include "exec/counts.hpp"
#include "lsm/engine/engine.hpp"
#include "lsm/engine/run_view.hpp"

namespace perdure::lsm {

/// Keys that are looked for in runs, newest first.
struct ReadView {
  RunView const* runs = nullptr;
  std::uint32_t count = 0;  // of runs
  exec::ByteColumn keys;
  RequestId const* limits = nullptr;  // null: all have `limit`
  RequestId limit = kNewest;

  [[nodiscard]] PERDURE_FN RequestId limit_of(std::size_t i) const {
    return limits != nullptr ? limits[i] : limit;
  }
  [[nodiscard]] PERDURE_FN Wanted wanted(RunView const& run, std::size_t i) const {
    return {run, keys.at(i), keys.size(i)};
  }
};

struct FindBody {
  ReadView view;
  Answer* answers;

  PERDURE_FN void operator()(std::size_t i) const {
    Answer answer;
    for (std::uint32_t r = 0; r < view.count && answer.found == Found::absent; ++r) {
      RunView const& run = view.runs[r];
      std::uint32_t const at = visible(run, view.wanted(run, i), view.limit_of(i));
      if (at == run.count) continue;
      StoredVersion const version = run.versions[at];
      Kind const kind = version.kind();
      answer.value = run.value(at);
      answer.request = version.request();
      answer.found = kind == Kind::put     ? Found::put
                     : kind == Kind::erase ? Found::erased
                                           : Found::merge;
    }
    answers[i] = answer;
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

struct SeekBody {
  ReadView view;  // of one run
  Bound bound;
  std::uint32_t* positions;
  PERDURE_FN void operator()(std::size_t i) const {
    RunView const& run = view.runs[0];
    positions[i] = bound_of(run, view.wanted(run, i), bound == Bound::upper);
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
