// A host that counts what it does to durable memory (OpenOptions::count_accesses): of one thread, for one run.
#pragma once

#include <cstddef>
#include <cstdint>

#include "pm/host.hpp"

namespace perdure {

class CountingHost : public pm::OrderedHost {
 public:
  void read(void const*, std::size_t) { ++reads; }
  void flush(void const*, std::size_t) { ++writes; }
  void fence() {
    ++orders;
    OrderedHost::fence();
  }
  void persist(void const* at, std::size_t bytes) {
    flush(at, bytes);
    fence();
  }

  std::uint64_t reads = 0;   // stretches of lines looked at
  std::uint64_t writes = 0;  // stretches that a flush would bring back to memory
  std::uint64_t orders = 0;
};

}  // namespace perdure
