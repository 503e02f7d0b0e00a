// CRC-32C through ISA-L, whose crc32_iscsi leaves the usual inversions to the caller.
#include "base/crc32c.hpp"

#include <isa-l/crc.h>

#include <climits>

namespace perdure {

std::uint32_t crc32c(std::uint32_t crc, void const* data, std::size_t bytes) {
  auto* at = static_cast<unsigned char*>(const_cast<void*>(data));  // ISA-L's signature lacks const; it only reads
  crc = ~crc;
  while (bytes > 0) {
    int const step = bytes > INT_MAX ? INT_MAX : static_cast<int>(bytes);
    crc = crc32_iscsi(at, step, crc);
    at += step;
    bytes -= static_cast<std::size_t>(step);
  }
  return ~crc;
}

}  // namespace perdure
