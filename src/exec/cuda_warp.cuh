// The warp on a GPU: 32 threads in lockstep. The verbs are those of cpu_warp.hpp.
#pragma once

#include <cstddef>
#include <cstdint>

#include "exec/crc_tables.hpp"

namespace perdure::exec {

inline constexpr unsigned kAllLanes = 0xffffffffu;

/// Loads and atomics by single threads; shared by CudaWarp and CudaSolo. Volatile and atomic accesses
/// go to the level of memory that all of the GPU's threads share, so they see each other's stores.
struct CudaAtoms {
  static __device__ std::uint64_t load(std::uint64_t const* at) {
    return *const_cast<std::uint64_t const volatile*>(at);
  }
  static __device__ std::uint32_t load(std::uint32_t const* at) {
    return *const_cast<std::uint32_t const volatile*>(at);
  }
  static __device__ std::uint8_t load(std::uint8_t const* at) { return *const_cast<std::uint8_t const volatile*>(at); }
  static __device__ void store(std::uint8_t* at, std::uint8_t value) {
    *const_cast<std::uint8_t volatile*>(at) = value;
  }
  static __device__ void store(std::uint32_t* at, std::uint32_t value) {
    *const_cast<std::uint32_t volatile*>(at) = value;
  }
  static __device__ void store(std::uint64_t* at, std::uint64_t value) {
    *const_cast<std::uint64_t volatile*>(at) = value;
  }
  static __device__ std::uint64_t cas(std::uint64_t* at, std::uint64_t expected, std::uint64_t desired) {
    return atomicCAS(reinterpret_cast<unsigned long long*>(at), static_cast<unsigned long long>(expected),
                     static_cast<unsigned long long>(desired));
  }
  static __device__ std::uint32_t fetch_or(std::uint32_t* at, std::uint32_t bits) { return atomicOr(at, bits); }
  static __device__ std::uint32_t fetch_and(std::uint32_t* at, std::uint32_t bits) { return atomicAnd(at, bits); }
  static __device__ std::uint64_t fetch_add(std::uint64_t* at, std::uint64_t more) {
    return atomicAdd(reinterpret_cast<unsigned long long*>(at), static_cast<unsigned long long>(more));
  }
};

inline __device__ bool aligned(void const* a, void const* b, std::size_t bytes, std::size_t to) {
  return (reinterpret_cast<std::uintptr_t>(a) | reinterpret_cast<std::uintptr_t>(b) | bytes) % to == 0;
}

class CudaWarp : public CudaAtoms {
 public:
  static constexpr std::uint32_t kLanes = 32;
  static constexpr bool kReadsBackCheaply = false;  // the pool lies across the link
  using Lanes = std::uint64_t;  // each thread holds its own lane's

  __device__ CudaWarp() : lane_(threadIdx.x % kLanes) {}

  template <class RowOf>
  __device__ Lanes rows(std::uint32_t groups, std::uint32_t slots, RowOf row_of) const {
    std::uint32_t const group = lane_ / slots;
    return group < groups ? load(row_of(group) + lane_ % slots) : 0;
  }

  __device__ std::uint32_t match(Lanes lanes, std::uint64_t mask, std::uint64_t want) const {
    return __ballot_sync(kAllLanes, (lanes & mask) == want);
  }

  template <class FirstOf>
  __device__ std::uint32_t bits(std::uint32_t groups, std::uint32_t slots, std::uint32_t const* map,
                                FirstOf first) const {
    std::uint32_t const group = lane_ / slots;
    bool set = false;
    if (group < groups) {
      std::uint64_t const at = first(group) + lane_ % slots;
      set = (load(map + at / 32) >> (at % 32) & 1) != 0;
    }
    return __ballot_sync(kAllLanes, set);
  }

  __device__ std::uint64_t pick(Lanes lanes, std::uint32_t lane) const {
    return __shfl_sync(kAllLanes, lanes, static_cast<int>(lane));
  }

  template <class F>
  __device__ void strided(std::size_t n, F f) const {
    for (std::size_t i = lane_; i < n; i += kLanes) f(i);
    __syncwarp();
  }

  template <class F>
  __device__ std::uint64_t once(F f) const {
    __syncwarp();
    unsigned long long result = 0;
    if (lane_ == 0) result = f();
    return __shfl_sync(kAllLanes, result, 0);
  }

  __device__ bool equal(std::byte const* a, std::byte const* b, std::size_t bytes) const {
    bool same = true;
    if (aligned(a, b, bytes, 8)) {
      auto const* x = reinterpret_cast<std::uint64_t const*>(a);
      auto const* y = reinterpret_cast<std::uint64_t const*>(b);
      for (std::size_t i = lane_; i < bytes / 8; i += kLanes) same &= x[i] == y[i];
    } else {
      for (std::size_t i = lane_; i < bytes; i += kLanes) same &= a[i] == b[i];
    }
    return __all_sync(kAllLanes, same);
  }

  __device__ void copy(std::byte* to, std::byte const* from, std::size_t bytes) const {
    if (aligned(to, from, bytes, 16)) {
      copy_as<uint4>(to, from, bytes);
    } else if (aligned(to, from, bytes, 8)) {
      copy_as<std::uint64_t>(to, from, bytes);
    } else {
      copy_as<std::byte>(to, from, bytes);
    }
    __syncwarp();
  }

  /// Lanes take a 4-byte word each and move it to its place in the polynomial; their sum is the
  /// remainder (the code is linear). All lanes end with the result.
  __device__ std::uint32_t crc32c(std::uint32_t crc, std::byte const* data, std::size_t bytes) const {
    crc = ~crc;
    std::size_t words = bytes / 4;
    for (; words > 0; words -= words < kLanes ? words : kLanes) {
      auto const now = static_cast<std::uint32_t>(words < kLanes ? words : kLanes);
      std::uint32_t part = 0;
      if (lane_ < now) {
        std::uint32_t word;
        memcpy(&word, data + 4 * lane_, 4);
        part = crc_multiply(lane_ == 0 ? word ^ crc : word, crc_power(now - lane_));
      }
      crc = __reduce_xor_sync(kAllLanes, part);
      data += 4 * now;
    }
    for (std::size_t i = 0; i < bytes % 4; ++i) crc = crc_byte(crc, static_cast<std::uint8_t>(data[i]));
    return ~crc;
  }

  __device__ void prefetch(void const*, std::size_t) const {}  // other warps hide the latency

  __device__ void prefetch_to_write(void const*, std::size_t) const {}

  __device__ void fence() const { __threadfence_system(); }

 private:
  template <class T>
  __device__ void copy_as(std::byte* to, std::byte const* from, std::size_t bytes) const {
    for (std::size_t i = lane_; i < bytes / sizeof(T); i += kLanes)
      reinterpret_cast<T*>(to)[i] = reinterpret_cast<T const*>(from)[i];
  }

  std::uint32_t lane_;
};

/// One thread by itself, for bodies that never compare lanes.
class CudaSolo : public CudaAtoms {
 public:
  template <std::uint32_t kSlots>
  struct Row {
    std::uint64_t word[kSlots];
  };
  /// Past the L1 cache, as load(), but two words a load: rows are 16-byte aligned.
  template <std::uint32_t kSlots>
  __device__ Row<kSlots> row(std::uint64_t const* at) const {
    static_assert(kSlots % 2 == 0);
    Row<kSlots> row;
    for (std::uint32_t s = 0; s < kSlots; s += 2) {
      ulonglong2 const two = __ldcv(reinterpret_cast<ulonglong2 const*>(at + s));
      row.word[s] = two.x;
      row.word[s + 1] = two.y;
    }
    return row;
  }

  template <class F>
  __device__ std::uint64_t once(F f) const {
    return f();
  }

  __device__ bool equal(std::byte const* a, std::byte const* b, std::size_t bytes) const {
    return aligned(a, b, bytes, 8) ? equal_as<std::uint64_t>(a, b, bytes) : equal_as<std::byte>(a, b, bytes);
  }

  __device__ void copy(std::byte* to, std::byte const* from, std::size_t bytes) const {
    if (aligned(to, from, bytes, 16)) {
      copy_as<uint4>(to, from, bytes);
    } else if (aligned(to, from, bytes, 8)) {
      copy_as<std::uint64_t>(to, from, bytes);
    } else {
      copy_as<std::byte>(to, from, bytes);
    }
  }

  __device__ void prefetch(void const*, std::size_t) const {}
  __device__ void prefetch_to_write(void const*, std::size_t) const {}
  __device__ void fence() const { __threadfence_system(); }

 private:
  template <class T>
  static __device__ bool equal_as(std::byte const* a, std::byte const* b, std::size_t bytes) {
    for (std::size_t i = 0; i < bytes / sizeof(T); ++i) {
      if (reinterpret_cast<T const*>(a)[i] != reinterpret_cast<T const*>(b)[i]) return false;
    }
    return true;
  }
  template <class T>
  static __device__ void copy_as(std::byte* to, std::byte const* from, std::size_t bytes) {
    for (std::size_t i = 0; i < bytes / sizeof(T); ++i)
      reinterpret_cast<T*>(to)[i] = reinterpret_cast<T const*>(from)[i];
  }
};

}  // namespace perdure::exec
