// The host's verbs for durable bytes: tables, roots and heaps are written by host code through
// these alone, as kernels write through Memory. Invariant: whatever reads or writes the pool says
// so here, so that the explorer (src/explore) sees each access; in every other build watching is
// nothing at all.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/annotate.hpp"
#include "base/assert.hpp"
#if defined(PERDURE_EXPLORE)
#include "fault/observer.hpp"
#endif

namespace perdure::pm {

#if defined(PERDURE_EXPLORE)
inline void will_read(void const* at, std::size_t bytes) {
  if (fault::observer != nullptr) fault::observer->will_read(at, bytes);
}
inline void will_write(void const* at, std::size_t bytes) {
  if (fault::observer != nullptr) fault::observer->will_write(at, bytes);
}
inline void wrote(void const* at, std::size_t bytes) {
  if (fault::observer != nullptr) fault::observer->wrote(at, bytes);
}
inline void ordered() {
  if (fault::observer != nullptr) fault::observer->order();
}
inline void writes_back(void const* at, std::size_t bytes) {
  if (fault::observer != nullptr) fault::observer->writes_back(at, bytes);
}
inline void will_write_file(int fd, std::uint64_t from, void const* data, std::size_t bytes) {
  if (fault::observer != nullptr) fault::observer->will_write_file(fd, from, data, bytes);
}
inline void synced(int fd) {
  if (fault::observer != nullptr) fault::observer->synced(fd);
}
#else
PERDURE_FN void will_read(void const*, std::size_t) {}
PERDURE_FN void will_write(void const*, std::size_t) {}
PERDURE_FN void wrote(void const*, std::size_t) {}
inline void ordered() {}
inline void writes_back(void const*, std::size_t) {}
inline void will_write_file(int, std::uint64_t, void const*, std::size_t) {}
inline void synced(int) {}
#endif

inline void write_bytes(std::byte* to, void const* from, std::size_t bytes) {
  will_write(to, bytes);
  std::memcpy(to, from, bytes);
  wrote(to, bytes);
}

inline void zero_bytes(std::byte* to, std::size_t bytes) {
  will_write(to, bytes);
  std::memset(to, 0, bytes);
  wrote(to, bytes);
}

inline void store_word(std::uint64_t* to, std::uint64_t value) {
  PERDURE_ASSERT(reinterpret_cast<std::uintptr_t>(to) % sizeof value == 0);  // else it may tear
  will_write(to, sizeof value);
  __atomic_store_n(to, value, __ATOMIC_RELEASE);
  wrote(to, sizeof value);
}

inline std::uint64_t load_word(std::byte const* at) {
  will_read(at, sizeof(std::uint64_t));
  return *reinterpret_cast<std::uint64_t const*>(at);
}

inline void read_bytes(void* to, std::byte const* at, std::size_t bytes) {
  will_read(at, bytes);
  std::memcpy(to, at, bytes);
}

/// Stores before it are seen before stores after it, by everyone who maps the pool.
inline void order() {
  std::atomic_thread_fence(std::memory_order_seq_cst);
  ordered();
}

}  // namespace perdure::pm
