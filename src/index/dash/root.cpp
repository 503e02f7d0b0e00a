#include "index/dash/root.hpp"

#include <string>
#include <vector>

#include "base/assert.hpp"
#include "base/crc32c.hpp"
#include "base/hash.hpp"
#include "pm/host_verbs.hpp"
#include "pm/pool_format.hpp"

namespace perdure::dash {
namespace {

constexpr std::size_t kConstant = 64;
static_assert(offsetof(IndexRoot, crc) == kConstant - sizeof(std::uint32_t));

bool possible(SegmentShape shape, std::uint64_t superblock_bytes) {
  return shape.buckets >= 4 && shape.buckets <= 512 && (shape.buckets & (shape.buckets - 1)) == 0 &&
         shape.stash <= kMostStash && shape.bytes() <= superblock_bytes - pm::kBlockAlign;
}

}  // namespace

void write_root(std::byte* at, Kind kind, SegmentShape shape, bool records) {
  PERDURE_ASSERT(shape.buckets >= 4 && shape.stash <= kMostStash);
  IndexRoot root{};
  root.magic = kIndexMagic;
  root.kind = static_cast<std::uint32_t>(kind);
  root.buckets = shape.buckets;
  root.stash = shape.stash;
  root.records = records ? 1 : 0;
  root.crc = crc32c(0, &root, offsetof(IndexRoot, crc));
  pm::write_bytes(at, &root, kConstant);
  pm::order();
}

std::uint64_t sum_of_index(std::byte const* superblock, std::uint32_t more) {
  std::vector<std::uint64_t> words;
  auto const add = [&](std::uint64_t at) { words.push_back(pm::load_word(superblock + at)); };
  for (std::uint64_t const at :
       {offsetof(IndexRoot, directory), offsetof(IndexRoot, first), offsetof(IndexRoot, counted)})
    add(at);
  for (std::uint32_t i = 0; i < more; ++i) add(kDirectories + i * sizeof(std::uint64_t));
  return hash_bytes(reinterpret_cast<std::byte const*>(words.data()),
                    words.size() * sizeof(std::uint64_t));
}

Result<SegmentShape> check_root(std::byte const* at, Kind kind, bool records,
                                std::uint64_t superblock_bytes) {
  IndexRoot root{};
  pm::read_bytes(&root, at, kConstant);
  auto const corrupt = [](std::string what) { return Status{Code::corrupt, std::move(what)}; };
  if (root.magic != kIndexMagic) return corrupt("its root leads to no Dash index");
  if (root.crc != crc32c(0, &root, offsetof(IndexRoot, crc)))
    return corrupt("the checksum of its Dash index does not match");
  if (root.kind != static_cast<std::uint32_t>(kind) || root.records != (records ? 1u : 0u))
    return corrupt("its Dash index is of another kind than its header says");
  SegmentShape const shape{root.buckets, root.stash};
  if (!possible(shape, superblock_bytes)) return corrupt("its Dash index has impossible segments");
  return shape;
}

}  // namespace perdure::dash
