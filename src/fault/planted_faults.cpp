#include "fault/planted_faults.hpp"

namespace perdure::fault {

Fault failing_allocation;
Fault lost_device;

bool Fault::counts_down() {
  std::int64_t left = left_;
  for (;;) {
    if (left == 0) return false;
    std::int64_t const after = left > 1 ? left - 1 : left < 0 || for_good_ ? -1 : 0;
    if (left_.compare_exchange_weak(left, after)) break;
  }
  if (left > 1) return false;
  struck_ = true;
  return true;
}

}  // namespace perdure::fault
