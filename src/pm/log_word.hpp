// The log word of a pool of durability power: how far the log beside it was durable, as the process
// that writes both last knew. It outlives a kill, so the next opening can tell an older copy of the
// log directory from the pool's own. Invariant: no batch that it counts is missing from that log,
// whatever a crash takes of either: it is stored once they are durable, and an older word says
// less, not more.
//
// The log's thread stores it, beside whatever else is done to the pool, and no ordering point
// follows. Who copies the page meanwhile (a live look) has the word of some moment, and no use for
// it.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/assert.hpp"
#include "base/crc32c.hpp"
#include "pm/pool_format.hpp"

namespace perdure::pm {

/// An LSN is a multiple of so much: a checksum of it has the bits below, so that a damaged word,
/// which would have an opening refused, says nothing instead.
inline constexpr std::uint64_t kLogWordCheck = 4096;

[[nodiscard]] inline std::uint64_t log_word_of(std::uint64_t lsn) {
  PERDURE_ASSERT(lsn % kLogWordCheck == 0);
  return lsn | crc32c(0, &lsn, sizeof lsn) % kLogWordCheck;
}

/// 0: not known.
[[nodiscard]] inline std::uint64_t lsn_of_log_word(std::uint64_t word) {
  std::uint64_t const lsn = word - word % kLogWordCheck;
  return log_word_of(lsn) == word ? lsn : 0;
}

class LogWord {
 public:
  explicit LogWord(std::byte* base)
      : word_(reinterpret_cast<std::uint64_t*>(base + kLogWordOffset)) {}

  /// All batches that end at `lsn` or before it are durable.
  void note(std::uint64_t lsn) {
    std::atomic_ref<std::uint64_t>(*word_).store(log_word_of(lsn), std::memory_order_release);
  }

 private:
  std::uint64_t* word_;
};

}  // namespace perdure::pm
