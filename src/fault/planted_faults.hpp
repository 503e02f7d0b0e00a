// Faults that tests plant in the machines: allocations of machine memory that fail, launches that
// do, and with `for_good` all that follow. Defined in planted_faults.cpp, so that every copy of a
// machine asks the same ones. Invariant: only tests plant any. A machine asks once an allocation or
// a launch, and finds a zero.
#pragma once

#include <atomic>
#include <cstdint>

namespace perdure::fault {

class Fault {
 public:
  /// The n-th event from now on fails; 0 = none.
  void plant(std::uint64_t nth, bool for_good = false) {
    struck_ = false;
    for_good_ = for_good;
    left_ = static_cast<std::int64_t>(nth);
  }
  /// Whether an event has failed since then.
  [[nodiscard]] bool struck() const { return struck_; }

  /// An event happens. True: it fails.
  bool strikes() { return left_.load(std::memory_order_relaxed) != 0 && counts_down(); }

 private:
  bool counts_down();

  std::atomic<std::int64_t> left_{0};  // events until one fails; negative: all do
  std::atomic<bool> for_good_{false};
  std::atomic<bool> struck_{false};
};

extern Fault failing_allocation;
extern Fault lost_device;  // its events are launches

}  // namespace perdure::fault
