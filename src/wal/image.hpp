// What an image of a pool says of itself, and how large the parts of its file are.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>

#include "base/assert.hpp"
#include "perdure/status.h"
#include "wal/disk/block_file.hpp"
#include "wal/log_format.hpp"
#include "wal/redo_log.hpp"

namespace perdure::wal {

/// The explorer's are smaller, so that a pool is copied in several pieces there, too.
#if defined(PERDURE_EXPLORE)
inline constexpr std::uint32_t kChunkBytes = 256u << 10;
#else
inline constexpr std::uint32_t kChunkBytes = 1u << 20;
#endif

struct ImageInfo {
  PoolId pool_id{};
  std::uint64_t sequence = 0;
  LogPosition at;            // replay goes on from here
  std::uint64_t bytes = 0;
  std::uint32_t chunk_bytes = kChunkBytes;
  std::uint32_t table_crc = 0;
  std::uint32_t header_crc = 0;
};

[[nodiscard]] inline std::uint64_t chunks_of(ImageInfo const& info) {
  return (info.bytes + info.chunk_bytes - 1) / info.chunk_bytes;
}
[[nodiscard]] inline std::uint64_t table_bytes(ImageInfo const& info) {
  return round_up(chunks_of(info) * sizeof(std::uint32_t));
}
[[nodiscard]] inline std::uint64_t chunk_size(ImageInfo const& info, std::uint64_t chunk) {
  PERDURE_ASSERT(chunk < chunks_of(info));
  return std::min<std::uint64_t>(info.chunk_bytes, info.bytes - chunk * info.chunk_bytes);
}

}  // namespace perdure::wal
