// A copy of a file in memory of this process alone, made while another may go on writing the file.
// Nothing of it is locked or changed.
//
// Invariant: it is copied from its end to its begin, a line of 64 bytes at a time. So of what the
// other appends, each part after those before it are whole, the copy has no part without those.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "perdure/status.h"

namespace perdure::pm {

class CopiedFile {
 public:
  /// `what` it is to the caller begins every message. Code::not_found: it is not there any more.
  static Result<CopiedFile> copy(std::string_view what, std::string const& path);
  CopiedFile(CopiedFile&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}
  CopiedFile(CopiedFile const&) = delete;
  CopiedFile& operator=(CopiedFile const&) = delete;
  CopiedFile& operator=(CopiedFile&&) = delete;
  ~CopiedFile();

  [[nodiscard]] std::span<std::byte> bytes() const { return {data_, size_}; }

 private:
  CopiedFile() = default;
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

/// The first bytes of a file, as many as it has up to `bytes`.
Result<std::string> first_bytes(std::string_view what, std::string const& path, std::size_t bytes);

}  // namespace perdure::pm
