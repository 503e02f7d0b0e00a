// Puts a batch in the order of a run: by key, and of one key the newest first.
//
// One sort by the word behind the bytes that all keys share; then passes over what ties. In a pass
// each group of ties finds out how much its keys have in common, and is sorted by the word behind
// it, so that every pass divides every group. Invariant: sorts are stable and begin with the newest
// entry, so entries of one key, which never divide, stay newest first.
#pragma once

#include <cstdint>
#include <utility>

#include "exec/counts.hpp"
#include "lsm/engine/key_words.hpp"
#include "perdure/status.h"

namespace perdure::lsm {

inline constexpr std::uint64_t kNoWord = ~std::uint64_t{0};

/// Entries in some order, each with a word by which ties are told.
struct TieList {
  std::uint32_t* slots = nullptr;  // where in the run's order; null: the k-th is at k
  std::uint32_t* entries = nullptr;
  std::uint32_t* groups = nullptr;  // null: all are of one
  std::uint64_t* words = nullptr;
  bool counted = false;  // words are counted_word()s, or kNoWord of entries that need no more

  [[nodiscard]] PERDURE_FN std::uint32_t slot(std::size_t k) const {
    return slots != nullptr ? slots[k] : static_cast<std::uint32_t>(k);
  }
  [[nodiscard]] PERDURE_FN bool alike(std::size_t a, std::size_t b) const {
    if (words[a] != words[b] || (groups != nullptr && groups[a] != groups[b])) return false;
    return !counted || (words[a] & kCounted) == kGoesOn;
  }
};

/// What all keys have in common with key 0, at least.
template <class W>
struct SharedBody {
  exec::ByteColumn keys;
  std::uint64_t* shared;
  PERDURE_FN void operator()(std::size_t i) const {
    std::uint64_t known = W::load(shared);
    if (known == 0) return;
    std::uint64_t const mine = common_bytes(0, keys.at(0), keys.size(0), keys.at(i), keys.size(i));
    while (mine < known) {
      std::uint64_t const before = W::cas(shared, known, mine);
      if (before == known) return;
      known = before;
    }
  }
};

struct FirstWordBody {
  exec::ByteColumn keys;
  std::uint64_t n;
  std::uint64_t shared;
  exec::Sorted* items;
  PERDURE_FN void operator()(std::size_t k) const {
    std::uint64_t const i = n - 1 - k;
    items[k] = {k, key_word(keys.at(i), keys.size(i), shared)};
  }
};

struct FirstOrderBody {
  exec::Sorted const* items;
  std::uint64_t n;
  std::uint32_t* order;
  std::uint64_t* words;
  PERDURE_FN void operator()(std::size_t k) const {
    order[k] = static_cast<std::uint32_t>(n - 1 - items[k].index);
    words[k] = items[k].hash;
  }
};

struct TiedBody {
  TieList list;
  std::size_t n;
  std::uint32_t* tied;
  std::uint32_t* heads;
  PERDURE_FN void operator()(std::size_t k) const {
    bool const before = k > 0 && list.alike(k - 1, k);
    bool const behind = k + 1 < n && list.alike(k, k + 1);
    tied[k] = before || behind;
    heads[k] = behind && !before;
  }
};

struct Ties {
  std::uint32_t const* tied;
  std::uint32_t const* heads;
  std::uint32_t const* tied_before;  // sums
  std::uint32_t const* heads_before;
};

struct TotalsBody {
  Ties ties;
  std::size_t n;
  std::uint32_t* totals;
  PERDURE_FN void operator()(std::size_t) const {
    totals[0] = ties.tied_before[n - 1] + ties.tied[n - 1];
    totals[1] = ties.heads_before[n - 1] + ties.heads[n - 1];
  }
};

/// The ties alone, and of each group its first and that nothing is known of what it shares.
struct CompactBody {
  TieList list;
  Ties ties;
  TieList to;
  std::uint32_t* firsts;
  std::uint64_t* shared;
  PERDURE_FN void operator()(std::size_t k) const {
    if (ties.tied[k] == 0) return;
    std::uint32_t const j = ties.tied_before[k];
    std::uint32_t const group = ties.heads_before[k] + ties.heads[k] - 1;
    to.slots[j] = list.slot(k);
    to.entries[j] = list.entries[k];
    to.groups[j] = group;
    if (ties.heads[k] == 0) return;
    firsts[group] = j;
    shared[group] = kNoWord;
  }
};

/// What each group's keys have in common; of equal keys it stays kNoWord.
template <class W>
struct GroupSharedBody {
  exec::ByteColumn keys;
  TieList list;
  std::uint32_t const* firsts;
  std::uint64_t* shared;
  std::uint64_t from;
  PERDURE_FN void operator()(std::size_t j) const {
    std::uint32_t const group = list.groups[j];
    std::uint32_t const first = list.entries[firsts[group]];
    std::uint32_t const mine = list.entries[j];
    if (first == mine) return;
    std::uint64_t const size = keys.size(mine);
    std::uint64_t const common =
        common_bytes(from, keys.at(first), keys.size(first), keys.at(mine), size);
    if (common == size && size == keys.size(first)) return;
    std::uint64_t known = W::load(shared + group);
    while (common < known) {
      std::uint64_t const before = W::cas(shared + group, known, common);
      if (before == known) return;
      known = before;
    }
  }
};

struct NextWordBody {
  exec::ByteColumn keys;
  TieList list;
  std::uint64_t const* shared;
  exec::Sorted* items;
  PERDURE_FN void operator()(std::size_t j) const {
    std::uint64_t const from = shared[list.groups[j]];
    std::uint32_t const entry = list.entries[j];
    std::uint64_t const word =
        from == kNoWord ? kNoWord : counted_word(keys.at(entry), keys.size(entry), from);
    items[j] = {j, word};
  }
};

/// By group, whose numbers are spread over all words: sorts divide their work by the top bits.
struct RegroupBody {
  exec::Sorted const* items;
  std::uint32_t const* groups;
  std::uint64_t spread;
  exec::Sorted* by_group;
  PERDURE_FN void operator()(std::size_t r) const {
    by_group[r] = {r, groups[items[r].index] * spread};
  }
};

/// Groups keep their slots, in which their entries are now in the order of their words.
struct PlaceBody {
  exec::Sorted const* items;
  exec::Sorted const* by_group;
  TieList list;
  TieList to;
  std::uint32_t* order;
  PERDURE_FN void operator()(std::size_t r) const {
    exec::Sorted const item = items[by_group[r].index];
    std::uint32_t const slot = list.slots[r];
    std::uint32_t const entry = list.entries[item.index];
    to.slots[r] = slot;
    to.entries[r] = entry;
    to.groups[r] = list.groups[item.index];
    to.words[r] = item.hash;
    order[slot] = entry;
  }
};

template <class Machine>
class KeyOrder {
  template <class T>
  using Buffer = typename Machine::template Buffer<T>;
  using Solo = typename Machine::Solo;

 public:
  /// Bytes that all keys have in common.
  Result<std::uint32_t> shared(Machine& machine, exec::ByteColumn const& keys, std::size_t n,
                               std::uint32_t first_size) {
    if (Status s = shared_.resize(1); !s.ok()) return s;
    std::uint64_t const most = first_size;
    if (Status s = machine.send(shared_.data(), &most, 1); !s.ok()) return s;
    if (Status s = machine.threads(n, SharedBody<Solo>{keys, shared_.data()}); !s.ok()) return s;
    auto const found = machine.fetch(shared_, 1);
    if (!found) return found.status();
    return static_cast<std::uint32_t>(found.value()[0]);
  }

  /// Afterwards order() has the entries, and words() what is behind the shared bytes of each.
  /// `whole`: the words are all that there is of the keys.
  Status sort(Machine& machine, exec::ByteColumn const& keys, std::size_t n, std::uint32_t shared,
              bool whole) {
    if (Status s = items_.resize(n); !s.ok()) return s;
    if (Status s = order_.resize(n); !s.ok()) return s;
    if (Status s = words_.resize(n); !s.ok()) return s;
    if (Status s = machine.threads(n, FirstWordBody{keys, n, shared, items_.data()}); !s.ok())
      return s;
    if (n > 1) {
      if (Status s = machine.sort(items_.data(), n); !s.ok()) return s;
    }
    FirstOrderBody const body{items_.data(), n, order_.data(), words_.data()};
    if (Status s = machine.threads(n, body); !s.ok()) return s;
    return whole || n == 1 ? Status{} : divide_ties(machine, keys, n, shared);
  }

  [[nodiscard]] std::uint32_t const* order() const { return order_.data(); }
  [[nodiscard]] std::uint64_t const* words() const { return words_.data(); }

 private:
  struct ListBuffers {
    Buffer<std::uint32_t> slots, entries, groups;
    Buffer<std::uint64_t> words;
    Status resize(std::size_t n) {
      if (Status s = slots.resize(n); !s.ok()) return s;
      if (Status s = entries.resize(n); !s.ok()) return s;
      if (Status s = groups.resize(n); !s.ok()) return s;
      return words.resize(n);
    }
    [[nodiscard]] TieList list() const {
      return {slots.data(), entries.data(), groups.data(), words.data(), true};
    }
  };

  Status divide_ties(Machine& machine, exec::ByteColumn const& keys, std::size_t n,
                     std::uint32_t shared) {
    TieList list{nullptr, order_.data(), nullptr, words_.data(), false};
    for (;;) {
      auto const groups = compact(machine, list, n);
      if (!groups) return groups.status();
      if (n == 0) return {};
      if (Status s = divide(machine, keys, n, groups.value(), shared); !s.ok()) return s;
      list = sorted_.list();
    }
  }

  /// ties_ has those of the list, n is how many; answers how many groups.
  Result<std::size_t> compact(Machine& machine, TieList const& list, std::size_t& n) {
    for (auto* buffer : {&tied_, &heads_, &tied_before_, &heads_before_}) {
      if (Status s = buffer->resize(n); !s.ok()) return s;
    }
    if (Status s = totals_.resize(2); !s.ok()) return s;
    if (Status s = machine.threads(n, TiedBody{list, n, tied_.data(), heads_.data()}); !s.ok())
      return s;
    if (Status s = machine.sums_before(tied_.data(), tied_before_.data(), n); !s.ok()) return s;
    if (Status s = machine.sums_before(heads_.data(), heads_before_.data(), n); !s.ok()) return s;
    Ties const ties{tied_.data(), heads_.data(), tied_before_.data(), heads_before_.data()};
    if (Status s = machine.threads(1, TotalsBody{ties, n, totals_.data()}); !s.ok()) return s;
    auto const totals = machine.fetch(totals_, 2);
    if (!totals) return totals.status();
    std::size_t const all = n;
    n = totals.value()[0];
    std::size_t const groups = totals.value()[1];
    if (Status s = ties_.resize(n); !s.ok()) return s;
    if (Status s = firsts_.resize(groups); !s.ok()) return s;
    if (Status s = group_shared_.resize(groups); !s.ok()) return s;
    CompactBody const body{list, ties, ties_.list(), firsts_.data(), group_shared_.data()};
    if (Status s = machine.threads(n == 0 ? 0 : all, body); !s.ok()) return s;
    return groups;
  }

  /// Sorts each group of ties_ into sorted_.
  Status divide(Machine& machine, exec::ByteColumn const& keys, std::size_t n, std::size_t groups,
                std::uint32_t shared) {
    TieList const list = ties_.list();
    if (Status s = sorted_.resize(n); !s.ok()) return s;
    if (Status s = items_.resize(n); !s.ok()) return s;
    if (Status s = by_group_.resize(n); !s.ok()) return s;
    GroupSharedBody<Solo> const common{keys, list, firsts_.data(), group_shared_.data(), shared};
    if (Status s = machine.threads(n, common); !s.ok()) return s;
    NextWordBody const next{keys, list, group_shared_.data(), items_.data()};
    if (Status s = machine.threads(n, next); !s.ok()) return s;
    if (Status s = machine.sort(items_.data(), n); !s.ok()) return s;
    RegroupBody const regroup{items_.data(), list.groups, kNoWord / groups, by_group_.data()};
    if (Status s = machine.threads(n, regroup); !s.ok()) return s;
    if (groups > 1) {
      if (Status s = machine.sort(by_group_.data(), n); !s.ok()) return s;
    }
    PlaceBody const place{items_.data(), by_group_.data(), list, sorted_.list(), order_.data()};
    return machine.threads(n, place);
  }

  Buffer<exec::Sorted> items_, by_group_;
  Buffer<std::uint32_t> order_;
  Buffer<std::uint64_t> words_;
  Buffer<std::uint32_t> tied_, heads_, tied_before_, heads_before_, totals_;
  ListBuffers ties_, sorted_;
  Buffer<std::uint32_t> firsts_;
  Buffer<std::uint64_t> shared_, group_shared_;
};

}  // namespace perdure::lsm
