// Ranges of a list of runs: bodies that find where a range begins and ends in each run, merge the
// runs' entries, and write what a range has.
//
// Invariant: the heads of a range are the runs' entries that come next. They are popped by key, of
// one key by the age of runs, and all of a run's entries of one key at once: so the first version
// that a reader sees of a key is the newest that he sees.
#pragma once

#include <cstddef>
#include <cstdint>

#include "lsm/engine/ranges.hpp"
#include "lsm/engine/read_bodies.hpp"

namespace perdure::lsm {

/// Ranges that are read in runs, newest first.
struct RangesView {
  RunView const* runs = nullptr;
  std::uint32_t count = 0;  // of runs
  std::size_t n = 0;  // ranges
  exec::ByteColumn begins, ends;
  bool have_ends = false;
  bool with_erased = false;
  RequestId limit = kNewest;
  std::uint64_t most = 0;
  std::uint32_t shared = 0;  // bytes that all keys of all runs begin with, at least
};

/// Of one run: the entry that comes next, and the word of its key behind what all keys share.
struct RangeHead {
  static constexpr std::uint64_t kAboveAll = ~std::uint64_t{0};
  std::uint64_t word = kAboveAll;  // of no entry, too
  std::uint32_t at = 0;
  std::uint32_t end = 0;
  [[nodiscard]] PERDURE_FN bool is_there() const { return at < end; }
  PERDURE_FN void go_to(RunView const& run, std::uint32_t entry, std::uint64_t shared) {
    at = entry;
    word = is_there() ? run.word(at, shared) : kAboveAll;
  }
};

/// One a range and run: a thread has those of a range side by side, or, on a GPU, threads that run
/// together have those of a run.
struct RangeHeads {
  RangeHead* heads = nullptr;
  std::size_t a_range = 0;  // from one range to the next
  std::size_t a_run = 0;
  [[nodiscard]] PERDURE_FN RangeHead& at(std::size_t range, std::uint32_t run) const {
    return heads[range * a_range + run * a_run];
  }
};

/// An entry that belongs to a range.
struct RangeSlot {
  std::uint32_t run = 0;
  std::uint32_t entry = 0;
  std::uint64_t key_byte = 0;  // where its key goes, from the range's first on
};

/// Each a range and a run, several side by side.
template <class W, std::uint32_t kGroup>
struct RangeSeekBody {
  static constexpr std::size_t kChunk = 512 / kGroup;
  RangesView view;
  RangeHeads heads;

  PERDURE_FN void operator()(std::size_t group) const {
    std::size_t const first = group * kGroup;
    std::size_t const left = view.n * view.count - first;
    std::uint32_t const n = left < kGroup ? static_cast<std::uint32_t>(left) : kGroup;
    std::uint32_t bounds[kGroup];
    find(first, n, view.begins, bounds);
    for (std::uint32_t j = 0; j < n; ++j)
      head(first + j) = {0, bounds[j], view.runs[run(first + j)].count};
    for (std::uint32_t j = 0; j < n; ++j) prefetch_entries(view.runs[run(first + j)], bounds[j]);
    if (view.have_ends) {
      find(first, n, view.ends, bounds);
      for (std::uint32_t j = 0; j < n; ++j) head(first + j).end = bounds[j];
    }
    for (std::uint32_t j = 0; j < n; ++j) {
      RangeHead& one = head(first + j);
      one.go_to(view.runs[run(first + j)], one.at, view.shared);
    }
  }

 private:
  static constexpr std::uint32_t kMostAhead = 128;  // entries

  /// Of what the range is likely to have of the run.
  PERDURE_FN void prefetch_entries(RunView const& run, std::uint32_t at) const {
    W const warp;
    std::uint64_t const each = view.most / view.count + 4;
    std::uint32_t const most = each < kMostAhead ? static_cast<std::uint32_t>(each) : kMostAhead;
    std::uint32_t const n = run.count - at < most ? run.count - at : most;
    warp.prefetch(run.prefixes + at, n * sizeof(std::uint64_t));
    warp.prefetch(run.versions + at, n * sizeof(StoredVersion));
    if (run.words != nullptr) warp.prefetch(run.words + at, n * sizeof(std::uint64_t));
  }
  [[nodiscard]] PERDURE_FN std::size_t range(std::size_t item) const { return item / view.count; }
  [[nodiscard]] PERDURE_FN std::uint32_t run(std::size_t item) const {
    return static_cast<std::uint32_t>(item % view.count);
  }
  [[nodiscard]] PERDURE_FN RangeHead& head(std::size_t item) const {
    return heads.at(range(item), run(item));
  }
  PERDURE_FN void find(std::size_t first, std::uint32_t n, exec::ByteColumn const& keys,
                       std::uint32_t* bounds) const {
    Search searches[kGroup];
    for (std::uint32_t j = 0; j < n; ++j) {
      std::size_t const key = range(first + j);
      searches[j] = {view.runs[run(first + j)], keys.at(key), keys.size(key)};
    }
    search(W{}, searches, n);
    for (std::uint32_t j = 0; j < n; ++j)
      bounds[j] = first_bound(*searches[j].run, searches[j].target, searches[j].at, false);
  }
};

/// Of keys that are alike up to the end of the word at `from`.
PERDURE_FN int compare_entries(RunView const& a, std::uint32_t i, RunView const& b, std::uint32_t j,
                               std::uint64_t from) {
  std::uint32_t const a_size = a.size(i), b_size = b.size(j);
  std::uint32_t const both = a_size < b_size ? a_size : b_size;
  for (std::uint64_t at = from + 8; at < both; at += 8) {
    std::uint64_t const x = a.word(i, at), y = b.word(j, at);
    if (x != y) return x < y ? -1 : 1;
  }
  return a_size == b_size ? 0 : a_size < b_size ? -1 : 1;
}

/// Of a run's entries of one key.
struct KeyEntries {
  std::uint32_t end;  // behind the last
  std::uint32_t seen;  // the newest that the reader sees, or `end`
};

/// Most keys have one version: this is left out of line on the host.
PERDURE_FN KeyEntries entries_of_key(RunView const& run, std::uint32_t first, std::uint32_t end,
                                     RequestId limit) {
  Target target;
  target.key = run.keys != nullptr ? run.key(first) : nullptr;
  target.size = run.size(first);
  target.side = 0;
  target.word = run.prefixes[first];
  std::uint32_t const behind =
      first_not(first + 1, end, [&](std::uint32_t i) { return target.is(run, i); });
  return {behind, first_not(first, behind,
                            [&](std::uint32_t i) { return run.versions[i].request() > limit; })};
}

PERDURE_FN bool is_alone(RunView const& run, std::uint32_t first, std::uint32_t end) {
  return first + 1 == end || run.prefixes[first + 1] != run.prefixes[first];
}

/// Lanes that merge one range each. Without slots they count alone.
struct RangeMergeBody {
  static constexpr std::size_t kChunk = 4;
  RangesView view;
  RangeHeads heads;
  RangeCount* counts;
  RangeSlot* slots;
  std::uint64_t const* firsts;  // each range's first slot; null: each has as many
  std::uint64_t room;  // keys that a range has at most

  PERDURE_FN void operator()(std::size_t range) const {
    Merge merge(*this, range);
    while (merge.goes_on()) merge.pop_least();
    counts[range] = merge.count;
  }

 private:
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};

  struct Merge {
    RangeMergeBody const& body;
    std::size_t range;
    RangeSlot* slot;
    RangeCount count;
    std::uint32_t last_run = kNone;  // of the last key that the reader sees
    std::uint32_t last_entry = 0;
    std::uint64_t last_word = 0;
    bool at_end = false;

    PERDURE_FN Merge(RangeMergeBody const& of, std::size_t number)
        : body(of), range(number), slot(of.slots) {
      if (slot != nullptr) slot += of.firsts != nullptr ? of.firsts[number] : number * of.room;
    }

    [[nodiscard]] PERDURE_FN bool goes_on() const {
      return !at_end && count.is_cut == 0 && count.keys - count.erased < body.view.most;
    }
    [[nodiscard]] PERDURE_FN RangeHead& head(std::uint32_t run) const {
      return body.heads.at(range, run);
    }
    [[nodiscard]] PERDURE_FN bool comes_before(std::uint32_t a, std::uint32_t b) const {
      RangeHead const& x = head(a);
      RangeHead const& y = head(b);
      if (x.word != y.word) return x.word < y.word;
      RunView const* const runs = body.view.runs;
      return compare_entries(runs[a], x.at, runs[b], y.at, body.view.shared) < 0;
    }

    /// The least head, and those behind it in its run that are below all others. Words tell, and
    /// where they do not, whole keys. (No branch depends on whose word is the least.)
    PERDURE_FN void pop_least() {
      std::uint32_t least = 0;
      std::uint64_t word = RangeHead::kAboveAll;
      std::uint64_t others = RangeHead::kAboveAll;  // no other head's word is below
      for (std::uint32_t r = 0; r < body.view.count; ++r) {
        std::uint64_t const one = head(r).word;
        std::uint64_t const more = one < word ? word : one;
        others = more < others ? more : others;
        least = one < word ? r : least;
        word = one < word ? one : word;
      }
      if (word == others) return pop_tied();
      do pop(least);
      while (goes_on() && head(least).word < others);
    }

    PERDURE_FN void pop_tied() {
      std::uint32_t least = kNone;
      for (std::uint32_t r = 0; r < body.view.count; ++r)
        if (head(r).is_there() && (least == kNone || comes_before(r, least))) least = r;
      at_end = least == kNone;
      if (!at_end) pop(least);
    }

    PERDURE_FN void pop(std::uint32_t r) {
      RunView const& run = body.view.runs[r];
      RangeHead& one = head(r);
      KeyEntries key{one.at + 1, one.at};
      if (!is_alone(run, one.at, one.end) || run.versions[one.at].request() > body.view.limit)
        key = entries_of_key(run, one.at, one.end, body.view.limit);
      std::uint64_t const word = one.word;
      if (key.seen != key.end && !is_last(r, key.seen, word)) {
        take(run, r, key.seen);
        if (count.is_cut != 0) return;
        last_run = r;
        last_entry = key.seen;
        last_word = word;
      }
      one.go_to(run, key.end, body.view.shared);
    }

    [[nodiscard]] PERDURE_FN bool is_last(std::uint32_t r, std::uint32_t entry,
                                          std::uint64_t word) const {
      if (last_run == kNone || last_run == r || last_word != word) return false;
      RunView const* const runs = body.view.runs;
      return compare_entries(runs[r], entry, runs[last_run], last_entry, body.view.shared) == 0;
    }

    PERDURE_FN void take(RunView const& run, std::uint32_t r, std::uint32_t entry) {
      Kind const kind = run.versions[entry].kind();
      if (kind == Kind::erase && !body.view.with_erased) return;
      count.is_cut = count.keys == body.room;
      if (count.is_cut != 0) return;
      if (slot != nullptr) *slot++ = {r, entry, count.key_bytes};
      count.keys += 1;
      count.erased += kind == Kind::erase;
      count.merges += kind == Kind::merge;
      count.key_bytes += run.size(entry);
      count.value_bytes += run.size_of_value(entry);
    }
  };
};

PERDURE_FN RangePair pair_of(Answer const& answer) {
  std::uint64_t const at = reinterpret_cast<std::uintptr_t>(answer.data);
  return {answer.inside ? answer.word : at, answer.size, answer.found, answer.inside};
}

/// Where the slots' pairs go.
struct RangeWriter {
  RunView const* runs;
  RangeSlot const* slots;
  RangePair* pairs;
  std::byte* keys;
  std::uint32_t key_width;
  std::uint64_t* key_offsets;  // null: keys have one width
  std::uint64_t const* firsts;  // each range's first pair
  std::uint64_t const* key_bytes;  // where the keys of each range begin

  PERDURE_FN void write(std::size_t range, std::uint64_t slot, std::uint64_t number) const {
    RangeSlot const one = slots[slot];
    RunView const& run = runs[one.run];
    std::uint64_t const pair = firsts[range] + number;
    pairs[pair] = pair_of(answer_at(run, one.entry));
    std::uint64_t at = pair * key_width;
    if (key_offsets != nullptr) key_offsets[pair] = at = key_bytes[range] + one.key_byte;
    std::uint32_t const size = run.size(one.entry);
    if (size == 0) return;  // `keys` may be null
    std::uint64_t const word = run.keys == nullptr ? swapped(run.prefixes[one.entry]) : 0;
    void const* const key =
        run.keys == nullptr ? static_cast<void const*>(&word) : run.key(one.entry);
    if (size == sizeof word)
      memcpy(keys + at, key, sizeof word);
    else
      memcpy(keys + at, key, size);
  }
};

/// One a range: a thread's pairs lie side by side.
struct RangeWriteBody {
  static constexpr std::size_t kChunk = 4;
  RangeWriter to;
  RangeCount const* counts;
  std::uint64_t const* slots;  // each range's first; null: each has as many
  std::uint64_t room;

  PERDURE_FN void operator()(std::size_t range) const {
    std::uint64_t const first = slots != nullptr ? slots[range] : range * room;
    for (std::uint32_t k = 0; k < counts[range].keys; ++k) to.write(range, first + k, k);
  }
};

/// One a slot: threads that run together write pairs side by side.
struct RangeSlotBody {
  RangeWriter to;
  RangeCount const* counts;
  std::uint64_t const* slots;  // as above
  std::uint64_t room;
  std::size_t n;  // ranges

  PERDURE_FN void operator()(std::size_t slot) const {
    std::size_t const range = slots != nullptr ? range_of(slot) : slot / room;
    std::uint64_t const number = slot - (slots != nullptr ? slots[range] : range * room);
    if (number < counts[range].keys) to.write(range, slot, number);
  }

 private:
  /// The last whose first slot is not behind it.
  [[nodiscard]] PERDURE_FN std::size_t range_of(std::size_t slot) const {
    std::size_t begin = 0, end = n;
    while (end - begin > 1) {
      std::size_t const middle = begin + (end - begin) / 2;
      if (slots[middle] <= slot)
        begin = middle;
      else
        end = middle;
    }
    return begin;
  }
};

}  // namespace perdure::lsm
