// How fast writers may go while flushes cannot keep up. Once level 0 is full, the next memtable is
// free only when RocksDB has compacted all of it, which takes seconds; writers who stop only when
// every memtable is sealed then wait as long. So they go slower before: the more memtables are
// sealed, the longer they take to fill one, in terms of how long a flush takes.
//
// Invariant: no delay is longer than kLongest, and none is there before half of the memtables that
// may be sealed are.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>

namespace perdure::lsm {

struct WritePace {
  std::uint64_t memtable_bytes = 1;
  std::uint64_t most_sealed = 1;  // beyond them writers wait

  using Micros = std::chrono::microseconds;
  static constexpr Micros kLongest{250'000};

  [[nodiscard]] bool is_slow(std::uint64_t sealed) const { return sealed > most_sealed / 2; }
  /// Before a batch of so many bytes. A memtable is filled in `flush`, in twice that, in four
  /// times, with each that is sealed.
  [[nodiscard]] Micros delay(std::uint64_t sealed, std::uint64_t bytes, Micros flush) const {
    if (!is_slow(sealed)) return Micros(0);
    std::uint64_t const doublings = std::min<std::uint64_t>(sealed - most_sealed / 2 - 1, 8);
    double const share = static_cast<double>(bytes) / static_cast<double>(memtable_bytes);
    double const micros =
        static_cast<double>(flush.count()) * share * static_cast<double>(1u << doublings);
    return Micros(
        static_cast<Micros::rep>(std::min(micros, static_cast<double>(kLongest.count()))));
  }
};

}  // namespace perdure::lsm
