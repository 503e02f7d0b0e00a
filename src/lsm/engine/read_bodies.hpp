// What reads a list of runs: bodies of one lane a key, or of one an entry.
#pragma once

#include <cstddef>
#include <cstdint>

#include "exec/bits.hpp"
#include "exec/counts.hpp"
#include "lsm/engine/engine.hpp"
#include "lsm/engine/filter.hpp"
#include "lsm/engine/run_search.hpp"
#include "lsm/engine/value_rows.hpp"

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
  [[nodiscard]] PERDURE_FN std::uint32_t runs_from(std::uint32_t r, std::uint32_t most) const {
    return count - r < most ? count - r : most;
  }
  [[nodiscard]] PERDURE_FN std::uint32_t in_group(std::size_t first, std::uint32_t most) const {
    return n - first < most ? static_cast<std::uint32_t>(n - first) : most;
  }
};

static_assert(static_cast<int>(Found::put) == static_cast<int>(Kind::put) + 1);
static_assert(static_cast<int>(Found::erased) == static_cast<int>(Kind::erase) + 1);
static_assert(static_cast<int>(Found::merge) == static_cast<int>(Kind::merge) + 1);

PERDURE_FN Answer answer_at(RunView const& run, std::uint32_t at) {
  StoredVersion const version = run.versions[at];
  Answer answer;
  answer.data = version.value;
  answer.request = version.request();
  answer.size = run.size_of_value(at);
  answer.found = static_cast<Found>(static_cast<std::uint8_t>(version.kind()) + 1);
  answer.inside = run.words != nullptr && version.kind() != Kind::erase;
  if (answer.inside) answer.word = run.words[at];
  return answer;
}

/// Keys that go through the runs side by side, several runs at a time.
template <class W, std::uint32_t kGroup>
struct KeyGroup {
  static constexpr std::uint32_t kRuns = 8;
  std::size_t first;  // key
  std::uint32_t missing = 0;  // bit j: key first + j needs more
  std::uint64_t hashes[kGroup];
  std::uint32_t runs[kGroup];  // bit r: the r-th run of this time may have key first + j

  PERDURE_FN KeyGroup(ReadView const& view, std::size_t first_key) : first(first_key) {
    for (std::uint32_t j = 0; j < view.in_group(first, kGroup); ++j) {
      missing |= 1u << j;
      hashes[j] = hash_bytes(view.keys.at(first + j), view.keys.size(first + j));
    }
  }

  /// The words of a run's filter are on their way while those of the run before it are looked at.
  PERDURE_FN void choose_runs(RunView const* all, std::uint32_t count) {
    W const warp;
    FilterWord words[2][kGroup];
    for (std::uint32_t keys = missing; keys != 0; keys &= keys - 1)
      runs[exec::lowest_bit(keys)] = 0;
    for (std::uint32_t r = 0; r <= count; ++r) {
      for (std::uint32_t keys = missing; keys != 0; keys &= keys - 1) {
        std::uint32_t const j = exec::lowest_bit(keys);
        if (r < count && all[r].filter != nullptr) {
          words[r % 2][j] = {hashes[j], all[r].filter_words};
          warp.prefetch(reinterpret_cast<std::byte const*>(all[r].filter + words[r % 2][j].at), 4);
        }
        if (r == 0) continue;
        RunView const& run = all[r - 1];
        FilterWord const& word = words[(r - 1) % 2][j];
        bool const may_be = run.filter == nullptr || (run.filter[word.at] & word.bits) == word.bits;
        runs[j] |= static_cast<std::uint32_t>(may_be) << (r - 1);
      }
    }
  }
};

PERDURE_FN Search search_of(ReadView const& view, RunView const& run, std::size_t key) {
  return {run, view.keys.at(key), view.keys.size(key)};
}

/// Filters say which runs a key may be in, and each key is looked for in the newest of these, then,
/// where it is not there, in the next. `kRows`: answers say where their rows are.
template <class W, std::uint32_t kGroup, bool kRows>
struct FindBody {
  using Group = KeyGroup<W, kGroup>;
  static constexpr std::size_t kChunk = 512 / kGroup;
  ReadView view;
  Answer* answers;

  PERDURE_FN void operator()(std::size_t number) const {
    Group group(view, number * kGroup);
    for (std::uint32_t j = 0; j < view.in_group(group.first, kGroup); ++j)
      answers[group.first + j] = {};
    for (std::uint32_t r = 0; r < view.count && group.missing != 0; r += Group::kRuns)
      find_in(group, view.runs + r, view.runs_from(r, Group::kRuns));
  }

 private:
  PERDURE_FN void point_to_row(Answer& answer, RunView const& run, std::uint32_t at) const {
    if (run.rows == nullptr || answer.found == Found::erased) return;
    answer.inside = true;
    answer.word = RowPlace{static_cast<std::uint32_t>(&run - view.runs), at}.word();
  }
  PERDURE_FN void find_in(Group& group, RunView const* runs, std::uint32_t count) const {
    group.choose_runs(runs, count);
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
        who[n] = j;
        searches[n++] = search_of(view, run, group.first + j);
      }
      search(W{}, searches, n);
      for (std::uint32_t s = 0; s < n; ++s) {
        Search const& one = searches[s];
        std::size_t const key = group.first + who[s];
        std::uint32_t const seen = visible(*one.run, one.target, one.at, view.limit_of(key));
        if (seen == one.run->count) continue;
        answers[key] = answer_at(*one.run, seen);
        if constexpr (kRows) point_to_row(answers[key], *one.run, seen);
        group.missing &= ~(1u << who[s]);
        left &= ~(1u << who[s]);
      }
    }
  }
};

/// Calls f(key, run, entry) for each version of the chains of a group.
template <class W, std::uint32_t kGroup, class F>
PERDURE_FN void walk_chains(ReadView const& view, std::size_t number, F const& f) {
  using Group = KeyGroup<W, kGroup>;
  Group group(view, number * kGroup);
  for (std::uint32_t r = 0; r < view.count && group.missing != 0; ++r) {
    RunView const& run = view.runs[r];
    if (r % Group::kRuns == 0) group.choose_runs(&run, view.runs_from(r, Group::kRuns));
    Search searches[kGroup];
    std::uint32_t who[kGroup];
    std::uint32_t n = 0;
    for (std::uint32_t keys = group.missing; keys != 0; keys &= keys - 1) {
      std::uint32_t const j = exec::lowest_bit(keys);
      if ((group.runs[j] >> r % Group::kRuns & 1) == 0) continue;
      who[n] = j;
      searches[n++] = search_of(view, run, group.first + j);
    }
    search(W{}, searches, n);
    for (std::uint32_t s = 0; s < n; ++s) {
      Target const& target = searches[s].target;
      std::size_t const key = group.first + who[s];
      std::uint32_t at = visible(run, target, searches[s].at, view.limit_of(key));
      for (bool goes_on = true; goes_on && target.is(run, at); ++at) {
        f(key, run, at);
        goes_on = run.versions[at].kind() == Kind::merge;
        if (!goes_on) group.missing &= ~(1u << who[s]);
      }
    }
  }
}

PERDURE_FN Version version_at(RunView const& run, std::uint32_t at) {
  return {run.value(at), run.versions[at].request(), run.versions[at].kind()};
}

template <class W, std::uint32_t kGroup>
struct ChainLengthBody {
  static constexpr std::size_t kChunk = 512 / kGroup;
  ReadView view;
  std::uint64_t* lengths;
  PERDURE_FN void operator()(std::size_t number) const {
    std::size_t const first = number * kGroup;
    for (std::uint32_t j = 0; j < view.in_group(first, kGroup); ++j) lengths[first + j] = 0;
    walk_chains<W, kGroup>(view, number,
                           [&](std::size_t key, RunView const&, std::uint32_t) { ++lengths[key]; });
  }
};

template <class W, std::uint32_t kGroup>
struct ChainBody {
  static constexpr std::size_t kChunk = 512 / kGroup;
  ReadView view;
  std::uint64_t const* offsets;
  Version* versions;
  PERDURE_FN void operator()(std::size_t number) const {
    std::size_t const first = number * kGroup;
    std::uint64_t next[kGroup];
    for (std::uint32_t j = 0; j < view.in_group(first, kGroup); ++j) next[j] = offsets[first + j];
    walk_chains<W, kGroup>(view, number,
                           [&](std::size_t key, RunView const& run, std::uint32_t at) {
                             versions[next[key - first]++] = version_at(run, at);
                           });
  }
};

/// Operands of a key, added up from the newest on.
struct Folded {
  std::uint64_t word = 0;
  std::uint32_t size = 0;
  bool any = false;  // there is a value already
  bool inside = true;  // so far each was in its run, and all had one size
  bool closed = false;

  PERDURE_FN void take(Operation operation, RunView const& run, std::uint32_t at) {
    Kind const kind = run.versions[at].kind();
    closed = kind != Kind::merge;
    if (kind == Kind::erase) return;
    std::uint32_t const theirs = run.size_of_value(at);
    inside &= run.words != nullptr && (!any || theirs == size) &&
              (operation != Operation::add || theirs == sizeof(std::uint64_t));
    if (!inside) return;
    word = any ? of(operation, word, run.words[at]) : run.words[at];
    size = theirs;
    any = true;
  }
  static PERDURE_FN std::uint64_t of(Operation operation, std::uint64_t a, std::uint64_t b) {
    if (operation == Operation::add) return a + b;
    bool const a_is_less = swapped(a) < swapped(b);
    return a_is_less == (operation == Operation::min) ? a : b;
  }
};

template <class W, std::uint32_t kGroup>
struct FoldBody {
  static constexpr std::size_t kChunk = 512 / kGroup;
  ReadView view;
  Operation operation;
  Answer* answers;
  PERDURE_FN void operator()(std::size_t number) const {
    std::size_t const first = number * kGroup;
    Folded folded[kGroup];
    walk_chains<W, kGroup>(view, number,
                           [&](std::size_t key, RunView const& run, std::uint32_t at) {
                             folded[key - first].take(operation, run, at);
                           });
    for (std::uint32_t j = 0; j < view.in_group(first, kGroup); ++j) {
      Answer answer;
      answer.word = folded[j].word;
      answer.size = folded[j].size;
      answer.found = folded[j].closed ? Found::put : Found::merge;
      answer.inside = folded[j].inside && folded[j].any;
      answers[first + j] = answer;
    }
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
    for (std::uint32_t j = 0; j < n; ++j) searches[j] = search_of(view, run, first + j);
    search(W{}, searches, n);
    for (std::uint32_t j = 0; j < n; ++j) {
      Search const& one = searches[j];
      positions[first + j] = first_bound(run, one.target, one.at, bound == Bound::upper);
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
