// What the G-WAL's files look like. docs/format.md draws them. Little-endian; no padding; reserved
// bytes are zero and covered by the checksum.
//
//   gwal.lock:           GwalLockHeader
//   NNNNNNNNNNNN.gwal:   GwalSegmentHeader | intent A | intent B | records, from kGwalRecords on
//   record:              GwalRecordHeader | payload | up to the next 64 bytes, whatever was there
//
// Invariant: no bytes pass as a record or an intent but in the segment, and at the place, for which
// they were written: identity, number and offset are part of each checksum. So a file may be used
// again without being cleared, and a value may hold a copy of a log.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>

#include "base/crc32c.hpp"

namespace perdure::lsm {

inline constexpr std::uint32_t kGwalVersion = 2;

inline constexpr std::array<char, 8> kGwalLockMagic{'P', 'R', 'D', 'G', 'W', 'L', 'K', '\n'};
inline constexpr std::array<char, 8> kGwalSegmentMagic{'P', 'R', 'D', 'G', 'W', 'A', 'L', '\n'};
inline constexpr std::uint32_t kGwalRecordMagic = 0x52574750u;  // "PGWR"
inline constexpr std::uint32_t kGwalIntentMagic = 0x49574750u;  // "PGWI"

inline constexpr std::uint64_t kGwalLine = 64;  // what records are aligned to
inline constexpr std::uint64_t kGwalIntents[2] = {1024, 2048};  // sectors of their own
inline constexpr std::uint64_t kGwalRecords = 4096;

/// Of a database, filled up with zeros.
using GwalIdentity = std::array<char, 64>;

/// Whose directory it is. Locked by the process that has the log open.
struct GwalLockHeader {  // bytes
  std::array<char, 8> magic;  //   0
  std::uint32_t format_version;  //   8
  std::uint32_t identity_bytes;  //  12
  GwalIdentity identity;  //  16
  std::uint8_t reserved[44];  //  80  zero
  std::uint32_t crc;  // 124  CRC-32C of bytes 0..123
};
static_assert(offsetof(GwalLockHeader, magic) == 0 &&
              offsetof(GwalLockHeader, format_version) == 8 &&
              offsetof(GwalLockHeader, identity_bytes) == 12 &&
              offsetof(GwalLockHeader, identity) == 16 &&
              offsetof(GwalLockHeader, reserved) == 80 && offsetof(GwalLockHeader, crc) == 124);
static_assert(sizeof(GwalLockHeader) == 128);
static_assert(std::has_unique_object_representations_v<GwalLockHeader>);

/// Written before the segment has its name, and never again.
struct GwalSegmentHeader {  // bytes
  std::array<char, 8> magic;  //   0
  std::uint32_t format_version;  //   8
  std::uint32_t identity_bytes;  //  12
  GwalIdentity identity;  //  16
  std::uint64_t number;  //  80  as in its name; the next segment has the next number
  std::uint64_t bytes;  //  88  of the file
  std::uint64_t
      previous_end;  //  96  where the records of the segment before it end; 0 = there was none
  std::uint64_t boot;  // 104  hash of the system's boot id when it was begun; 0 = not known
  std::uint8_t reserved[140];  // 112  zero
  std::uint32_t crc;  // 252  CRC-32C of bytes 0..251
};
static_assert(
    offsetof(GwalSegmentHeader, magic) == 0 && offsetof(GwalSegmentHeader, format_version) == 8 &&
    offsetof(GwalSegmentHeader, identity_bytes) == 12 &&
    offsetof(GwalSegmentHeader, identity) == 16 && offsetof(GwalSegmentHeader, number) == 80 &&
    offsetof(GwalSegmentHeader, bytes) == 88 && offsetof(GwalSegmentHeader, previous_end) == 96 &&
    offsetof(GwalSegmentHeader, boot) == 104 && offsetof(GwalSegmentHeader, reserved) == 112 &&
    offsetof(GwalSegmentHeader, crc) == 252);
static_assert(sizeof(GwalSegmentHeader) == 256 && sizeof(GwalSegmentHeader) <= kGwalIntents[0]);
static_assert(std::has_unique_object_representations_v<GwalSegmentHeader>);

/// RocksDB's last sequence number before the segment is ingested, in two copies. One is written,
/// ordered, then the other: a crash tears one at most, so two that are torn is damage.
struct GwalIntent {  // bytes
  std::uint32_t magic;  //  0
  std::uint32_t format_version;  //  4
  std::uint64_t number;  //  8  of the segment
  std::uint64_t rocks_sequence;  // 16  2^64 - 1 = withdrawn
  std::uint8_t reserved[36];  // 24  zero
  std::uint32_t crc;  // 60  CRC-32C of the identity and of bytes 0..59
};
static_assert(offsetof(GwalIntent, magic) == 0 && offsetof(GwalIntent, format_version) == 4 &&
              offsetof(GwalIntent, number) == 8 && offsetof(GwalIntent, rocks_sequence) == 16 &&
              offsetof(GwalIntent, reserved) == 24 && offsetof(GwalIntent, crc) == 60);
static_assert(sizeof(GwalIntent) == kGwalLine && kGwalIntents[1] + kGwalLine <= kGwalRecords);
static_assert(std::has_unique_object_representations_v<GwalIntent>);

struct GwalRecordHeader {  // bytes
  std::uint32_t magic;  //  0
  std::uint32_t format_version;  //  4
  std::uint64_t number;  //  8  of the segment
  std::uint64_t offset;  // 16  of this header in the file
  std::uint64_t synced;  // 24  all before this place was synced when it was written; 0 = nothing
  std::uint64_t first_request;  // 32
  std::uint64_t requests;  // 40
  std::uint64_t payload_bytes;  // 48
  std::uint32_t sum;  // 56  hash of the payload (gwal_sum.hpp)
  std::uint32_t crc;  // 60  CRC-32C of the identity, of bytes 0..59 and of the payload
};
static_assert(offsetof(GwalRecordHeader, magic) == 0 &&
              offsetof(GwalRecordHeader, format_version) == 4 &&
              offsetof(GwalRecordHeader, number) == 8 && offsetof(GwalRecordHeader, offset) == 16 &&
              offsetof(GwalRecordHeader, synced) == 24 &&
              offsetof(GwalRecordHeader, first_request) == 32 &&
              offsetof(GwalRecordHeader, requests) == 40 &&
              offsetof(GwalRecordHeader, payload_bytes) == 48 &&
              offsetof(GwalRecordHeader, sum) == 56 && offsetof(GwalRecordHeader, crc) == 60);
static_assert(sizeof(GwalRecordHeader) == kGwalLine);
static_assert(std::has_unique_object_representations_v<GwalRecordHeader>);

[[nodiscard]] constexpr std::uint64_t gwal_up(std::uint64_t bytes) {
  return (bytes + kGwalLine - 1) / kGwalLine * kGwalLine;
}
/// Of a record in the file.
[[nodiscard]] constexpr std::uint64_t gwal_record_bytes(std::uint64_t payload) {
  return sizeof(GwalRecordHeader) + gwal_up(payload);
}
/// Of a segment that has room for a record with so many bytes.
[[nodiscard]] constexpr std::uint64_t gwal_segment_bytes(std::uint64_t payload) {
  return kGwalRecords + gwal_record_bytes(payload);
}
inline constexpr std::uint64_t kMostGwalPayload = std::uint64_t{1} << 40;

/// Bytes of a payload that are summed together.
#if defined(PERDURE_EXPLORE)
inline constexpr std::uint64_t kGwalChunk = 8;  // so that payloads have several
#else
inline constexpr std::uint64_t kGwalChunk = 256u << 10;
#endif

[[nodiscard]] inline std::uint32_t gwal_crc(GwalIdentity const& identity,
                                            GwalIntent const& intent) {
  std::uint32_t const of_identity = crc32c(0, identity.data(), identity.size());
  return crc32c(of_identity, &intent, offsetof(GwalIntent, crc));
}

}  // namespace perdure::lsm
