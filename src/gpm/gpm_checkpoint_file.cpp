#include "gpm/gpm_checkpoint_file.hpp"

#include <cstring>

#include "gpm/gpm_log_file.hpp"
#include "pm/flush.hpp"
#include "pm/host_verbs.hpp"

namespace perdure::gpm {
namespace {

std::uint64_t header_check(GpmCheckpointHeader const& header) {
  return hash_bytes(reinterpret_cast<std::byte const*>(&header),
                    offsetof(GpmCheckpointHeader, check));
}

std::uint64_t group_check(GpmGroupHeader const& header, std::span<std::uint64_t const> sizes) {
  std::uint64_t const own =
      hash_bytes(reinterpret_cast<std::byte const*>(&header), offsetof(GpmGroupHeader, check));
  if (mutated("gpm_header_check_without_sizes")) return own;
  return own ^
         nth_hash(hash_bytes(reinterpret_cast<std::byte const*>(sizes.data()), sizes.size_bytes()),
                  1);
}

/// Of one group header with its sizes.
std::uint64_t group_header_bytes(std::uint32_t elements) {
  return gpm_lines(sizeof(GpmGroupHeader) + elements * sizeof(std::uint64_t));
}

std::uint64_t pages(std::uint64_t bytes) { return (bytes + kGpmPage - 1) / kGpmPage * kGpmPage; }

std::uint64_t copies_begin(GpmCheckpointHeader const& h) {
  return kGpmPage + pages(2 * h.groups * group_header_bytes(h.elements));
}

/// With the copies of the first so many groups.
std::uint64_t bytes_needed(GpmCheckpointHeader const& h, std::uint64_t groups) {
  return gpm_file_bytes(copies_begin(h) + 2 * groups * pages(h.copy_bytes));
}

Status damaged_checkpoint(std::string const& path, std::string const& what) {
  return {Code::corrupt,
          "checkpoint " + path + " " + what + "; restore it from a copy, or make a new one"};
}

}  // namespace

Result<GpmCheckpointFile> GpmCheckpointFile::create(std::string const& path, std::uint64_t bytes,
                                                    std::uint32_t elements, std::uint32_t groups,
                                                    bool synced, bool gpu, std::uint32_t spare) {
  constexpr std::uint64_t kMost = std::uint64_t{1} << 40;
  if (bytes == 0 || bytes > kMost || elements == 0 || elements > 1u << 16 || groups == 0 ||
      groups > 1u << 16) {
    return Status{Code::invalid_argument,
                  "checkpoint " + path + ": " + std::to_string(bytes) + " bytes, " +
                      std::to_string(elements) + " elements, " + std::to_string(groups) +
                      " groups; ask for 1 byte to 1 TiB, and 1 to 65,536 of each"};
  }
  GpmCheckpointHeader header{};
  std::memcpy(header.magic, kGpmCheckpointMagic, sizeof header.magic);
  header.version = kGpmCheckpointVersion;
  header.groups = groups + spare;
  header.spare = spare;
  header.elements = elements;
  // each element may end within a line
  header.copy_bytes = gpm_lines(bytes) + (elements - 1) * kGpmLine;
  header.file_bytes = bytes_needed(header, header.groups);
  header.check = header_check(header);
  auto const make = pm::MakeOptions{
      .overwrite = true,
      .may_replace = pm::only_replaces("file " + path, "libGPM checkpoint",
                                       {kGpmCheckpointMagic, sizeof kGpmCheckpointMagic}, false)};
  auto mapping = pm::Mapping::create(path, bytes_needed(header, groups), header.file_bytes, make,
                                     {.gpu = gpu});
  if (!mapping.ok()) return mapping.status();
  GpmCheckpointFile file(path, std::move(mapping.value()), synced);
  pm::write_bytes(file.mapping_.data(), &header, sizeof header);
  if (Status s = file.make_durable(file.mapping_.data(), sizeof header); !s.ok()) return s;
  if (Status s = file.mapping_.keep(); !s.ok()) return s;
  return Result<GpmCheckpointFile>(std::move(file));
}

/// What the host stored there is durable.
Status GpmCheckpointFile::make_durable(void const* at, std::size_t bytes) const {
  if (synced_) return mapping_.sync(at, bytes);
  if (!mutated("gpm_header_not_flushed")) pm::start_flush(at, bytes);
  pm::order();
  return {};
}

Result<GpmCheckpointFile> GpmCheckpointFile::open(std::string const& path, bool synced, bool gpu) {
  auto mapping = pm::Mapping::open(path, {.gpu = gpu});
  if (!mapping.ok()) return mapping.status();
  GpmCheckpointFile file(path, std::move(mapping.value()), synced);
  if (Status s = file.check(); !s.ok()) return s;
  return Result<GpmCheckpointFile>(std::move(file));
}

Status GpmCheckpointFile::check() const {
  pm::will_read(mapping_.data(), sizeof(GpmCheckpointHeader));
  GpmCheckpointHeader const& h = header();
  if (std::memcmp(h.magic, kGpmCheckpointMagic, sizeof h.magic) != 0)
    return damaged_checkpoint(path_, "is no libGPM checkpoint");
  if (h.version != kGpmCheckpointVersion) {
    return {Code::unsupported, "checkpoint " + path_ + " is of format version " +
                                   std::to_string(h.version) + "; this build reads " +
                                   std::to_string(kGpmCheckpointVersion)};
  }
  if (h.check != header_check(h) || h.spare >= h.groups ||
      h.file_bytes != bytes_needed(h, h.groups))
    return damaged_checkpoint(path_, "has a damaged header");
  std::uint64_t least = bytes_needed(h, h.groups - h.spare);
  if (least <= mapping_.size()) {  // so that all headers are there: a spare group that has one has
                                   // had its copies
    for (std::uint32_t group = h.groups - h.spare; group < h.groups; ++group)
      if (header_at(group, 0) || header_at(group, 1)) least = bytes_needed(h, group + 1);
  }
  if (least > mapping_.size()) {
    return damaged_checkpoint(path_, "is truncated: " + std::to_string(mapping_.size()) + " of " +
                                         std::to_string(least) + " bytes are there");
  }
  return {};
}

bool GpmCheckpointFile::has_copies(std::uint32_t group) const {
  return bytes_needed(header(), group + 1) <= mapping_.size();
}

Status GpmCheckpointFile::back(std::uint32_t group) {
  return has_copies(group) ? Status{} : mapping_.grow(bytes_needed(header(), group + 1));
}

std::byte* GpmCheckpointFile::header_bytes(std::uint32_t group, std::uint32_t place) const {
  return mapping_.data() + kGpmPage +
         (2 * std::uint64_t{group} + place) * group_header_bytes(header().elements);
}

std::byte const* GpmCheckpointFile::copy(std::uint32_t group, std::uint32_t which) const {
  return mapping_.data() + copies_begin(header()) +
         (2 * std::uint64_t{group} + which) * pages(header().copy_bytes);
}

/// Nothing if that header was never written, or not wholly.
std::optional<GpmCheckpointFile::Newest> GpmCheckpointFile::header_at(std::uint32_t group,
                                                                      std::uint32_t place) const {
  std::byte const* const at = header_bytes(group, place);
  Newest found{{}, {}, place};
  pm::read_bytes(&found.header, at, sizeof found.header);
  if (found.header.epoch == 0 || found.header.elements > header().elements ||
      found.header.copy > 1 || found.header.bytes > header().copy_bytes)
    return std::nullopt;
  found.sizes.resize(found.header.elements);
  pm::read_bytes(found.sizes.data(), at + sizeof found.header,
                 found.sizes.size() * sizeof(std::uint64_t));
  if (found.header.check != group_check(found.header, found.sizes) &&
      !mutated("gpm_header_check_ignored"))
    return std::nullopt;
  return found;
}

std::optional<GpmCheckpointFile::Newest> GpmCheckpointFile::newest(std::uint32_t group) const {
  if (!has_copies(group)) return std::nullopt;
  auto first = header_at(group, 0);
  auto second = header_at(group, 1);
  if (!first || !second) return first ? first : second;
  bool const first_wins = first->header.epoch > second->header.epoch;
  return first_wins != mutated("gpm_older_header_wins") ? first : second;
}

std::byte* GpmCheckpointFile::next_copy(std::uint32_t group) const {
  auto const now = newest(group);
  std::uint32_t const which = now ? 1 - now->header.copy : 0;
  return const_cast<std::byte*>(copy(group, mutated("gpm_same_copy") ? 0 : which));
}

/// What a crash left of a header could be completed by words that the next one has in common with
/// it, and would then lead to the next one's copy: it loses its check first.
Status GpmCheckpointFile::forget_torn(std::byte* header) const {
  auto* const check = reinterpret_cast<std::uint64_t*>(header + offsetof(GpmGroupHeader, check));
  if (*check == 0 || mutated("gpm_torn_header_kept")) return {};
  pm::store_word(check, 0);
  return make_durable(check, sizeof *check);
}

Status GpmCheckpointFile::switch_to_next(std::uint32_t group, std::uint64_t word,
                                         std::span<std::uint64_t const> sizes) {
  auto const now = newest(group);
  GpmGroupHeader next{};
  next.epoch = now ? now->header.epoch + 1 : 1;
  next.word = word;
  next.copy = now ? 1 - now->header.copy : 0;
  next.elements = static_cast<std::uint32_t>(sizes.size());
  for (std::uint64_t const size : sizes) next.bytes += gpm_lines(size);
  next.check = group_check(next, sizes);
  std::uint32_t const place = now && !mutated("gpm_same_header") ? 1 - now->place : 0;
  std::byte* const at = header_bytes(group, place);
  if (!header_at(group, place)) {
    if (Status s = forget_torn(at); !s.ok()) return s;
  }
  pm::write_bytes(at, &next, sizeof next);
  pm::write_bytes(at + sizeof next, sizes.data(), sizes.size_bytes());
  if (mutated("gpm_header_not_ordered")) return {};
  return make_durable(at, sizeof next + sizes.size_bytes());
}

}  // namespace perdure::gpm
