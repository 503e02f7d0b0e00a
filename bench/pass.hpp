// What one pass over a number of requests gave.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace perdure::bench {

struct Pass {
  std::uint64_t ops = 0;
  std::uint64_t gets = 0;
  std::uint64_t hits = 0;
  std::uint64_t scans = 0;
  std::uint64_t scanned = 0;  // records that scans gave
  double seconds = 0;
  std::vector<double> batch_us;
  std::uint64_t faults = 0;  // answers that were wrong
  std::string first_fault;

  [[nodiscard]] double mops() const {
    return seconds > 0 ? static_cast<double>(ops) / seconds * 1e-6 : 0;
  }
  void add(Pass const& other);
};

}  // namespace perdure::bench
