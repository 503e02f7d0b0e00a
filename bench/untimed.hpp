// Batches whose time nobody asks for: loads, what a cache learns from, and reading back.
//
// Invariant: while the store has one batch, the last one's answers are checked and the next one is
// made, so that the store seldom waits. Batches are submitted in the order of the requests, one
// after the other, and each answer is checked as Driver checks it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "lot.hpp"

namespace perdure::bench {

class Untimed {
 public:
  /// Batches of at most `batch` requests, with the arrays in host memory.
  Untimed(Dataset const& dataset, std::size_t batch);

  /// The next `ops` requests of a stream without scans. The pass has no times.
  Pass run(Store& store, RequestStream& stream, std::uint64_t ops);

  /// Gets all of the stream's records and checks that each is there at its version.
  Pass read_back(Store& store, RequestStream const& stream);

 private:
  /// Fills in the next requests; none: there are no more.
  using Draw = std::function<void(std::vector<Request>&)>;
  Pass go(Store& store, Draw const& draw);

  std::size_t batch_;
  std::array<Lot, 2> lots_;
};

}  // namespace perdure::bench
