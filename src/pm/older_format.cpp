#include "pm/older_format.hpp"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <optional>
#include <type_traits>

#include "base/assert.hpp"
#include "base/crc32c.hpp"
#include "pm/host_verbs.hpp"
#include "pm/root.hpp"

namespace perdure::pm {
namespace {

constexpr std::uint32_t kGphashVersion = 2, kDashVersion = 3;
constexpr std::uint32_t kMostLevels = 32;
constexpr std::uint32_t kMostLog2 = 40;  // buckets of a level

struct OlderLevel {
  std::uint64_t offset;  // of its first superblock
  std::uint32_t log2_buckets;
  std::uint32_t reserved;
};
static_assert(sizeof(OlderLevel) == 16 && offsetof(OlderLevel, log2_buckets) == 8);

struct OlderRoot {  // bytes
  std::uint64_t sequence;  //   0
  std::uint64_t superblocks;  //   8
  std::uint64_t batch_lease;  //  16  record sequence numbers below this may be in use
  std::uint32_t clean;  //  24
  std::uint32_t levels;  //  28  live ones, highest first in `level`; Dash: 1, its index
  std::uint32_t retiring;  //  32  1 = level[levels] is being emptied
  std::uint32_t undo_first;  //  36  first superblock; 0 = there is none
  OlderLevel level[kMostLevels + 1];  //  40
  std::uint32_t undo_entries;  // 568
  std::uint32_t dense_first;  // 572  first superblock; 0 = there is none
  std::uint32_t dense_superblocks;  // 576
  std::uint32_t crc;  // 580  CRC-32C of bytes 0..579
};
static_assert(offsetof(OlderRoot, sequence) == 0 && offsetof(OlderRoot, superblocks) == 8 &&
              offsetof(OlderRoot, batch_lease) == 16 && offsetof(OlderRoot, clean) == 24 &&
              offsetof(OlderRoot, levels) == 28 && offsetof(OlderRoot, retiring) == 32 &&
              offsetof(OlderRoot, undo_first) == 36 && offsetof(OlderRoot, level) == 40 &&
              offsetof(OlderRoot, undo_entries) == 568 && offsetof(OlderRoot, dense_first) == 572 &&
              offsetof(OlderRoot, dense_superblocks) == 576 && offsetof(OlderRoot, crc) == 580);
static_assert(sizeof(OlderRoot) == 584);
static_assert(std::has_unique_object_representations_v<OlderRoot>);

/// A copy that is not torn.
std::optional<OlderRoot> read_older(std::byte const* at) {
  OlderRoot root;
  read_bytes(&root, at, sizeof root);
  bool const whole = root.sequence != 0 && root.crc == checksum(root);
  return whole ? std::optional(root) : std::nullopt;
}

bool has_sane_levels(OlderRoot const& older, PoolHeader const& header) {
  if (header.format_version == kDashVersion) return older.levels == 1 && older.retiring == 0;
  if (older.levels != header.levels || older.levels > kMostLevels || older.retiring > 1)
    return false;
  std::span const all(older.level, older.levels + older.retiring);
  bool const falling = std::ranges::adjacent_find(all, std::ranges::less_equal{},
                                                  &OlderLevel::log2_buckets) == all.end();
  return falling && (all.empty() || all.front().log2_buckets <= kMostLog2);
}

/// The names are those of version 4, written out here, for these bytes never change; a test
/// compares them with their owners'.
Root converted(OlderRoot const& older, PoolHeader const& header) {
  PERDURE_ASSERT(has_sane_levels(older, header));
  Root root{};
  root.sequence = older.sequence;
  root.superblocks = older.superblocks;
  root.clean = older.clean;
  if (older.batch_lease != 0) root.set("record.numbers", 0, older.batch_lease);
  if (header.format_version == kDashVersion) {
    root.set("dash", older.level[0].offset, 0);
    return root;
  }
  for (std::uint32_t i = 0; i < older.levels + older.retiring; ++i) {
    OlderLevel const& level = older.level[i];
    root.set("gphash.level." + std::to_string(level.log2_buckets), level.offset,
             i == older.levels ? 1 : 0);
  }
  if (older.undo_first != 0 || older.undo_entries != 0)
    root.set("undo", older.undo_first * header.superblock_bytes, older.undo_entries);
  if (older.dense_first != 0 || older.dense_superblocks != 0)
    root.set("dense", older.dense_first * header.superblock_bytes, older.dense_superblocks);
  return root;
}

}  // namespace

bool is_convertible(PoolHeader const& header) {
  return header.magic == kPoolMagic && header.crc == checksum(header) &&
         header.format_version == (header.index == 0 ? kGphashVersion : kDashVersion);
}

std::string convert_older(std::span<std::byte> pool) {
  PoolHeader header;
  PERDURE_ASSERT(pool.size() >= kHeadBytes);
  read_bytes(&header, pool.data() + kHeaderOffset, sizeof header);
  if (!is_convertible(header)) return {};
  bool any = false;
  for (std::uint64_t const offset : kRootOffset) {
    std::byte* const at = pool.data() + offset;
    std::optional<OlderRoot> const older = read_older(at);
    if (older && !has_sane_levels(*older, header)) return "the root names impossible levels";
    zero_bytes(at, sizeof(OlderRoot));
    if (!older) continue;
    Root root = converted(*older, header);
    write_root(at, root);
    any = true;
  }
  if (!any) return "neither copy of the root has a valid checksum";
  header.format_version = kFormatVersion;
  header.crc = checksum(header);
  write_bytes(pool.data() + kHeaderOffset, &header, sizeof header);
  order();
  return {};
}

}  // namespace perdure::pm
