// Calls of a store's of which each allocation counts towards the one that is to fail, and the keys
// and values they are given. Invariant: what a test allocates between the calls is not counted, so
// that the n-th allocation is the same one whenever a call is repeated.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "failing_new.hpp"
#include "perdure/store.h"

namespace perdure::test {

inline std::uint64_t planned = 0;  // allocations of calls, until one fails

/// A call of the store's: its allocations count, and the test's own do not.
template <class F>
auto counted(F call) {
  struct Counting {
    Counting() { allocations_left = planned; }
    ~Counting() {
      planned = allocations_left;
      allocations_left = 0;
    }
  } const counting;
  return call();
}

/// What a call answers. Its allocations are counted, not those of looking at its answer.
template <class F>
Code code_of(F call) {
  auto const answer = counted(call);
  if constexpr (requires { answer.code(); })
    return answer.code();
  else
    return answer.status().code();
}

struct Value {
  std::uint64_t key, version;
  bool operator==(Value const&) const = default;
};
using Contents = std::map<std::uint64_t, Value>;
using Keys = std::vector<std::uint64_t>;

inline Keys keys_from(std::uint64_t first, std::uint64_t n) {
  Keys keys(n);
  for (std::uint64_t i = 0; i < n; ++i) keys[i] = first + i;
  return keys;
}
inline std::vector<Value> values_of(Keys const& keys, std::uint64_t version) {
  std::vector<Value> values;
  for (std::uint64_t const key : keys) values.push_back({key, version});
  return values;
}
inline Column column(Keys const& keys) {
  return {reinterpret_cast<std::byte const*>(keys.data()), nullptr, 8, keys.size(),
          MemorySpace::host};
}
inline Column column(std::vector<Value> const& values) {
  return {reinterpret_cast<std::byte const*>(values.data()), nullptr, sizeof(Value), values.size(),
          MemorySpace::host};
}

}  // namespace perdure::test
