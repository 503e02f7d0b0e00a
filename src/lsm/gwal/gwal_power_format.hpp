// What the G-WAL keeps in a redo log (wal/log_format.hpp), for durability `power`. docs/format.md
// draws it. Little-endian; no padding; reserved bytes are zero. The log's groups, and its images,
// have the checksums.
//
//   a batch of the log:  GwalPowerRecord | payload
//   an image of it:      GwalPowerState, filled up with zeros to 4 KiB
//   the note:            GwalPowerNote | the log's directory | zeros up to 4 KiB
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "lsm/gwal/gwal_format.hpp"

namespace perdure::lsm {

inline constexpr std::uint32_t kGwalPowerVersion = 1;

inline constexpr std::uint32_t kGwalPowerRecordMagic = 0x50574750u;  // "PGWP"
inline constexpr std::array<char, 8> kGwalPowerStateMagic{'P', 'R', 'D', 'G', 'W', 'P', 'S', '\n'};
inline constexpr std::array<char, 8> kGwalPowerNoteMagic{'P', 'R', 'D', 'G', 'W', 'P', 'N', '\n'};

struct GwalPowerRecord {  // bytes
  std::uint32_t magic;  //  0
  std::uint32_t format_version;  //  4
  std::uint64_t number;  //  8  of the segment
  std::uint64_t lsn;  // 16  of this batch
  std::uint64_t first_request;  // 24
  std::uint64_t requests;  // 32
  std::uint64_t payload_bytes;  // 40
  std::uint8_t reserved[16];  // 48  zero
};
static_assert(offsetof(GwalPowerRecord, magic) == 0 &&
              offsetof(GwalPowerRecord, format_version) == 4 &&
              offsetof(GwalPowerRecord, number) == 8 && offsetof(GwalPowerRecord, lsn) == 16 &&
              offsetof(GwalPowerRecord, first_request) == 24 &&
              offsetof(GwalPowerRecord, requests) == 32 &&
              offsetof(GwalPowerRecord, payload_bytes) == 40 &&
              offsetof(GwalPowerRecord, reserved) == 48);
static_assert(sizeof(GwalPowerRecord) == kGwalLine);
static_assert(std::has_unique_object_representations_v<GwalPowerRecord>);

/// What the records from the image's place on mean. It changes as a whole: the log has two images.
struct GwalPowerState {  // bytes
  std::array<char, 8> magic;  //   0
  std::uint32_t format_version;  //   8
  std::uint32_t identity_bytes;  //  12
  GwalIdentity identity;  //  16
  std::uint64_t newest;  //  80  number of the last segment that was begun
  std::uint64_t oldest;  //  88  of the segment that begins at the image's place; 0 = none yet
  std::uint64_t intent;  //  96  RocksDB's sequence number before that one's ingest; 2^64 - 1 = none
  std::uint8_t reserved[24];  // 104  zero
};
static_assert(offsetof(GwalPowerState, magic) == 0 &&
              offsetof(GwalPowerState, format_version) == 8 &&
              offsetof(GwalPowerState, identity_bytes) == 12 &&
              offsetof(GwalPowerState, identity) == 16 && offsetof(GwalPowerState, newest) == 80 &&
              offsetof(GwalPowerState, oldest) == 88 && offsetof(GwalPowerState, intent) == 96 &&
              offsetof(GwalPowerState, reserved) == 104);
static_assert(sizeof(GwalPowerState) == 128);
static_assert(std::has_unique_object_representations_v<GwalPowerState>);

struct GwalPowerNote {  // bytes
  std::array<char, 8> magic;  //   0
  std::uint32_t format_version;  //   8
  std::uint32_t identity_bytes;  //  12
  GwalIdentity identity;  //  16
  std::uint32_t path_bytes;  //  80
  std::uint8_t reserved[40];  //  84  zero
  std::uint32_t crc;  // 124  CRC-32C of bytes 0..123 and of the path
};
static_assert(offsetof(GwalPowerNote, magic) == 0 && offsetof(GwalPowerNote, format_version) == 8 &&
              offsetof(GwalPowerNote, identity_bytes) == 12 &&
              offsetof(GwalPowerNote, identity) == 16 &&
              offsetof(GwalPowerNote, path_bytes) == 80 &&
              offsetof(GwalPowerNote, reserved) == 84 && offsetof(GwalPowerNote, crc) == 124);
static_assert(sizeof(GwalPowerNote) == 128);
static_assert(std::has_unique_object_representations_v<GwalPowerNote>);

}  // namespace perdure::lsm
