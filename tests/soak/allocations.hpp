// Memory of the host that is not to be had: `operator new` of this program, which fails now and
// then while a call of a store is under way, in whatever thread. Invariant: outside of InCall
// nothing fails; the same seed and the same allocations fail again.
#pragma once

#include <cstdint>

namespace perdure::test {

/// From now on one allocation in `one_in` fails within calls; 0: none does.
void fail_allocations(std::uint64_t seed, std::uint64_t one_in);
[[nodiscard]] std::uint64_t failed_allocations();

/// A call of a store's is under way; of one thread at a time.
class InCall {
 public:
  InCall();
  ~InCall();
  InCall(InCall const&) = delete;
  InCall& operator=(InCall const&) = delete;
};

/// Whether the n-th of many fails, one in `one_in` of them.
[[nodiscard]] constexpr bool fails(std::uint64_t seed, std::uint64_t n, std::uint64_t one_in) {
  std::uint64_t x = seed * 0x9e3779b97f4a7c15 + n * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 30)) * 0x94d049bb133111eb;
  x ^= x >> 31;
  return one_in != 0 && x % one_in == 0;
}

}  // namespace perdure::test
