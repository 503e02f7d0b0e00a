#include "failing_new.hpp"

#include "support/replaced_new.hpp"

namespace perdure::test {

constinit thread_local std::uint64_t allocations_left = 0;
constinit thread_local bool struck = false;
constinit std::atomic<std::uint64_t> all_threads_left = 0;

bool allocation_fails() noexcept {
  if (allocations_left != 0 && --allocations_left == 0) return struck = true;
  return all_threads_left != 0 && --all_threads_left == 0;
}

}  // namespace perdure::test
