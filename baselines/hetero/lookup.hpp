// Looking keys up, once for every machine: one thread a key. In four stages, so that a CPU can
// fetch the buckets and pairs of keys to come (section 4.3.4); on a GPU the other threads hide the
// latency. Nothing is locked: batches of one table are of one kind at a time, gets beside gets.
#pragma once

#include <cstdint>

#include "base/annotate.hpp"
#include "exec/counts.hpp"
#include "layout.hpp"

namespace perdure::hetero {

using exec::Counts;

/// What the bodies count, behind what every machine counts.
struct TableCounts {
  enum Name : std::uint32_t { inserted = Counts::kOfMachine, updated, full, kEnd };
};
static_assert(TableCounts::kEnd <= Counts::kNames);

/// The answer for a key that is absent; no value may be it.
inline constexpr std::uint64_t kAbsentValue = ~std::uint64_t{0};

/// The low half of the entry with that signature, which is 0 where there is none. Of several, one.
template <class Row>
PERDURE_FN std::uint32_t match(Row const& row, std::uint32_t signature) {
  std::uint32_t found = 0;
  for (std::uint32_t s = 0; s < kEntries; ++s) {
    std::uint32_t const low =
        signature_in(row.word[s]) == signature ? static_cast<std::uint32_t>(row.word[s]) : 0;
    found = low > found ? low : found;
  }
  return found;
}

/// The location of `key` in this bucket, or kNone. Signatures may be alike, so pairs decide.
template <class W, class M>
PERDURE_FN std::uint32_t find_in(W& warp, M& mem, View const& t, std::uint32_t bucket,
                                 std::uint32_t signature, std::uint64_t key) {
  auto const row = mem.template row<kEntries>(warp, t.row(bucket));
  for (std::uint32_t s = 0; s < kEntries; ++s) {
    if (signature_in(row.word[s]) != signature) continue;
    std::uint32_t const location = location_in(row.word[s]);
    if (mem.load(warp, t.pair(location)) == key) return location;
  }
  return kNone;
}

struct GetBody {
  static constexpr int kStages = 4;
  View table;
  std::uint64_t const* keys;
  std::uint64_t* values;

  template <class W>
  struct State {
    std::uint64_t key;
    std::uint32_t bucket;
    std::uint32_t signature;
    std::uint32_t low;  // of the entry that matches
  };

  template <int kStage, class W, class M>
  PERDURE_FN void stage(W& warp, M& mem, std::uint64_t i, State<W>& s, Counts&) const {
    if constexpr (kStage == 0) {
      s.key = keys[i];
      std::uint64_t const hash = hash_word(s.key, sizeof s.key);
      s.bucket = table.first(hash);
      s.signature = signature_of(hash);
      mem.prefetch(warp, table.row(s.bucket), kRowBytes);
    } else if constexpr (kStage == 1) {
      s.low = match(mem.template row<kEntries>(warp, table.row(s.bucket)), s.signature);
      if (s.low != 0) {
        mem.prefetch(warp, table.pair(s.low - 1), kPairBytes);
      } else {
        mem.prefetch(warp, table.row(table.other(s.bucket, s.signature)), kRowBytes);
      }
    } else if constexpr (kStage == 2) {
      if (s.low != 0) return;
      Offset const second = table.row(table.other(s.bucket, s.signature));
      s.low = match(mem.template row<kEntries>(warp, second), s.signature);
      if (s.low != 0) mem.prefetch(warp, table.pair(s.low - 1), kPairBytes);
    } else {
      values[i] = s.low == 0 ? kAbsentValue : value_of(warp, mem, s);
    }
  }

 private:
  template <class W, class M>
  PERDURE_FN std::uint64_t value_of(W& warp, M& mem, State<W> const& s) const {
    auto const pair = mem.template row<2>(warp, table.pair(s.low - 1));
    if (pair.word[0] == s.key) return pair.word[1];
    std::uint32_t location = find_in(warp, mem, table, s.bucket, s.signature, s.key);
    if (location == kNone)
      location = find_in(warp, mem, table, table.other(s.bucket, s.signature), s.signature, s.key);
    return location == kNone ? kAbsentValue : mem.load(warp, table.pair(location) + 8);
  }
};

}  // namespace perdure::hetero
