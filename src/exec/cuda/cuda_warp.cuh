// The warp on a GPU: 32 threads in lockstep. The verbs are those of cpu_warp.hpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "exec/crc_tables.hpp"
#include "exec/cuda/cuda_crc.cuh"
#include "exec/warp_concept.hpp"

namespace perdure::exec {

inline constexpr unsigned kAllLanes = 0xffffffffu;

/// Loads and atomics by single threads; shared by CudaWarp and CudaSolo. Volatile and atomic
/// accesses go to the level of memory that all of the GPU's threads share, so they see each other's
/// stores.
struct CudaAtoms {
  static __device__ std::uint64_t load(std::uint64_t const* at) {
    return *const_cast<std::uint64_t const volatile*>(at);
  }
  static __device__ std::uint32_t load(std::uint32_t const* at) {
    return *const_cast<std::uint32_t const volatile*>(at);
  }
  static __device__ std::uint8_t load(std::uint8_t const* at) {
    return *const_cast<std::uint8_t const volatile*>(at);
  }
  static __device__ void store(std::uint8_t* at, std::uint8_t value) {
    *const_cast<std::uint8_t volatile*>(at) = value;
  }
  static __device__ void store(std::uint32_t* at, std::uint32_t value) {
    *const_cast<std::uint32_t volatile*>(at) = value;
  }
  static __device__ void store(std::uint64_t* at, std::uint64_t value) {
    *const_cast<std::uint64_t volatile*>(at) = value;
  }
  /// A link carries what a warp's lanes store side by side as one. (Whether it would if the stores
  /// were volatile has not been measured.)
  static __device__ void store_cell(std::uint32_t* at, std::uint32_t value) { __stcg(at, value); }
  /// As one store, for a link carries what a warp's lanes store at a time: `at` is a multiple
  /// of 16.
  static __device__ void store_pair(std::uint64_t* at, std::uint64_t first, std::uint64_t second) {
    __stcg(reinterpret_cast<ulonglong2*>(at), make_ulonglong2(first, second));
  }
  static __device__ std::uint64_t cas(std::uint64_t* at, std::uint64_t expected,
                                      std::uint64_t desired) {
    return atomicCAS(reinterpret_cast<unsigned long long*>(at),
                     static_cast<unsigned long long>(expected),
                     static_cast<unsigned long long>(desired));
  }
  static __device__ std::uint32_t fetch_or(std::uint32_t* at, std::uint32_t bits) {
    return atomicOr(at, bits);
  }
  static __device__ std::uint64_t fetch_add(std::uint64_t* at, std::uint64_t more) {
    return atomicAdd(reinterpret_cast<unsigned long long*>(at),
                     static_cast<unsigned long long>(more));
  }
  static __device__ std::uint32_t fetch_add(std::uint32_t* at, std::uint32_t more) {
    return atomicAdd(at, more);
  }
  static __device__ std::uint32_t fetch_and(std::uint32_t* at, std::uint32_t bits) {
    return atomicAnd(at, bits);
  }
  static __device__ void pause() { __nanosleep(100); }
};

inline __device__ bool aligned(void const* a, void const* b, std::size_t bytes, std::size_t to) {
  return (reinterpret_cast<std::uintptr_t>(a) | reinterpret_cast<std::uintptr_t>(b) | bytes) % to ==
         0;
}

class CudaWarp : public CudaAtoms {
 public:
  static constexpr std::uint32_t kLanes = 32;
  static constexpr bool kReadsBackCheaply = false;  // the pool lies across the link
  static constexpr bool kPrefetches = false;  // other warps run while it waits
  static constexpr bool kJoinsEach = true;
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

  __device__ std::uint64_t broadcast(Lanes lanes, std::uint32_t lane) const {
    return __shfl_sync(kAllLanes, lanes, static_cast<int>(lane));
  }

  /// Each thread has its own.
  template <class T>
  struct Each {
    T value{};
    __device__ T& operator[](std::uint32_t) { return value; }
    __device__ T const& operator[](std::uint32_t) const { return value; }
  };

  template <class T>
  __device__ T broadcast(Each<T> const& each, std::uint32_t lane) const {
    static_assert(sizeof(T) % sizeof(std::uint64_t) == 0);
    unsigned long long words[sizeof(T) / sizeof(std::uint64_t)];
    memcpy(words, &each.value, sizeof(T));
    for (auto& word : words) word = __shfl_sync(kAllLanes, word, static_cast<int>(lane));
    T picked;
    memcpy(&picked, words, sizeof(T));
    return picked;
  }

  template <class F>
  __device__ void each(F f) const {
    f(lane_);
    __syncwarp();
  }

  template <class F>
  __device__ std::uint32_t ballot(F f) const {
    return __ballot_sync(kAllLanes, f(lane_));
  }

  template <class T>
  __device__ Each<T> shuffle(Each<T> const& each, Each<std::uint32_t> const& from) const {
    static_assert(sizeof(T) == sizeof(unsigned) || sizeof(T) == sizeof(unsigned long long));
    using Word = std::conditional_t<sizeof(T) == sizeof(unsigned), unsigned, unsigned long long>;
    return {static_cast<T>(
        __shfl_sync(kAllLanes, static_cast<Word>(each.value), static_cast<int>(from.value)))};
  }

  /// Tiles of 8 threads take an item each, 16 bytes a thread, so that a value of 128 bytes is one
  /// access and four are under way at once.
  template <class To, class From>
  __device__ void copy_each(std::uint32_t mask, std::size_t bytes, To to, From from,
                            Each<std::uint32_t>* sums) const {
    if (mask == 0) return;
    bool const mine = (mask >> lane_ & 1) != 0;
    auto const my_to = mine ? reinterpret_cast<unsigned long long>(to(lane_)) : 0ull;
    auto const my_from = mine ? reinterpret_cast<unsigned long long>(from(lane_)) : 0ull;
    bool const whole =
        bytes != 0 && bytes % 16 == 0 && __all_sync(kAllLanes, (my_to | my_from) % 16 == 0);
    if (!whole) return copy_each_plain(mask, bytes, my_to, my_from, sums);
    for (std::uint32_t first = 0; first < kLanes; first += kUnrolled * kTiles) {
      if ((mask >> first & kStepMask) != 0) copy_tiles(first, mask, bytes, my_to, my_from, sums);
    }
    __syncwarp();
  }

  /// The CRC-32C of each lane's bytes, as copy_each() would give it.
  template <class From>
  __device__ void sum_each(std::uint32_t mask, std::size_t bytes, From from,
                           Each<std::uint32_t>& sums) const {
    copy_each(
        mask, bytes, [](std::uint32_t) { return static_cast<std::byte*>(nullptr); }, from, &sums);
  }

  /// The CRC-32C of some bytes followed by `bytes` more, a multiple of 4, from those of both.
  static __device__ std::uint32_t joined_sum(std::uint32_t before, std::uint32_t after,
                                             std::size_t bytes) {
    return crc_shifted(before, bytes / 4) ^ after;
  }

  /// For each lane of the mask, `words` words of 8 bytes to its parts' place `to`, as one run of
  /// pairs of words over all lanes: of records side by side every line is written whole, by one
  /// instruction. word(parts, w) says which; places are multiples of 8, and pairs are stored as
  /// such where they are multiples of 16.
  template <class Parts, class Word>
  __device__ void join_each(std::uint32_t mask, Each<Parts> const& parts, std::uint32_t words,
                            Word word) const {
    std::uint32_t const pairs = (words + 1) / 2;
    std::uint32_t pair = lane_, item = 0;
    for (std::uint32_t step = 0; step < pairs; ++step, pair += kLanes) {
      for (; pair >= pairs; pair -= pairs) ++item;
      Parts const p = broadcast(parts, item);
      if ((mask >> item & 1) == 0) continue;
      std::uint32_t const w = 2 * pair;
      auto* const to = reinterpret_cast<std::uint64_t*>(p.to) + w;
      if (w + 1 == words) {
        *to = word(p, w);
      } else if (reinterpret_cast<std::uintptr_t>(to) % 16 == 0) {
        *reinterpret_cast<ulonglong2*>(to) = {word(p, w), word(p, w + 1)};
      } else {
        to[0] = word(p, w);
        to[1] = word(p, w + 1);
      }
    }
    __syncwarp();
  }

  template <class F>
  __device__ void strided(std::size_t n, F f) const {
    for (std::size_t i = lane_; i < n; i += kLanes) f(i);
    __syncwarp();
  }

  template <class F>
  __device__ std::uint64_t elect(F f) const {
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

  /// Header, key and value to one place, 16 bytes a lane; false where their sizes and places are no
  /// multiples of 8.
  template <class Header>
  __device__ bool join(std::byte* to, Header const& header, std::byte const* key,
                       std::size_t key_bytes, std::byte const* value,
                       std::size_t value_bytes) const {
    constexpr std::size_t kHead = sizeof(Header) / 8;
    static_assert(sizeof(Header) % 8 == 0 && kHead >= 1 && kHead <= 3);
    if (!aligned(key, value, key_bytes | value_bytes, 8) ||
        reinterpret_cast<std::uintptr_t>(to) % 16 != 0)
      return false;
    std::uint64_t head[3] = {};
    memcpy(head, &header, sizeof(Header));
    std::size_t const words = kHead + (key_bytes + value_bytes) / 8;
    auto const* const k = reinterpret_cast<std::uint64_t const*>(key);
    auto const* const v = reinterpret_cast<std::uint64_t const*>(value);
    auto const word = [&](std::size_t i) {
      if (i < kHead) return i == 0 ? head[0] : i == 1 ? head[1] : head[2];
      return i - kHead < key_bytes / 8 ? k[i - kHead] : v[i - kHead - key_bytes / 8];
    };
    for (std::size_t i = 2 * lane_; i < words; i += 2 * kLanes) {
      if (i + 1 < words)
        *reinterpret_cast<ulonglong2*>(to + 8 * i) = {word(i), word(i + 1)};
      else
        *reinterpret_cast<std::uint64_t*>(to + 8 * i) = word(i);
    }
    __syncwarp();
    return true;
  }

  /// Lanes take a 4-byte word each and move it to its place in the polynomial; their sum is the
  /// remainder (the code is linear). All lanes end with the result.
  __device__ std::uint32_t crc32c(std::uint32_t crc, std::byte const* data,
                                  std::size_t bytes) const {
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
    for (std::size_t i = 0; i < bytes % 4; ++i)
      crc = crc_byte(crc, static_cast<std::uint8_t>(data[i]));
    return ~crc;
  }

  __device__ void prefetch(void const*, std::size_t) const {}

  __device__ void prefetch_to_write(void const*, std::size_t) const {}

  __device__ void fence() const { __threadfence_system(); }

  __device__ void local_fence() const { __threadfence(); }

 private:
  static constexpr std::uint32_t kTile = 8;  // threads
  static constexpr std::uint32_t kTiles = kLanes / kTile;
  static constexpr std::uint32_t kUnrolled = 4;  // items a tile has under way
  static constexpr std::uint32_t kStepMask = (1u << (kUnrolled * kTiles)) - 1;

  /// Items first .. first + kUnrolled*kTiles - 1.
  __device__ void copy_tiles(std::uint32_t first, std::uint32_t mask, std::size_t bytes,
                             unsigned long long my_to, unsigned long long my_from,
                             Each<std::uint32_t>* sums) const {
    std::uint32_t const tile = lane_ / kTile, thread = lane_ % kTile;
    unsigned long long to[kUnrolled], from[kUnrolled];
    std::uint32_t part[kUnrolled];
#pragma unroll
    for (std::uint32_t k = 0; k < kUnrolled; ++k) {
      auto const item = static_cast<int>(first + k * kTiles + tile);
      to[k] = __shfl_sync(kAllLanes, my_to, item);
      from[k] = __shfl_sync(kAllLanes, my_from, item);
      part[k] = 0;
    }
    for (std::size_t done = 0; done < bytes; done += kTile * 16) {
      std::size_t const at = done + thread * 16;
      uint4 data[kUnrolled]{};
#pragma unroll
      for (std::uint32_t k = 0; k < kUnrolled; ++k)
        if (from[k] != 0 && at < bytes) data[k] = *reinterpret_cast<uint4 const*>(from[k] + at);
#pragma unroll
      for (std::uint32_t k = 0; k < kUnrolled; ++k)
        if (to[k] != 0 && at < bytes) *reinterpret_cast<uint4*>(to[k] + at) = data[k];
      if (sums == nullptr) continue;
      std::uint32_t sum[kUnrolled];
#pragma unroll
      for (std::uint32_t k = 0; k < kUnrolled; ++k) {
        if (at == 0) data[k].x = ~data[k].x;
        sum[k] = part[k];
      }
      add_to_crcs(sum, data, done != 0);
#pragma unroll
      for (std::uint32_t k = 0; k < kUnrolled; ++k)
        if (at < bytes) part[k] = sum[k];
    }
    if (sums == nullptr) return;
    std::uint32_t const sum = joined_parts(part, bytes);
    // which thread of which tile has it
    std::uint32_t const item = lane_ - first;
    auto const owner = static_cast<int>(item % kTiles * kTile + item / kTiles);
    std::uint32_t const my_sum = __shfl_sync(kAllLanes, sum, owner);
    if (item < kUnrolled * kTiles && (mask >> lane_ & 1) != 0) sums->value = ~my_sum;
  }

  /// Of a tile's sums of four items, of which each thread has its parts': thread k and thread k + 4
  /// get item k's. Threads hand each other half of what they have, so that each joins as few as can
  /// be.
  __device__ std::uint32_t joined_parts(std::uint32_t (&part)[kUnrolled], std::size_t bytes) const {
    static_assert(kTile == 8 && kUnrolled == 4);
    std::uint32_t const thread = lane_ % kTile;
    // The message's last piece comes to the last thread.
    auto const from = static_cast<int>(lane_ - thread + (thread + bytes / 16) % kTile);
#pragma unroll
    for (std::uint32_t k = 0; k < kUnrolled; ++k) part[k] = __shfl_sync(kAllLanes, part[k], from);
    bool const odd = (thread & 1) != 0, upper = (thread & 2) != 0;
    std::uint32_t two[] = {odd ? part[1] : part[0], odd ? part[3] : part[2]};
    std::uint32_t const ones[] = {
        __shfl_xor_sync(kAllLanes, odd ? part[0] : part[1], 1),
        __shfl_xor_sync(kAllLanes, odd ? part[2] : part[3], 1),
    };
    join_crcs<4>(two, ones, odd);
    std::uint32_t four[] = {upper ? two[1] : two[0]};
    std::uint32_t const twos[] = {__shfl_xor_sync(kAllLanes, upper ? two[0] : two[1], 2)};
    join_crcs<8>(four, twos, upper);
    std::uint32_t const fours[] = {__shfl_xor_sync(kAllLanes, four[0], 4)};
    join_crcs<16>(four, fours, (thread & 4) != 0);
    return four[0];
  }

  /// Any size, any place: one item after the other.
  __device__ void copy_each_plain(std::uint32_t mask, std::size_t bytes, unsigned long long my_to,
                                  unsigned long long my_from, Each<std::uint32_t>* sums) const {
    for (; mask != 0; mask &= mask - 1) {
      int const item = __ffs(static_cast<int>(mask)) - 1;
      auto* const to = reinterpret_cast<std::byte*>(__shfl_sync(kAllLanes, my_to, item));
      auto const* const from =
          reinterpret_cast<std::byte const*>(__shfl_sync(kAllLanes, my_from, item));
      if (to != nullptr) copy(to, from, bytes);
      if (sums == nullptr) continue;
      std::uint32_t const sum = crc32c(0, from, bytes);
      if (lane_ == static_cast<std::uint32_t>(item)) sums->value = sum;
    }
  }

  template <class T>
  __device__ void copy_as(std::byte* to, std::byte const* from, std::size_t bytes) const {
    for (std::size_t i = lane_; i < bytes / sizeof(T); i += kLanes)
      reinterpret_cast<T*>(to)[i] = reinterpret_cast<T const*>(from)[i];
  }

  std::uint32_t lane_;
};

/// A warp that has few others beside it. What it prefetches is the GPU's own.
class CudaLoneWarp : public CudaWarp {
 public:
  static constexpr bool kPrefetches = true;
  __device__ CudaLoneWarp() { prefetch_crc_moves(); }
  __device__ void prefetch(void const* from, std::size_t bytes) const {
    constexpr std::size_t kLine = 128;
    for (std::size_t at = 0; at < bytes; at += kLine)
      asm volatile("prefetch.global.L2 [%0];" ::"l"(
          __cvta_generic_to_global(static_cast<std::byte const*>(from) + at)));
  }
  __device__ void prefetch_to_write(void const* to, std::size_t bytes) const {
    prefetch(to, bytes);
  }
};

/// One thread by itself, for bodies that never compare lanes.
class CudaSolo : public CudaAtoms {
 public:
  static constexpr bool kReadsBackCheaply = false;  // as CudaWarp

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
  __device__ std::uint64_t elect(F f) const {
    return f();
  }

  __device__ bool equal(std::byte const* a, std::byte const* b, std::size_t bytes) const {
    return aligned(a, b, bytes, 8) ? equal_as<std::uint64_t>(a, b, bytes)
                                   : equal_as<std::byte>(a, b, bytes);
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
  __device__ void local_fence() const { __threadfence(); }

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

static_assert(Warp<CudaWarp> && Warp<CudaLoneWarp> && Solo<CudaSolo>);

}  // namespace perdure::exec
