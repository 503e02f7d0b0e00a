// The warp on a CPU: one thread drives 32 lanes held in vector registers (Google Highway). Compiled
// once per instruction set, so everything lives in a namespace named after it (HWY_NAMESPACE).
//
// A warp's verbs, the same on every machine (see cuda_warp.cuh):
//   rows(groups, slots, row_of)   lane g*slots+s holds word s of the row at row_of(g)
//   match(lanes, mask, want)      bit i is set where (lane i & mask) == want
//   bits(groups, slots, map, first)  bit g*slots+s is bit first(g)+s of `map`; slots divide 32
//   broadcast(lanes, i)           lane i's value, known to all lanes
//   strided(n, f)                 the lanes share f(0) .. f(n-1)
//   elect(f)                      one lane runs f; all get its 64-bit result
//   equal, copy, crc32c           the lanes share the bytes
//   copy_crc32c(crc, to, from, n)  both in one pass (CPU warps only: kReadsBackCheaply)
//   fence, local_fence            what the warp wrote (and read) before comes before what it writes
//                                 (and reads) afterwards: for everybody, or for the warps of this
//                                 machine
//   pause()                       by one lane, which waits for another warp
//   Each<T>                       a T a lane; each(f) runs f(lane) in every lane; broadcast(each,
//                                 i) as above
//   ballot(f)                     bit i is what f(i) says
//   shuffle(each, from)           lane i gets the value of lane from[i]
//   copy_each(mask, bytes, to, from, sums)  copies, for each lane i of the mask, `bytes` bytes from
//                                           from(i)
//                                 to to(i); `sums` (or null) gets their CRC-32C
//   equal_bytes(row_of, byte)     bit g*8+s: byte s of the 8 at row_of(g), g < 4, is `byte`; by one
//                                 lane (CPU warps only: kReadsBackCheaply)
//   row<slots>(at)                one thread's own row, for bodies that never compare lanes (not
//                                 CudaWarp)
// Algorithms branch only on what these return, which is the same in every lane.
#pragma once

#include <hwy/highway.h>
#include <immintrin.h>
#include <sched.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/crc32c.hpp"
#include "base/prefetch.hpp"
#include "base/sanitizer.hpp"
#include "exec/warp_concept.hpp"

namespace perdure::exec::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

class CpuWarp {
 public:
  static constexpr std::uint32_t kLanes = 32;
  static constexpr bool kJoinsEach = false;  // else see cuda_warp.cuh
  static constexpr bool kReadsBackCheaply = true;  // what it just wrote is in its cache
  // A core has no other warps that could run while it waits.
  static constexpr bool kPrefetches = true;
  static constexpr std::size_t kLine = 64;
  // bytes up to which a CRC by instruction, and a copy without a call, is cheaper
  static constexpr std::size_t kShort = 224;

  struct alignas(64) Lanes {
    std::uint64_t word[kLanes];
  };

  /// Rows may be written by other warps meanwhile. Words are 8-byte aligned, so a vector load sees
  /// each one whole, and these processors order loads; under ThreadSanitizer they are read one by
  /// one as acquiring atomics, which it understands.
  template <class RowOf>
  HWY_INLINE Lanes rows(std::uint32_t groups, std::uint32_t slots, RowOf row_of) const {
    Lanes lanes;
    for (std::uint32_t g = 0; g < groups; ++g) {
      std::uint64_t const* const row = row_of(g);
      if (kThreadSanitizer) {
        for (std::uint32_t s = 0; s < slots; ++s)
          lanes.word[g * slots + s] = __atomic_load_n(row + s, __ATOMIC_ACQUIRE);
      } else {
        std::memcpy(lanes.word + g * slots, row, slots * sizeof(std::uint64_t));
      }
    }
    for (std::uint32_t i = groups * slots; i < kLanes; ++i) lanes.word[i] = 0;
    return lanes;
  }

  template <std::uint32_t kSlots>
  struct Row {
    std::uint64_t word[kSlots];
  };
  template <std::uint32_t kSlots>
  HWY_INLINE Row<kSlots> row(std::uint64_t const* at) const {
    Row<kSlots> row;
    if (kThreadSanitizer) {
      for (std::uint32_t s = 0; s < kSlots; ++s)
        row.word[s] = __atomic_load_n(at + s, __ATOMIC_ACQUIRE);
    } else {
      std::memcpy(row.word, at, sizeof row);
    }
    return row;
  }

  HWY_INLINE std::uint32_t match(Lanes const& lanes, std::uint64_t mask, std::uint64_t want) const {
    hn::CappedTag<std::uint64_t, 8> const d;
    auto const vmask = hn::Set(d, mask);
    auto const vwant = hn::Set(d, want);
    std::uint32_t found = 0;
    for (std::uint32_t i = 0; i < kLanes; i += static_cast<std::uint32_t>(hn::Lanes(d))) {
      auto const equal = hn::Eq(hn::And(hn::Load(d, lanes.word + i), vmask), vwant);
      std::uint8_t bits[8] = {};
      hn::StoreMaskBits(d, equal, bits);
      found |= static_cast<std::uint32_t>(bits[0]) << i;
    }
    return found;
  }

  template <class RowOf>
  static HWY_INLINE std::uint32_t equal_bytes(RowOf row_of, std::uint8_t byte) {
    auto const row = [&](std::uint32_t g) {
      long long bytes;
      std::memcpy(&bytes, row_of(g), sizeof bytes);
      return bytes;
    };
    __m256i const rows = _mm256_setr_epi64x(row(0), row(1), row(2), row(3));
    __m256i const equal = _mm256_cmpeq_epi8(rows, _mm256_set1_epi8(static_cast<char>(byte)));
    return static_cast<std::uint32_t>(_mm256_movemask_epi8(equal));
  }

  template <class FirstOf>
  HWY_INLINE std::uint32_t bits(std::uint32_t groups, std::uint32_t slots, std::uint32_t const* map,
                                FirstOf first) const {
    std::uint32_t const row_mask = slots == 32 ? ~0u : (1u << slots) - 1;
    std::uint32_t found = 0;
    for (std::uint32_t g = 0; g < groups; ++g) {
      std::uint64_t const at = first(g);
      found |= (load(map + at / 32) >> (at % 32) & row_mask) << (g * slots);
    }
    return found;
  }

  HWY_INLINE std::uint64_t broadcast(Lanes const& lanes, std::uint32_t lane) const {
    return lanes.word[lane];
  }

  template <class T>
  struct Each {
    T value[kLanes] = {};
    HWY_INLINE T& operator[](std::uint32_t lane) { return value[lane]; }
    HWY_INLINE T const& operator[](std::uint32_t lane) const { return value[lane]; }
  };

  template <class T>
  HWY_INLINE T broadcast(Each<T> const& each, std::uint32_t lane) const {
    return each[lane];
  }

  template <class F>
  HWY_INLINE void each(F f) const {
    for (std::uint32_t lane = 0; lane < kLanes; ++lane) f(lane);
  }

  template <class F>
  HWY_INLINE std::uint32_t ballot(F f) const {
    std::uint32_t said = 0;
    for (std::uint32_t lane = 0; lane < kLanes; ++lane) said |= std::uint32_t{f(lane)} << lane;
    return said;
  }

  template <class T>
  HWY_INLINE Each<T> shuffle(Each<T> const& each, Each<std::uint32_t> const& from) const {
    Each<T> shuffled;
    for (std::uint32_t lane = 0; lane < kLanes; ++lane) shuffled[lane] = each[from[lane]];
    return shuffled;
  }

  template <class To, class From>
  HWY_INLINE void copy_each(std::uint32_t mask, std::size_t bytes, To to, From from,
                            Each<std::uint32_t>* sums) const {
    for (; mask != 0; mask &= mask - 1) {
      auto const lane = static_cast<std::uint32_t>(__builtin_ctz(mask));
      copy(to(lane), from(lane), bytes);
      if (sums != nullptr) (*sums)[lane] = crc32c(0, from(lane), bytes);
    }
  }

  template <class F>
  HWY_INLINE void strided(std::size_t n, F f) const {
    for (std::size_t i = 0; i < n; ++i) f(i);
  }

  template <class F>
  HWY_INLINE std::uint64_t elect(F f) const {
    return f();
  }

  HWY_INLINE bool equal(std::byte const* a, std::byte const* b, std::size_t bytes) const {
    if (bytes == 8) {
      std::uint64_t x, y;
      std::memcpy(&x, a, 8);
      std::memcpy(&y, b, 8);
      return x == y;
    }
    return std::memcmp(a, b, bytes) == 0;
  }

  /// Keys and values are short, and sizes are not known here: what a call costs counts.
  HWY_INLINE void copy(std::byte* to, std::byte const* from, std::size_t bytes) const {
    if (bytes == 8) {  // the commonest key
      std::memcpy(to, from, 8);
    } else if (bytes >= 32 && bytes <= kShort) {
      copy_short(to, from, bytes);
    } else if (bytes != 0) {  // memcpy forbids null even then
      std::memcpy(to, from, bytes);
    }
  }

  /// As copy, in whole 16 bytes and past the cache; a later fence() or order() orders it. Whole
  /// lines, where vectors are that long, reach memory one by one.
  HWY_INLINE void stream(std::byte* to, std::byte const* from, std::size_t bytes) const {
    hn::CappedTag<std::uint64_t, 8> const line;
    constexpr std::size_t kWide = hn::MaxLanes(decltype(line){}) * sizeof(std::uint64_t);
    bool const wide = (reinterpret_cast<std::uintptr_t>(to) | bytes) % kWide == 0;
    wide ? stream_by(line, to, from, bytes)
         : stream_by(hn::CappedTag<std::uint64_t, 2>(), to, from, bytes);
  }

  /// A record of 160 bytes takes ISA-L, which folds long buffers, twice as long as the instruction.
  HWY_INLINE std::uint32_t crc32c(std::uint32_t crc, std::byte const* data,
                                  std::size_t bytes) const {
    if (bytes > kShort) return perdure::crc32c(crc, data, bytes);
    std::uint64_t state = ~crc;
    for (; bytes >= 8; bytes -= 8, data += 8) {
      std::uint64_t word;
      std::memcpy(&word, data, 8);
      state = _mm_crc32_u64(state, word);
    }
    for (; bytes > 0; --bytes, ++data)
      state = _mm_crc32_u8(static_cast<std::uint32_t>(state), static_cast<std::uint8_t>(*data));
    return ~static_cast<std::uint32_t>(state);
  }

  /// Copies, past the caches where it is long, and continues the sum over the copy; ordered when it
  /// returns.
  HWY_INLINE std::uint32_t copy_crc32c(std::uint32_t crc, std::byte* to, std::byte const* from,
                                       std::size_t bytes) const {
    return perdure::copy_crc32c(crc, to, from, bytes);
  }

  /// All lines that the bytes touch, wherever in a line they begin.
  HWY_INLINE void prefetch(void const* at, std::size_t bytes) const {
    std::size_t const before = reinterpret_cast<std::uintptr_t>(at) % kLine;
    auto const* const first = static_cast<std::byte const*>(at) - before;
    for (std::size_t i = 0; i < before + bytes; i += kLine) prefetch_line(first + i);
  }
  HWY_INLINE void prefetch_to_write(void const* at, std::size_t bytes) const {
    prefetch(at, bytes);
  }

  /// Everything this warp wrote is seen before anything it writes afterwards.
  HWY_INLINE void fence() const { std::atomic_thread_fence(std::memory_order_seq_cst); }

  HWY_INLINE void local_fence() const { std::atomic_thread_fence(std::memory_order_acq_rel); }

  static void pause() { ::sched_yield(); }

  // Atomics, to be called inside elect().
  static HWY_INLINE std::uint64_t load(std::uint64_t const* at) {
    return __atomic_load_n(at, __ATOMIC_ACQUIRE);
  }
  static HWY_INLINE std::uint32_t load(std::uint32_t const* at) {
    return __atomic_load_n(at, __ATOMIC_ACQUIRE);
  }
  static HWY_INLINE std::uint8_t load(std::uint8_t const* at) {
    return __atomic_load_n(at, __ATOMIC_RELAXED);
  }
  static HWY_INLINE void store(std::uint8_t* at, std::uint8_t value) {
    __atomic_store_n(at, value, __ATOMIC_RELAXED);
  }
  static HWY_INLINE void store(std::uint32_t* at, std::uint32_t value) {
    __atomic_store_n(at, value, __ATOMIC_RELEASE);
  }
  static HWY_INLINE void store(std::uint64_t* at, std::uint64_t value) {
    __atomic_store_n(at, value, __ATOMIC_RELEASE);
  }
  /// Beside what other lanes store: see cuda_warp.cuh.
  static HWY_INLINE void store_cell(std::uint32_t* at, std::uint32_t value) { store(at, value); }
  /// Two words side by side, of which others may see one.
  static HWY_INLINE void store_pair(std::uint64_t* at, std::uint64_t first, std::uint64_t second) {
    store(at, first);
    store(at + 1, second);
  }
  static HWY_INLINE std::uint64_t cas(std::uint64_t* at, std::uint64_t expected,
                                      std::uint64_t desired) {
    __atomic_compare_exchange_n(at, &expected, desired, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
    return expected;
  }
  static HWY_INLINE std::uint32_t fetch_or(std::uint32_t* at, std::uint32_t bits) {
    return __atomic_fetch_or(at, bits, __ATOMIC_ACQ_REL);
  }
  static HWY_INLINE std::uint64_t fetch_add(std::uint64_t* at, std::uint64_t more) {
    return __atomic_fetch_add(at, more, __ATOMIC_ACQ_REL);
  }
  static HWY_INLINE std::uint32_t fetch_add(std::uint32_t* at, std::uint32_t more) {
    return __atomic_fetch_add(at, more, __ATOMIC_ACQ_REL);
  }
  static HWY_INLINE std::uint32_t fetch_and(std::uint32_t* at, std::uint32_t bits) {
    return __atomic_fetch_and(at, bits, __ATOMIC_ACQ_REL);
  }

 private:
  /// 32 bytes or more; the last 32 may have been copied in part already.
  static HWY_INLINE void copy_short(std::byte* to, std::byte const* from, std::size_t bytes) {
    hn::CappedTag<std::uint8_t, 32> const d;
    static_assert(hn::MaxLanes(decltype(d){}) == 32);
    auto const* const source = reinterpret_cast<std::uint8_t const*>(from);
    auto* const target = reinterpret_cast<std::uint8_t*>(to);
    for (std::size_t i = 0; i + 32 < bytes; i += 32)
      hn::StoreU(hn::LoadU(d, source + i), d, target + i);
    hn::StoreU(hn::LoadU(d, source + bytes - 32), d, target + bytes - 32);
  }

  template <class D>
  static HWY_INLINE void stream_by(D d, std::byte* to, std::byte const* from, std::size_t bytes) {
    for (std::size_t i = 0; i < bytes; i += hn::Lanes(d) * sizeof(std::uint64_t)) {
      hn::Stream(hn::LoadU(d, reinterpret_cast<std::uint64_t const*>(from + i)), d,
                 reinterpret_cast<std::uint64_t*>(to + i));
    }
  }
};

static_assert(Warp<CpuWarp>);

}  // namespace perdure::exec::HWY_NAMESPACE
