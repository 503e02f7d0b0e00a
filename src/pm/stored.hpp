// What an operation is about to store to, for Hosts that have to do something before: one that logs
// what it overwrites then logs all of it at once, behind one fence. To others it is nothing.
// Invariant: announcing changes nothing that anybody reads, so whoever does not announce is right,
// and slower.
#pragma once

#include <cstddef>
#include <span>

namespace perdure::pm {

struct Stored {
  void const* at;
  std::size_t bytes;
};

template <class Host, std::size_t kParts>
void will_store(Host& host, Stored const (&parts)[kParts]) {
  if constexpr (requires { host.will_store(std::span<Stored const>(parts)); })
    host.will_store(std::span<Stored const>(parts));
}
template <class Host>
void will_store(Host& host, std::span<Stored const> parts) {
  if constexpr (requires { host.will_store(parts); }) host.will_store(parts);
}

}  // namespace perdure::pm
