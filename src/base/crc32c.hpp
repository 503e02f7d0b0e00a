// CRC-32C on the host (ISA-L). Device code computes the same bits with exec's warp verb.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

namespace perdure {

/// Continues `crc` (0 to begin) over `bytes` bytes.
[[nodiscard]] std::uint32_t crc32c(std::uint32_t crc, void const* data, std::size_t bytes);

/// Copies `bytes` bytes and continues `crc` over the copy. Long ones are read once, and written
/// past the caches: a copy that somebody reads at once is better made otherwise. All of it is
/// visible to whoever sees a later store of this thread.
[[nodiscard]] std::uint32_t copy_crc32c(std::uint32_t crc, void* to, void const* from,
                                        std::size_t bytes);

/// Of a structure whose last field is its crc.
template <class T>
[[nodiscard]] std::uint32_t checksum(T const& record) {
  static_assert(offsetof(T, crc) + sizeof(std::uint32_t) == sizeof(T), "crc is the last field");
  return crc32c(0, &record, offsetof(T, crc));
}

/// CRC-32C of a message with one bit wrong differs from the right one by a value that depends only
/// on the bit's distance from the end: walks from there to the front, and so finds the bit. It is
/// counted from the first bit of the `bytes` bytes that the checksum covers, each byte's lowest bit
/// first.
[[nodiscard]] std::optional<std::uint64_t> wrong_bit(std::uint32_t difference, std::uint64_t bytes);

}  // namespace perdure
