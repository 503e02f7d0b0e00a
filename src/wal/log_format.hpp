// What the redo log and the checkpoint images look like on disk. docs/format.md draws them. Little-
// endian; no padding; reserved bytes are zero and covered by the checksum.
//
//   log:    LogHeader, copy A | LogHeader, copy B | ring of groups
//   group:  GroupHeader | payload | zeros up to the next 4 KiB
//   image:  ImageHeader | the bytes, in chunks | checksums of the chunks
//   super:  CheckpointRecord, copy A | CheckpointRecord, copy B
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "base/assert.hpp"
#include "base/crc32c.hpp"
#include "base/hash.hpp"
#include "wal/disk/block_device.hpp"

namespace perdure::wal {

using PoolId = std::array<std::uint8_t, 16>;

/// A place in the log: bytes since its beginning, as if the ring were endless. Rises for good, and
/// is a multiple of 4096; it lies at `lsn % ring_bytes` of the ring.
using Lsn = std::uint64_t;

inline constexpr std::uint32_t kLogVersion = 1;
inline constexpr std::uint32_t kImageVersion = 1;

inline constexpr std::array<char, 8> kLogMagic{'P', 'R', 'D', 'R', 'L', 'O', 'G', '\n'};
inline constexpr std::array<char, 8> kImageMagic{'P', 'R', 'D', 'I', 'M', 'G', 'E', '\n'};
inline constexpr std::array<char, 8> kCheckpointMagic{'P', 'R', 'D', 'C', 'K', 'P', 'T', '\n'};
inline constexpr std::uint32_t kGroupMagic = 0x474c5250u;  // "PRLG"

inline constexpr std::uint64_t kRingOffset = 2 * kBlock;

/// Rewritten once each time the log is opened for writing. The epoch tells the groups of this
/// opening from those that an earlier one left beyond the place where it was cut off.
struct LogHeader {  // bytes
  std::array<char, 8> magic;  //   0
  std::uint32_t format_version;  //   8
  std::uint32_t epoch;  //  12  copy `epoch % 2` holds it; the valid copy with the higher one counts
  PoolId pool_id;  //  16
  std::uint64_t ring_bytes;  //  32  multiple of 4096
  std::uint64_t
      epoch_lsn;  //  40  groups from here on are of this epoch, all before of earlier ones
  std::uint8_t reserved[76];  //  48  zero
  std::uint32_t crc;  // 124  CRC-32C of bytes 0..123
};
static_assert(offsetof(LogHeader, magic) == 0 && offsetof(LogHeader, format_version) == 8 &&
              offsetof(LogHeader, epoch) == 12 && offsetof(LogHeader, pool_id) == 16 &&
              offsetof(LogHeader, ring_bytes) == 32 && offsetof(LogHeader, epoch_lsn) == 40 &&
              offsetof(LogHeader, reserved) == 48 && offsetof(LogHeader, crc) == 124);
static_assert(sizeof(LogHeader) == 128 && offsetof(LogHeader, crc) == 124);
static_assert(std::has_unique_object_representations_v<LogHeader>);

/// The unit of writing. A batch is one group or a run of them; none holds parts of two.
struct GroupHeader {  // bytes
  std::uint32_t magic;  //   0
  std::uint16_t format_version;  //   4
  std::uint16_t last;  //   6  1 = the batch ends here
  PoolId pool_id;  //   8
  std::uint64_t lsn;  //  24  of this group
  std::uint64_t batch;  //  32  number of the batch; the next one has the next number
  std::uint32_t epoch;  //  40
  std::uint32_t part;  //  44  0, 1, ... within the batch
  std::uint32_t payload_bytes;  //  48
  std::uint32_t
      behind;  //  52  1 + blocks before it that were not durable when it was sealed; 0 = not known
  std::uint32_t sum;  //  56  of the payload, payload_sum(); 0 = not known
  std::uint32_t
      crc;  //  60  CRC-32C of the whole group but these four bytes, zeros at its end included
};
static_assert(offsetof(GroupHeader, magic) == 0 && offsetof(GroupHeader, format_version) == 4 &&
              offsetof(GroupHeader, last) == 6 && offsetof(GroupHeader, pool_id) == 8 &&
              offsetof(GroupHeader, lsn) == 24 && offsetof(GroupHeader, batch) == 32 &&
              offsetof(GroupHeader, epoch) == 40 && offsetof(GroupHeader, part) == 44 &&
              offsetof(GroupHeader, payload_bytes) == 48 && offsetof(GroupHeader, behind) == 52 &&
              offsetof(GroupHeader, sum) == 56 && offsetof(GroupHeader, crc) == 60);
static_assert(sizeof(GroupHeader) == 64 && offsetof(GroupHeader, crc) == 60);
static_assert(std::has_unique_object_representations_v<GroupHeader>);

/// All groups before this were durable when that group was sealed: what is missing of them is
/// damage, and no write that was under way. 0 where it is not known.
[[nodiscard]] constexpr Lsn durable_when_sealed(GroupHeader const& h) {
  std::uint64_t const behind = std::uint64_t{h.behind} * kBlock;
  return h.behind == 0 || behind > h.lsn + kBlock ? 0 : h.lsn + kBlock - behind;
}

inline constexpr std::uint64_t kMaxGroup = 1u << 20;
[[nodiscard]] constexpr std::uint64_t group_bytes(std::uint64_t payload) {
  return round_up(sizeof(GroupHeader) + payload);
}

/// The checksum a group must carry; `group` is the whole of it.
[[nodiscard]] inline std::uint32_t group_crc(std::byte const* group, std::uint64_t bytes) {
  std::uint32_t const head = crc32c(0, group, offsetof(GroupHeader, crc));
  return crc32c(head, group + sizeof(GroupHeader), bytes - sizeof(GroupHeader));
}

/// Of a group's payload, beside the CRC: that is linear, and so does not see that a torn write left
/// there a value that ends with its own CRC in place of another. Never 0.
[[nodiscard]] inline std::uint32_t payload_sum(std::byte const* payload, std::uint64_t bytes) {
  return static_cast<std::uint32_t>(hash_bytes(payload, bytes)) | 1u;
}
/// Completes a group of `bytes` bytes, whose payload stands behind where the header goes.
inline void seal_group(GroupHeader& h, std::byte* group, std::uint64_t bytes) {
  std::uint64_t const used = sizeof h + std::uint64_t{h.payload_bytes};
  PERDURE_ASSERT(used <= bytes && bytes % kBlock == 0);
  h.sum = payload_sum(group + sizeof h, h.payload_bytes);
  std::memcpy(group, &h, sizeof h);
  std::memset(group + used, 0, bytes - used);
  h.crc = group_crc(group, bytes);
  std::memcpy(group, &h, sizeof h);
}
[[nodiscard]] inline bool passes(GroupHeader const& h, std::byte const* group,
                                 std::uint64_t bytes) {
  return sizeof h + std::uint64_t{h.payload_bytes} <= bytes && group_crc(group, bytes) == h.crc &&
         (h.sum == 0 || h.sum == payload_sum(group + sizeof(GroupHeader), h.payload_bytes));
}

/// A copy of a pool as it was at one place of the log. Complete in itself: a snapshot is one such
/// file.
struct ImageHeader {  // bytes
  std::array<char, 8> magic;  //   0
  std::uint32_t format_version;  //   8
  std::uint32_t chunk_bytes;  //  12  multiple of 4096
  PoolId pool_id;  //  16
  std::uint64_t sequence;  //  32  of the checkpoint; 0 for a snapshot
  std::uint64_t lsn;  //  40  batches from here on are not in it
  std::uint64_t next_batch;  //  48  number of the first batch that is not in it
  std::uint64_t bytes;  //  56  of the pool; multiple of 4096
  std::uint32_t table_crc;  //  64  CRC-32C of the checksums of all chunks
  std::uint8_t reserved[56];  //  68  zero
  std::uint32_t crc;  // 124  CRC-32C of bytes 0..123
};
static_assert(offsetof(ImageHeader, magic) == 0 && offsetof(ImageHeader, format_version) == 8 &&
              offsetof(ImageHeader, chunk_bytes) == 12 && offsetof(ImageHeader, pool_id) == 16 &&
              offsetof(ImageHeader, sequence) == 32 && offsetof(ImageHeader, lsn) == 40 &&
              offsetof(ImageHeader, next_batch) == 48 && offsetof(ImageHeader, bytes) == 56 &&
              offsetof(ImageHeader, table_crc) == 64 && offsetof(ImageHeader, reserved) == 68 &&
              offsetof(ImageHeader, crc) == 124);
static_assert(sizeof(ImageHeader) == 128 && offsetof(ImageHeader, crc) == 124);
static_assert(std::has_unique_object_representations_v<ImageHeader>);

/// Which image counts.
struct CheckpointRecord {  // bytes
  std::array<char, 8> magic;  //   0
  std::uint32_t format_version;  //   8
  std::uint32_t image;  //  12  0 = A, 1 = B
  PoolId pool_id;  //  16
  std::uint64_t sequence;  //  32  copy `sequence % 2` holds it
  std::uint64_t lsn;  //  40  of the image
  std::uint64_t next_batch;  //  48
  std::uint32_t image_crc;  //  56  ImageHeader::crc
  std::uint8_t reserved[64];  //  60  zero
  std::uint32_t crc;  // 124  CRC-32C of bytes 0..123
};
static_assert(offsetof(CheckpointRecord, magic) == 0 &&
              offsetof(CheckpointRecord, format_version) == 8 &&
              offsetof(CheckpointRecord, image) == 12 &&
              offsetof(CheckpointRecord, pool_id) == 16 &&
              offsetof(CheckpointRecord, sequence) == 32 && offsetof(CheckpointRecord, lsn) == 40 &&
              offsetof(CheckpointRecord, next_batch) == 48 &&
              offsetof(CheckpointRecord, image_crc) == 56 &&
              offsetof(CheckpointRecord, reserved) == 60 && offsetof(CheckpointRecord, crc) == 124);
static_assert(sizeof(CheckpointRecord) == 128 && offsetof(CheckpointRecord, crc) == 124);
static_assert(std::has_unique_object_representations_v<CheckpointRecord>);

/// Of a structure whose last field is its crc.
template <class T>
[[nodiscard]] std::uint32_t checksum(T const& record) {
  static_assert(offsetof(T, crc) + sizeof(std::uint32_t) == sizeof(T));
  return crc32c(0, &record, offsetof(T, crc));
}

}  // namespace perdure::wal
