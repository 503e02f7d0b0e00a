// The copy of a long value and its CRC-32C in one pass. The bytes are loaded once; 32 of them at a
// time are stored past the caches, and folded by carry-less multiplication into four sums of 32
// bytes, 128 bytes apart. What the four hold in the end has the checksum of all that was folded.
#include <immintrin.h>

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "base/assert.hpp"
#include "base/crc32c.hpp"

namespace perdure {
namespace {

constexpr std::size_t kVector = 32;
constexpr std::size_t kFolded = 4 * kVector;  // bytes a step
constexpr std::size_t kLine = 64;

/// x^n modulo CRC-32C's polynomial, bits reflected, as carry-less multiplication of reflected
/// numbers takes it.
constexpr std::uint64_t power_of_x(std::size_t n) {
  std::uint32_t power = 0x80000000u;
  for (std::size_t i = 0; i < n; ++i) power = (power >> 1) ^ ((power & 1) != 0 ? 0x82f63b78u : 0);
  return std::uint64_t{power} << 1;
}
// What the two halves of 16 bytes are multiplied by to count kFolded bytes further on.
constexpr std::uint64_t kLow = power_of_x(8 * kFolded + 32);
constexpr std::uint64_t kHigh = power_of_x(8 * kFolded - 32);

[[gnu::target("avx2,vpclmulqdq,pclmul,sse4.2")]] inline __m256i vector_at(std::byte const* from) {
  return _mm256_loadu_si256(reinterpret_cast<__m256i const*>(from));
}
[[gnu::target("avx2,vpclmulqdq,pclmul,sse4.2")]] inline void store_past_caches(std::byte* to,
                                                                               __m256i bytes) {
  _mm256_stream_si256(reinterpret_cast<__m256i*>(to), bytes);
}
[[gnu::target("avx2,vpclmulqdq,pclmul,sse4.2")]] inline __m256i folded(__m256i sum, __m256i by,
                                                                       __m256i next) {
  __m256i const low = _mm256_clmulepi64_epi128(sum, by, 0x00);
  __m256i const high = _mm256_clmulepi64_epi128(sum, by, 0x11);
  return _mm256_xor_si256(_mm256_xor_si256(low, high), next);
}

/// Of whole steps, at least one, to an aligned place.
[[gnu::target("avx2,vpclmulqdq,pclmul,sse4.2")]] std::uint32_t copy_folded(std::uint32_t crc,
                                                                           std::byte* to,
                                                                           std::byte const* from,
                                                                           std::size_t bytes) {
  PERDURE_ASSERT(bytes >= kFolded && bytes % kFolded == 0);
  PERDURE_ASSERT(reinterpret_cast<std::uintptr_t>(to) % kVector == 0);
  __m256i const by = _mm256_set_epi64x(static_cast<long long>(kHigh), static_cast<long long>(kLow),
                                       static_cast<long long>(kHigh), static_cast<long long>(kLow));
  __m256i sum[4];
  for (std::size_t i = 0; i < 4; ++i) {
    sum[i] = vector_at(from + i * kVector);
    store_past_caches(to + i * kVector, sum[i]);
  }
  sum[0] = _mm256_xor_si256(sum[0], _mm256_set_epi32(0, 0, 0, 0, 0, 0, 0, static_cast<int>(~crc)));
  for (std::size_t at = kFolded; at < bytes; at += kFolded) {
    for (std::size_t i = 0; i < 4; ++i) {
      __m256i const next = vector_at(from + at + i * kVector);
      store_past_caches(to + at + i * kVector, next);
      sum[i] = folded(sum[i], by, next);
    }
  }
  _mm_sfence();  // these stores come before whatever the caller publishes
  std::uint64_t words[kFolded / sizeof(std::uint64_t)];
  std::memcpy(words, sum, sizeof words);
  std::uint64_t state = 0;
  for (std::uint64_t const word : words) state = _mm_crc32_u64(state, word);
  return ~static_cast<std::uint32_t>(state);
}

/// The sum is of the copy, which the next 16 KiB do not drive out of a core's cache.
std::uint32_t copy_then_sum(std::uint32_t crc, std::byte* to, std::byte const* from,
                            std::size_t bytes) {
  constexpr std::size_t kPiece = 16384;
  for (std::size_t at = 0; at < bytes; at += kPiece) {
    std::size_t const n = std::min(kPiece, bytes - at);
    std::memcpy(to + at, from + at, n);
    crc = crc32c(crc, to + at, n);
  }
  return crc;
}

bool can_fold() {
  static bool const can = __builtin_cpu_supports("avx2") != 0 &&
                          __builtin_cpu_supports("vpclmulqdq") != 0 &&
                          __builtin_cpu_supports("sse4.2") != 0;
  return can;
}

}  // namespace

std::uint32_t copy_crc32c(std::uint32_t crc, void* to, void const* from, std::size_t bytes) {
  auto* target = static_cast<std::byte*>(to);
  auto const* source = static_cast<std::byte const*>(from);
  std::size_t const before =
      std::min(bytes, (kLine - reinterpret_cast<std::uintptr_t>(target) % kLine) % kLine);
  std::size_t const steps = (bytes - before) / kFolded * kFolded;
  if (steps == 0 || !can_fold()) return copy_then_sum(crc, target, source, bytes);
  crc = copy_then_sum(crc, target, source, before);
  crc = copy_folded(crc, target + before, source + before, steps);
  std::size_t const done = before + steps;
  return copy_then_sum(crc, target + done, source + done, bytes - done);
}

}  // namespace perdure
