// Which words of a pool the transaction that is open has logged, or need no log: a bit for each
// pair of words, one volatile word for each unit of four lines. Invariants: who asks about a pair
// has the lock of what lies there, and no two locks are of one unit; a stamp of an earlier
// transaction says nothing.
#pragma once

#include <bit>
#include <cstdint>

#include "base/assert.hpp"
#include "base/hooks.hpp"
#include "base/zero_words.hpp"
#include "pm/flush.hpp"

namespace perdure::pm {

class LineStamps {
 public:
  /// What is locked as a whole begins at multiples of it.
  static constexpr std::uint64_t kUnit = 4 * kCacheLine;
  static constexpr std::uint64_t kPair = 16;  // bytes: an entry of a leaf
  static constexpr unsigned kPairs = kCacheLine / kPair;  // of a line

  explicit LineStamps(std::uint64_t pool_bytes) : words_(pool_bytes / kUnit) {}

  /// Which pairs of a line the transaction has not asked about yet, a bit each.
  [[nodiscard]] unsigned open(std::uint64_t line, std::uint64_t transaction) const {
    std::uint64_t const word = words_[line / kUnit];
    if (!of(word, transaction)) return kAll;
    return ~static_cast<unsigned>(word >> shift(line)) & kAll;
  }
  /// Those of them it asks about now.
  void close(std::uint64_t line, unsigned pairs, std::uint64_t transaction) const {
    PERDURE_ASSERT(!kCostlyAssertions || (line % kCacheLine == 0 && pairs <= kAll));
    if (mutated("undo_piece_stands_for_line")) pairs = kAll;
    std::uint64_t& word = words_[line / kUnit];
    if (!of(word, transaction)) word = transaction << kBits;
    word |= std::uint64_t{pairs} << shift(line);
  }
  /// Whole units that nothing led to before the transaction: what they held need not come back.
  void fresh(std::uint64_t at, std::uint64_t bytes, std::uint64_t transaction) const {
    PERDURE_ASSERT(at % kUnit == 0);
    for (std::uint64_t unit = at / kUnit; unit * kUnit < at + bytes; ++unit)
      words_[unit] = transaction << kBits | ((std::uint64_t{1} << kBits) - 1);
  }

 private:
  static constexpr unsigned kBits = kUnit / kPair;  // below the transaction's number
  static constexpr unsigned kAll = (1u << kPairs) - 1;

  static bool of(std::uint64_t word, std::uint64_t transaction) {
    return (word ^ transaction << kBits) >> kBits == 0;
  }
  static unsigned shift(std::uint64_t line) {
    return static_cast<unsigned>(line / kCacheLine % (kUnit / kCacheLine)) * kPairs;
  }
  ZeroWords words_;
};

}  // namespace perdure::pm
