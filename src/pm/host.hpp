// Durable memory as threads of the host use it, one operation at a time (index/dash,
// baselines/cpu): shared words, flushed lines and fences. What a flush costs, and who counts, is a
// policy, so an algorithm is written once over a *Host*:
//
//   load(at), store(at, v), cas(at, expected, v)   8-byte words that threads share; acquire,
//                                                  release, both
//   read(at, bytes)           says that the operation reads these lines; before the loads, and once
//                             for each line
//   write(to, from, bytes)    stores bytes that no other thread is led to yet
//   stream(to, from, bytes)   the same past the caches; durable by the next fence(), unflushed
//   flush(at, bytes), fence() what was stored there is durable once the fence is done; persist() is
//                             both
//   prefetch(at), pause()     hints; pause() in a loop that waits for another thread
//   begin()                   an operation begins
//   enters(part)              what the thread is about from here on, for whoever measures that
//   kNear                     memory as near as DRAM, with bandwidth to spare: lines that are
//                             likely to be needed are fetched before it is known which; on
//                             persistent memory each of them is paid for
//
// Of one cache line, memory has what it held after some store: stores to it never arrive without
// those before them. Invariant: a word that two threads use is touched by load, store and cas
// alone. On memory that keeps what was stored when a process dies (tmpfs) flushes are nothing; on
// memory behind caches that a power loss empties, they are everything: which of the two is the
// Host's, never the algorithm's.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/annotate.hpp"
#include "base/line_instructions.hpp"
#include "base/prefetch.hpp"
#include "base/sanitizer.hpp"
#include "pm/flush.hpp"
#include "pm/host_concept.hpp"
#include "pm/host_verbs.hpp"
#include "pm/stream.hpp"

namespace perdure::pm {

/// No flushes: stores are durable in the order in which they are seen.
class OrderedHost {
 public:
  static constexpr bool kFlushes = false;
  static constexpr bool kNear = true;

  static std::uint64_t load(std::uint64_t const* at) {
    return __atomic_load_n(at, __ATOMIC_ACQUIRE);
  }
  static void store(std::uint64_t* at, std::uint64_t value) {
    __atomic_store_n(at, value, __ATOMIC_RELEASE);
  }
  static bool cas(std::uint64_t* at, std::uint64_t expected, std::uint64_t value) {
    return __atomic_compare_exchange_n(at, &expected, value, false, __ATOMIC_ACQ_REL,
                                       __ATOMIC_ACQUIRE);
  }
  static void read(void const*, std::size_t) {}
  static void write(std::byte* to, void const* from, std::size_t bytes) {
    write_bytes(to, from, bytes);
  }
  static void stream(std::byte* to, std::byte const* from, std::size_t bytes) {
    stream_bytes(to, from, bytes);
  }
  static void flush(void const*, std::size_t) {}
  static void fence() { __atomic_signal_fence(__ATOMIC_SEQ_CST); }
  static void persist(void const*, std::size_t) { fence(); }
  /// The builtin alone has no effect that GCC knows of: it leaves out calls of functions that do
  /// nothing else.
  static void prefetch(void const* at) { prefetch_line(at); }
  static void pause() { __builtin_ia32_pause(); }
  static void begin() {}
  static void enters(Part) {}
};

/// Lines go back to memory by clwb, or what the processor has instead; fence() waits for them.
class FlushedHost : public OrderedHost {
 public:
  static constexpr bool kFlushes = true;

  /// start_flush() and finish_flushes(), without calls.
  PERDURE_HOT static void flush(void const* at, std::size_t bytes) {
    flush_lines(at, bytes);
    writes_back(at, bytes);
  }
  static void fence() { order_line_instructions(); }
  PERDURE_HOT static void persist(void const* at, std::size_t bytes) {
    flush(at, bytes);
    fence();
  }
};

static_assert(Host<OrderedHost> && Host<FlushedHost>);

}  // namespace perdure::pm
