#include "lsm/gwal/gwal_headers.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <string_view>

#include "pm/host_verbs.hpp"

namespace perdure::lsm {
namespace {

std::string shown(GwalIdentity const& identity) {
  auto const end = std::find(identity.begin(), identity.end(), '\0');
  return "'" + std::string(identity.begin(), end) + "'";
}

Status newer(std::string const& path, std::uint32_t version) {
  return {Code::corrupt, "G-WAL " + path + " has format version " + std::to_string(version) +
                             ", and this Perdure knows " + std::to_string(kGwalVersion) +
                             "; open the database with the newer Perdure that wrote it"};
}

Status older(std::string const& path, std::uint32_t version) {
  return {Code::corrupt, "G-WAL " + path + " has format version " + std::to_string(version) +
                             ", and this Perdure knows " + std::to_string(kGwalVersion) +
                             "; open and close the database with the older Perdure that wrote it, "
                             "which hands all of it over to RocksDB"};
}

Status of_another(std::string const& path, GwalIdentity const& found,
                  GwalIdentity const& expected) {
  return {Code::corrupt, "G-WAL " + path + " belongs to the database " + shown(found) +
                             ", and this is " + shown(expected) +
                             "; give each database a log directory of its own, or, if that " +
                             "database is no more, remove the directory"};
}

bool all_zero(GwalIntent const& intent) {
  GwalIntent const zeros{};
  return std::memcmp(&intent, &zeros, sizeof intent) == 0;
}

}  // namespace

GwalIdentity gwal_identity(std::string const& identity) {
  GwalIdentity filled{};
  std::copy_n(identity.begin(), std::min(identity.size(), filled.size()), filled.begin());
  return filled;
}

Status gwal_damaged(std::string const& path, std::string const& how) {
  return {Code::corrupt,
          "G-WAL " + path + " " + how +
              "; restore the database and its log directory from one copy, or, to go on with what "
              "RocksDB has and lose what it has not, move the log directory away"};
}

Status gwal_lock_damaged(std::string const& directory) {
  return gwal_damaged(directory + "/gwal.lock", "is damaged");
}

Status check_gwal_lock(GwalLockHeader const& h, std::string const& directory,
                       GwalIdentity const& identity) {
  std::string const path = directory + "/gwal.lock";
  if (h.magic != kGwalLockMagic) return gwal_lock_damaged(directory);
  if (h.format_version > kGwalVersion) return newer(path, h.format_version);
  if (h.crc != checksum(h)) return gwal_lock_damaged(directory);
  if (h.format_version < kGwalVersion) return older(path, h.format_version);
  return h.identity == identity ? Status{} : of_another(path, h.identity, identity);
}

Status check_gwal_segment(GwalSegmentHeader const& h, std::string const& path,
                          GwalIdentity const& identity, std::uint64_t number,
                          std::uint64_t file_bytes) {
  if (h.magic != kGwalSegmentMagic) return gwal_damaged(path, "is no segment");
  if (h.format_version > kGwalVersion) return newer(path, h.format_version);
  if (h.crc != checksum(h)) return gwal_damaged(path, "has a damaged header, at offset 0");
  if (h.format_version < kGwalVersion) return older(path, h.format_version);
  if (h.identity != identity) return of_another(path, h.identity, identity);
  if (h.number != number)
    return gwal_damaged(path, "is segment " + std::to_string(h.number) + " under another's name");
  if (h.bytes == file_bytes) return {};
  return gwal_damaged(path, "is truncated: it has " + std::to_string(file_bytes) + " of " +
                                std::to_string(h.bytes) + " bytes");
}

/// A copy that does not pass was being written, when nothing had been ingested, or is damaged, when
/// the other has the same. Where they differ, nothing had been ingested either, and both say so. A
/// is written first: where it holds nothing and B does, that is damage.
Result<GwalIntentRead> read_gwal_intent(std::byte const* segment, std::string const& path,
                                        GwalIdentity const& identity, std::uint64_t number) {
  std::array<GwalIntent, 2> copies;
  for (std::size_t i = 0; i < copies.size(); ++i)
    pm::read_bytes(&copies[i], segment + kGwalIntents[i], sizeof copies[i]);
  bool const same = std::memcmp(&copies[0], &copies[1], sizeof copies[0]) == 0;
  for (std::size_t i = 0; i < copies.size(); ++i) {
    GwalIntent const& c = copies[i];
    bool const passes = c.magic == kGwalIntentMagic && c.format_version == kGwalVersion &&
                        c.number == number && c.crc == gwal_crc(identity, c);
    if (passes) return GwalIntentRead{c.rocks_sequence, same ? std::nullopt : std::optional(1 - i)};
  }
  if (all_zero(copies[1])) return GwalIntentRead{};
  return gwal_damaged(path, "has no intent that passes, at offsets 1024 and 2048");
}

}  // namespace perdure::lsm
