// Which lines of a pool the transaction that is open has logged, or need no log: a word for each
// unit of four lines, volatile. Invariants: who asks about a line has the lock of what lies there,
// and no two locks are of one unit; a stamp of an earlier transaction says nothing.
#pragma once

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

  explicit LineStamps(std::uint64_t pool_bytes) : words_(pool_bytes / kUnit) {}

  /// Whether this is the first time that the transaction asks about this line.
  [[nodiscard]] bool first(std::uint64_t line, std::uint64_t transaction) const {
    PERDURE_ASSERT(!kCostlyAssertions || line % kCacheLine == 0);
    std::uint64_t& word = words_[line / kUnit];
    std::uint64_t const bit = std::uint64_t{1} << (line / kCacheLine % kLines);
    if (word >> kLines != transaction) word = transaction << kLines;
    if ((word & bit) != 0) return false;
    word |= bit;
    return true;
  }
  /// Whole units that nothing led to before the transaction: what they held need not come back.
  void fresh(std::uint64_t at, std::uint64_t bytes, std::uint64_t transaction) const {
    PERDURE_ASSERT(at % kUnit == 0);
    for (std::uint64_t unit = at / kUnit; unit * kUnit < at + bytes; ++unit)
      words_[unit] = transaction << kLines | ((std::uint64_t{1} << kLines) - 1);
  }
  /// What lies there now is something else than what was asked about.
  void forget(std::uint64_t at, std::uint64_t bytes) const {
    for (std::uint64_t unit = at / kUnit; unit * kUnit < at + bytes; ++unit) words_[unit] = 0;
  }

 private:
  static constexpr std::uint64_t kLines = kUnit / kCacheLine;
  ZeroWords words_;
};

}  // namespace perdure::pm
