#include "soak/allocations.hpp"

#include <atomic>

#include "support/replaced_new.hpp"

namespace perdure::test {
namespace {

std::atomic<bool> in_call = false;
std::atomic<std::uint64_t> seed_of_all = 0, one_of = 0, asked = 0, failed = 0;

}  // namespace

bool allocation_fails() noexcept {
  if (!in_call || one_of == 0 || !fails(seed_of_all, asked++, one_of)) return false;
  ++failed;
  return true;
}

void fail_allocations(std::uint64_t seed, std::uint64_t one_in) {
  seed_of_all = seed;
  one_of = one_in;
}

std::uint64_t failed_allocations() { return failed; }

InCall::InCall() { in_call = true; }
InCall::~InCall() { in_call = false; }

}  // namespace perdure::test
