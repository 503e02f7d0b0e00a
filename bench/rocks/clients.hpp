// Threads that use a database at the same time, in rounds: all prepare their requests, the clock
// runs while all of them call the database, and then all check the answers.
//
// Invariant: the clock runs from the moment when all clients have prepared to the moment when the
// last of them has its answers, so that what one waits for another is counted.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "histogram.hpp"

namespace perdure::bench::rocks {

class Client {
 public:
  virtual ~Client() = default;
  /// The requests of the next round; false when there are no more.
  virtual bool prepare() = 0;
  virtual void call() = 0;
  /// Throws Failure where an answer is wrong.
  virtual void check() = 0;

  [[nodiscard]] std::uint64_t operations() const { return operations_; }
  /// Answers that were compared with what they had to be.
  [[nodiscard]] std::uint64_t checked() const { return checked_; }
  /// Of single calls.
  [[nodiscard]] Histogram const& latencies() const { return latencies_; }

 protected:
  std::uint64_t operations_ = 0;
  std::uint64_t checked_ = 0;
  Histogram latencies_;
};

using Clients = std::vector<std::unique_ptr<Client>>;

struct Measured {
  std::uint64_t operations = 0;
  double seconds = 0;
  Histogram latencies;

  [[nodiscard]] double mops() const {
    return seconds > 0 ? static_cast<double>(operations) / seconds * 1e-6 : 0;
  }
};

/// Until no client has more, or the clock has run for that long. Throws what a client
/// threw.
Measured run_clients(Clients const& clients, double most_seconds);
/// Of all runs of this process.
[[nodiscard]] std::uint64_t answers_checked();

}  // namespace perdure::bench::rocks
