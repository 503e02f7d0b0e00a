// CRC-32C on the host (ISA-L). Device code computes the same bits with exec's warp verb.
#pragma once

#include <cstddef>
#include <cstdint>

namespace perdure {

/// Continues `crc` (0 to begin) over `bytes` bytes.
[[nodiscard]] std::uint32_t crc32c(std::uint32_t crc, void const* data, std::size_t bytes);

}  // namespace perdure
