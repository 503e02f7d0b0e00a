// Puts entries in the order of a run: by key, and of one key the newest first.
//
// One sort by the word behind the bytes that all keys share; then passes over what ties. In a pass
// each group of ties finds out how much its keys have in common, and is sorted by the word behind
// it, so that every pass divides every group.
//
// Entries have labels, which ascend from the newest entry to the oldest. What a label stands for,
// `Keys` knows: size(label) of the key, and word(label, from), its word from a byte on. Invariant:
// sorts are stable and begin in the order of labels, so entries of one key, which never divide,
// stay newest first.
#pragma once

#include <cstdint>
#include <utility>

#include "exec/counts.hpp"
#include "lsm/engine/key_words.hpp"
#include "perdure/status.h"

namespace perdure::lsm {

inline constexpr std::uint64_t kNoWord = ~std::uint64_t{0};

/// Labels in some order, each with a word by which ties are told: all of them, as they were sorted
/// first, or the ties that are left.
struct TieList {
  exec::Sorted const* all = nullptr;  // null: what follows
  std::uint32_t* slots = nullptr;  // where in the order of all
  std::uint32_t* labels = nullptr;
  std::uint32_t* groups = nullptr;
  std::uint64_t* words = nullptr;  // counted_word()s, or kNoWord of labels that need no more

  [[nodiscard]] PERDURE_FN std::uint32_t slot(std::size_t k) const {
    return all != nullptr ? static_cast<std::uint32_t>(k) : slots[k];
  }
  [[nodiscard]] PERDURE_FN std::uint32_t label(std::size_t k) const {
    return all != nullptr ? static_cast<std::uint32_t>(all[k].index) : labels[k];
  }
  [[nodiscard]] PERDURE_FN bool alike(std::size_t a, std::size_t b) const {
    if (all != nullptr) return all[a].hash == all[b].hash;
    return words[a] == words[b] && groups[a] == groups[b] && (words[a] & kCounted) == kGoesOn;
  }
};

/// How many leading bytes the keys have in common. At least `from` are.
template <class Keys>
PERDURE_FN std::uint64_t common_bytes(Keys const& keys, std::uint32_t a, std::uint32_t b,
                                      std::uint64_t from) {
  std::uint64_t const a_size = keys.size(a);
  std::uint64_t const b_size = keys.size(b);
  std::uint64_t const both = a_size < b_size ? a_size : b_size;
  for (; from < both; from += 8) {
    std::uint64_t differ = keys.word(a, from) ^ keys.word(b, from);
    if (differ == 0) continue;
    for (; differ >> 56 == 0; differ <<= 8) ++from;
    break;
  }
  return from < both ? from : both;
}

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
    to.labels[j] = list.label(k);
    to.groups[j] = group;
    if (ties.heads[k] == 0) return;
    firsts[group] = j;
    shared[group] = kNoWord;
  }
};

/// What each group's keys have in common; of equal keys it stays kNoWord.
template <class W, class Keys>
struct GroupSharedBody {
  Keys keys;
  TieList list;
  std::uint32_t const* firsts;
  std::uint64_t* shared;
  std::uint64_t from;
  PERDURE_FN void operator()(std::size_t j) const {
    std::uint32_t const group = list.groups[j];
    std::uint32_t const first = list.labels[firsts[group]];
    std::uint32_t const mine = list.labels[j];
    if (first == mine) return;
    std::uint64_t const common = common_bytes(keys, first, mine, from);
    if (common == keys.size(mine) && common == keys.size(first)) return;
    std::uint64_t known = W::load(shared + group);
    while (common < known) {
      std::uint64_t const before = W::cas(shared + group, known, common);
      if (before == known) return;
      known = before;
    }
  }
};

template <class Keys>
struct NextWordBody {
  Keys keys;
  TieList list;
  std::uint64_t const* shared;
  exec::Sorted* items;
  PERDURE_FN void operator()(std::size_t j) const {
    std::uint64_t const from = shared[list.groups[j]];
    std::uint32_t const label = list.labels[j];
    items[j] = {j, from == kNoWord ? kNoWord
                                   : counted_word(keys.word(label, from), keys.size(label) - from)};
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
  exec::Sorted* all;
  PERDURE_FN void operator()(std::size_t r) const {
    exec::Sorted const item = items[by_group[r].index];
    std::uint32_t const slot = list.slots[r];
    std::uint32_t const label = list.labels[item.index];
    to.slots[r] = slot;
    to.labels[r] = label;
    to.groups[r] = list.groups[item.index];
    to.words[r] = item.hash;
    all[slot].index = label;
  }
};

template <class Machine>
class KeyOrder {
  template <class T>
  using Buffer = typename Machine::template Buffer<T>;
  using Solo = typename Machine::Solo;

 public:
  /// Where n labels and words are to be put, in the order of labels, before they are sorted.
  Result<exec::Sorted*> room(std::size_t n) {
    if (Status s = all_.resize(n); !s.ok()) return s;
    return all_.data();
  }

  /// Afterwards order() has the labels, and with each the word behind the shared bytes. `whole`:
  /// the words are all that there is of the keys.
  template <class Keys>
  Status sort(Machine& machine, Keys const& keys, std::size_t n, std::uint32_t shared, bool whole) {
    if (n < 2) return {};
    if (Status s = machine.sort(all_.data(), n); !s.ok()) return s;
    return whole ? Status{} : divide_ties(machine, keys, n, shared);
  }

  [[nodiscard]] exec::Sorted const* order() const { return all_.data(); }

 private:
  struct ListBuffers {
    Buffer<std::uint32_t> slots, labels, groups;
    Buffer<std::uint64_t> words;
    Status resize(std::size_t n) {
      if (Status s = slots.resize(n); !s.ok()) return s;
      if (Status s = labels.resize(n); !s.ok()) return s;
      if (Status s = groups.resize(n); !s.ok()) return s;
      return words.resize(n);
    }
    [[nodiscard]] TieList list() const {
      return {nullptr, slots.data(), labels.data(), groups.data(), words.data()};
    }
  };

  template <class Keys>
  Status divide_ties(Machine& machine, Keys const& keys, std::size_t n, std::uint32_t shared) {
    TieList list{.all = all_.data()};
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
  template <class Keys>
  Status divide(Machine& machine, Keys const& keys, std::size_t n, std::size_t groups,
                std::uint32_t shared) {
    TieList const list = ties_.list();
    if (Status s = sorted_.resize(n); !s.ok()) return s;
    if (Status s = items_.resize(n); !s.ok()) return s;
    if (Status s = by_group_.resize(n); !s.ok()) return s;
    GroupSharedBody<Solo, Keys> const common{keys, list, firsts_.data(), group_shared_.data(),
                                             shared};
    if (Status s = machine.threads(n, common); !s.ok()) return s;
    NextWordBody<Keys> const next{keys, list, group_shared_.data(), items_.data()};
    if (Status s = machine.threads(n, next); !s.ok()) return s;
    if (Status s = machine.sort(items_.data(), n); !s.ok()) return s;
    RegroupBody const regroup{items_.data(), list.groups, kNoWord / groups, by_group_.data()};
    if (Status s = machine.threads(n, regroup); !s.ok()) return s;
    if (groups > 1) {
      if (Status s = machine.sort(by_group_.data(), n); !s.ok()) return s;
    }
    PlaceBody const place{items_.data(), by_group_.data(), list, sorted_.list(), all_.data()};
    return machine.threads(n, place);
  }

  Buffer<exec::Sorted> all_, items_, by_group_;
  Buffer<std::uint32_t> tied_, heads_, tied_before_, heads_before_, totals_;
  ListBuffers ties_, sorted_;
  Buffer<std::uint32_t> firsts_;
  Buffer<std::uint64_t> group_shared_;
};

}  // namespace perdure::lsm
