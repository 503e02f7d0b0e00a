// A libGPM checkpoint's file on the host (GPM section 5.3): groups of data, two copies of each, and
// the switch between them. What moves the data is in gpm_checkpoint_on.hpp.
//
//   page 0        GpmCheckpointHeader
//   then          two headers of each group, with the sizes of its elements, in whole lines
//   then          two copies of each group, page by page; elements begin on lines of 128 bytes
//
// Invariant: the copy that counts, and the header that says so, are not written; the next
// checkpoint takes the other copy and the other header, and counts from when its header is there
// whole.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "gpm/gpm_format.hpp"
#include "perdure/status.h"
#include "pm/mapping.hpp"

namespace perdure::gpm {

class GpmCheckpointFile {
 public:
  /// Replaces what was there. Room for `bytes` of each group (rounded up to lines for each of its
  /// `elements`), twice. `synced`: what the host stores is synced, as on a disk; else it is written
  /// back. `spare`: so many groups more, for whose copies there is room once back() has made it.
  static Result<GpmCheckpointFile> create(std::string const& path, std::uint64_t bytes,
                                          std::uint32_t elements, std::uint32_t groups, bool synced,
                                          bool gpu, std::uint32_t spare = 0);
  static Result<GpmCheckpointFile> open(std::string const& path, bool synced, bool gpu);

  /// The group's newest whole checkpoint.
  struct Newest {
    GpmGroupHeader header;
    std::vector<std::uint64_t> sizes;
    std::uint32_t place;  // which of the two headers
  };
  [[nodiscard]] std::optional<Newest> newest(std::uint32_t group) const;
  /// Sees that the file has the group's copies.
  Status back(std::uint32_t group);
  /// The copy of the group that the next checkpoint may write.
  [[nodiscard]] std::byte* next_copy(std::uint32_t group) const;
  [[nodiscard]] std::uint64_t offset_of(std::byte const* at) const {
    return static_cast<std::uint64_t>(at - mapping_.data());
  }
  [[nodiscard]] std::byte const* copy(std::uint32_t group, std::uint32_t which) const;
  /// What was written into next_copy() counts from now on. It has been ordered before.
  Status switch_to_next(std::uint32_t group, std::uint64_t word,
                        std::span<std::uint64_t const> sizes);

  [[nodiscard]] GpmCheckpointHeader const& header() const {
    return *reinterpret_cast<GpmCheckpointHeader const*>(mapping_.data());
  }
  [[nodiscard]] std::string const& path() const { return path_; }
  [[nodiscard]] Medium medium() const { return mapping_.medium(); }

 private:
  GpmCheckpointFile(std::string path, pm::Mapping mapping, bool synced)
      : path_(std::move(path)), mapping_(std::move(mapping)), synced_(synced) {}
  Status make_durable(void const* at, std::size_t bytes) const;
  [[nodiscard]] Status check() const;
  [[nodiscard]] bool has_copies(std::uint32_t group) const;
  [[nodiscard]] std::optional<Newest> header_at(std::uint32_t group, std::uint32_t place) const;
  Status forget_torn(std::byte* header) const;
  [[nodiscard]] std::byte* header_bytes(std::uint32_t group, std::uint32_t place) const;

  std::string path_;
  pm::Mapping mapping_;
  bool synced_;
};

}  // namespace perdure::gpm
