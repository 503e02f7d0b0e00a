// A file that another process may be writing, and that grows, mapped for reading. No lock is taken.
// Invariants: the address never changes; [0, size()) was in the file once, and is read from it as
// it is now. As for every pool, nobody may cut the file off.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "perdure/status.h"
#include "pm/named_file.hpp"

namespace perdure::pm {

class FollowedFile {
 public:
  static Result<FollowedFile> open(std::string const& path);
  FollowedFile(FollowedFile&& other) noexcept;
  FollowedFile& operator=(FollowedFile&&) = delete;
  ~FollowedFile();

  [[nodiscard]] std::byte const* data() const { return data_; }
  [[nodiscard]] std::uint64_t size() const { return size_; }
  /// Maps what the file has grown by.
  Status follow();
  /// Whether its name leads to it still.
  [[nodiscard]] bool has_its_name() const { return id_of(path_) == id_of(file_.get()); }

 private:
  FollowedFile(std::string path, Fd file) : path_(std::move(path)), file_(std::move(file)) {}
  Status reserve();
  [[nodiscard]] Status failed(std::string const& what) const;

  std::string path_;
  Fd file_;
  std::byte const* data_ = nullptr;
  std::uint64_t addresses_ = 0;  // that are kept for it
  std::uint64_t size_ = 0;
};

}  // namespace perdure::pm
