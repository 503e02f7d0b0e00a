// CRC-32C through ISA-L, whose crc32_iscsi leaves the usual inversions to the caller.
#include "base/crc32c.hpp"

#include <isa-l/crc.h>

#include <climits>

namespace perdure {

std::uint32_t crc32c(std::uint32_t crc, void const* data, std::size_t bytes) {
  auto* at = static_cast<unsigned char*>(
      const_cast<void*>(data));  // ISA-L's signature lacks const; it only reads
  crc = ~crc;
  while (bytes > 0) {
    int const step = bytes > INT_MAX ? INT_MAX : static_cast<int>(bytes);
    crc = crc32_iscsi(at, step, crc);
    at += step;
    bytes -= static_cast<std::size_t>(step);
  }
  return ~crc;
}

std::optional<std::uint64_t> wrong_bit(std::uint32_t difference, std::uint64_t bytes) {
  constexpr std::uint32_t kPolynomial = 0x82f63b78u;  // reflected
  std::uint32_t effect = 1;
  for (std::uint64_t distance = 0; distance < bytes * 8; ++distance) {
    effect = (effect >> 1) ^ ((effect & 1) != 0 ? kPolynomial : 0);
    if (effect == difference) return bytes * 8 - 1 - distance;
  }
  return std::nullopt;
}

}  // namespace perdure
