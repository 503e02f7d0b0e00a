// A file of plain bytes, as gpm_map() gives it (GPM section 5.1): mapped, and on a GPU registered
// with it; or, for comparison, written with write() and fsync().
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "perdure/status.h"
#include "perdure/survival.h"
#include "pm/mapping.hpp"

namespace perdure::gpm {

class GpmFile {
 public:
  GpmFile() = default;
  GpmFile(GpmFile&& other) noexcept { *this = std::move(other); }
  GpmFile& operator=(GpmFile&& other) noexcept;
  ~GpmFile();

  /// `create`: made anew, of zeros, in place of any file there but one of another kind of ours (a
  /// pool, a log, ...); else it must be there, with `bytes` at least (0: whatever it has).
  static Result<GpmFile> map(std::string const& path, std::uint64_t bytes, bool create, bool gpu);
  static Result<GpmFile> plain(std::string const& path, std::uint64_t bytes, bool create);

  [[nodiscard]] std::byte* data() const { return mapping_ ? mapping_->data() : nullptr; }
  [[nodiscard]] std::uint64_t bytes() const { return bytes_; }
  [[nodiscard]] Medium medium() const { return mapping_ ? mapping_->medium() : Medium::file; }

  // Of a plain one.
  Status write_and_sync(std::uint64_t from, std::byte const* data, std::uint64_t bytes);
  Status read(std::uint64_t from, std::byte* data, std::uint64_t bytes);

 private:
  static Result<GpmFile> make_plain(GpmFile file);
  static Result<GpmFile> open_plain(GpmFile file);
  Status sync();

  std::string path_;
  std::optional<pm::Mapping> mapping_;
  int fd_ = -1;
  std::uint64_t bytes_ = 0;
};

}  // namespace perdure::gpm
