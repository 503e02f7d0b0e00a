#include "pm/dense.hpp"

#include <algorithm>
#include <utility>

#include "base/assert.hpp"
#include "base/crc32c.hpp"
#include "base/hooks.hpp"
#include "pm/host_verbs.hpp"

namespace perdure::pm {
namespace {

constexpr std::uint64_t kCopyBit = std::uint64_t{1}
                                   << 63;  // of the word; below it the step + 1, or 0 for none yet
constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 62;  // of a copy
constexpr std::uint64_t kMostSuperblocks = std::uint64_t{1} << 32;

std::uint32_t checksum_of_room(DenseHeader const& header, std::span<DenseEntry const> entries) {
  return crc32c(crc32c(0, &header, offsetof(DenseHeader, crc)), entries.data(),
                entries.size_bytes());
}

std::vector<DenseEntry> entries_of(std::span<DenseRoom::Buffer const> buffers) {
  std::vector<DenseEntry> entries(buffers.size());
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    PERDURE_ASSERT(buffers[i].name.size() <= kMostDenseName);  // a zero ends it
    std::copy(buffers[i].name.begin(), buffers[i].name.end(), entries[i].name.begin());
    entries[i].bytes = buffers[i].bytes;
  }
  return entries;
}

}  // namespace

std::uint64_t DenseRoom::lay_out(std::vector<Buffer>& buffers) {
  std::uint64_t end = 0;
  for (Buffer& buffer : buffers) {
    buffer.at = end;
    if (buffer.bytes > kMostBytes - end - kDenseAlign) return kMostBytes;
    end += (buffer.bytes + kDenseAlign - 1) / kDenseAlign * kDenseAlign;
    PERDURE_ASSERT(buffer.at % kDenseAlign == 0 && end >= buffer.at + buffer.bytes);
  }
  return end;
}

Status DenseRoom::attach() {
  RootEntry const* const room = pool_->root().find(kDenseRoom);
  if (room == nullptr) return {};
  if (room->value == 0 || !pool_->is_free_run(Offset{room->offset}, room->value))
    return {Code::corrupt,
            "the root names room for dense buffers that cannot be there; restore it from a copy"};
  base_ = Offset{room->offset};
  superblocks_ = room->value;
  pool_->claim_run(base_, superblocks_);
  read_header();
  return {};
}

void DenseRoom::read_header() {
  DenseHeader header;
  read_bytes(&header, pool_->base() + base_.bytes, sizeof header);
  std::uint64_t const most = (bytes() - kDenseEntries) / sizeof(DenseEntry);
  bool sane = header.magic == kDenseMagic && header.buffers > 0 && header.buffers <= most;
  std::vector<DenseEntry> entries(sane ? header.buffers : 0);
  read_bytes(reinterpret_cast<std::byte*>(entries.data()),
             pool_->base() + base_.bytes + kDenseEntries, entries.size() * sizeof(DenseEntry));
  sane = sane && header.crc == checksum_of_room(header, entries);
  for (DenseEntry const& entry : entries) {
    auto const end = std::find(entry.name.begin(), entry.name.end(), '\0');
    sane = sane && end != entry.name.end();
    buffers_.push_back({std::string(entry.name.begin(), end), entry.bytes, 0});
  }
  copy_bytes_ = lay_out(buffers_);
  sane = sane && copy_bytes_ <= (bytes() - first_copy()) / 2;
  if (sane) return;
  buffers_.clear();
  fault_ =
      "the header of its dense buffers, at byte " + std::to_string(base_.bytes) + ", is damaged";
}

Status DenseRoom::make(std::vector<Buffer> buffers) {
  PERDURE_ASSERT(!exists() && buffers_.empty() && !buffers.empty());
  std::uint64_t const copy_bytes = lay_out(buffers);
  std::uint64_t const needed = kDenseEntries + buffers.size() * sizeof(DenseEntry) + 2 * copy_bytes;
  std::uint64_t const superblocks =
      (needed + pool_->superblock_bytes() - 1) / pool_->superblock_bytes();
  if (superblocks > kMostSuperblocks)
    return {Code::no_space, "two copies of these dense buffers are more than a pool holds"};
  auto run = pool_->take_run(superblocks);
  if (!run) return run.status();
  Root root = pool_->root();
  root.set(kDenseRoom, run->bytes, superblocks);
  if (mutated("dense_room_named_before_header")) pool_->publish_root(root);
  std::vector<DenseEntry> const entries = entries_of(buffers);
  DenseHeader header{kDenseMagic, static_cast<std::uint32_t>(buffers.size()), {}, 0};
  header.crc = checksum_of_room(header, entries);
  std::byte* const at = pool_->base() + run->bytes;
  zero_bytes(at + kDenseWord, sizeof(std::uint64_t));
  write_bytes(at + kDenseEntries, entries.data(), entries.size() * sizeof(DenseEntry));
  write_bytes(at, &header, sizeof header);
  if (!mutated("dense_room_named_before_header")) pool_->publish_root(root);
  base_ = *run;
  superblocks_ = superblocks;
  buffers_ = std::move(buffers);
  copy_bytes_ = copy_bytes;
  PERDURE_ASSERT(exists() && first_copy() + 2 * copy_bytes_ <= bytes());
  return {};
}

std::uint64_t DenseRoom::word() const {
  PERDURE_ASSERT(exists());
  return load_word(pool_->base() + word_at().bytes);
}

void DenseRoom::set_word(std::uint64_t word) {
  PERDURE_ASSERT(exists());
  store_word(reinterpret_cast<std::uint64_t*>(pool_->base() + word_at().bytes), word);
  order();
}

std::optional<std::uint64_t> DenseRoom::step() const {
  std::uint64_t const after = word() & ~kCopyBit;
  if (after == 0) return std::nullopt;
  return after - 1;
}

Offset DenseRoom::other(Buffer const& buffer) const {
  return mutated("dense_overwrites_what_counts") ? counting(buffer)
                                                 : copy(1 - (word() >> 63)) + buffer.at;
}

void DenseRoom::publish(std::uint64_t step) {
  PERDURE_ASSERT(exists() && step <= kMostStep);
  std::uint64_t const flip = mutated("step_word_keeps_copy") ? 0 : kCopyBit;
  std::uint64_t const next = ((word() & kCopyBit) ^ flip) | (step + 1);
  store_word(reinterpret_cast<std::uint64_t*>(pool_->base() + word_at().bytes), next);
}

}  // namespace perdure::pm
