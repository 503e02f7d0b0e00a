// Long runs of bytes into the pool past the processor's caches: nobody reads them soon, and lines
// that are written whole need not be fetched first. Host code alone.
#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/assert.hpp"
#include "pm/host_verbs.hpp"

namespace perdure::pm {

/// As write_bytes(). `to` is a multiple of 16. Seen by others no later than what the caller writes
/// after it.
inline void stream_bytes(std::byte* to, std::byte const* from, std::size_t bytes) {
  PERDURE_ASSERT(reinterpret_cast<std::uintptr_t>(to) % sizeof(__m128i) == 0);
  std::size_t at = 0;
  for (; at + 64 <= bytes; at += 64) {
    __m128i piece[4];
    for (int i = 0; i < 4; ++i)
      piece[i] = _mm_loadu_si128(reinterpret_cast<__m128i const*>(from + at) + i);
    for (int i = 0; i < 4; ++i) _mm_stream_si128(reinterpret_cast<__m128i*>(to + at) + i, piece[i]);
  }
  if (at < bytes) std::memcpy(to + at, from + at, bytes - at);
  _mm_sfence();
  wrote(to, bytes);
}

}  // namespace perdure::pm
