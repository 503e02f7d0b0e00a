// Values of more than a word, which a run has as rows of words: how rows are filled, and how they
// come to answers. Invariant: who looked a key up has left in its answer where the row is.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/annotate.hpp"
#include "lsm/engine/engine.hpp"
#include "lsm/engine/run_view.hpp"

namespace perdure::lsm {

/// Lanes that move rows. On a GPU as many a row as it has words, rounded up to a power of two of at
/// most a warp, so that threads that run together touch what lies together; on the host one.
struct RowLanes {
  static constexpr std::uint32_t kMostShift = 5;
  std::uint32_t words;  // of a row
  std::uint32_t shift = 0;

  RowLanes(bool side_by_side, std::uint32_t row_words) : words(row_words) {
    while (side_by_side && shift < kMostShift && std::uint32_t{1} << shift < words) ++shift;
  }
  [[nodiscard]] std::size_t of(std::size_t rows) const { return rows << shift; }

  [[nodiscard]] PERDURE_FN std::size_t row(std::size_t lane) const { return lane >> shift; }
  /// f(word) for each of a lane's words of its row, of which `n` are there.
  template <class F>
  PERDURE_FN void each(std::size_t lane, std::uint32_t n, F const& f) const {
    std::uint32_t const lanes = 1u << shift;
    for (std::uint32_t w = static_cast<std::uint32_t>(lane) & (lanes - 1); w < n; w += lanes) f(w);
  }
};

template <class From>
struct FillRowsBody {
  From from;
  std::uint64_t* rows;
  RowLanes lanes;
  PERDURE_FN void operator()(std::size_t lane) const {
    std::size_t const k = lanes.row(lane);
    auto const row = from.value_row(k);
    std::uint64_t* const to = rows + k * lanes.words;
    lanes.each(lane, lanes.words, [&](std::uint32_t w) { to[w] = row.word(w); });
  }
};

/// Which run of a list, and which entry of it: what an answer's word says until the row is copied.
struct RowPlace {
  static constexpr std::uint32_t kBits = 32;
  std::uint32_t run;
  std::uint32_t entry;

  [[nodiscard]] PERDURE_FN std::uint64_t word() const {
    return std::uint64_t{run} << kBits | entry;
  }
  static PERDURE_FN RowPlace of(std::uint64_t word) {
    return {static_cast<std::uint32_t>(word >> kBits), static_cast<std::uint32_t>(word)};
  }
};

/// Brings answers' rows.
template <class W>
struct AnswerRowsBody {
  static constexpr std::size_t kChunk = 512;
  static constexpr std::size_t kAhead = 16;  // rows that the host has on their way
  RunView const* runs;
  Answer const* answers;
  std::size_t n;
  std::uint64_t* rows;
  std::size_t stride;
  RowLanes lanes;

  PERDURE_FN void operator()(std::size_t lane) const {
    std::size_t const key = lanes.row(lane);
    if (lanes.shift == 0 && key + kAhead < n && has_row(key + kAhead))
      W{}.prefetch(reinterpret_cast<std::byte const*>(row(key + kAhead)), answers[key].size);
    if (!has_row(key)) return;
    std::uint64_t const* const from = row(key);
    std::uint64_t* const to = rows + key * stride;
    lanes.each(lane, RunView::words_of(answers[key].size),
               [&](std::uint32_t w) { to[w] = from[w]; });
  }

 private:
  [[nodiscard]] PERDURE_FN bool has_row(std::size_t key) const {
    return answers[key].inside && answers[key].size > sizeof(std::uint64_t);
  }
  [[nodiscard]] PERDURE_FN std::uint64_t const* row(std::size_t key) const {
    RowPlace const place = RowPlace::of(answers[key].word);
    return runs[place.run].row(place.entry);
  }
};

}  // namespace perdure::lsm
