#include "pm/followed_file.hpp"

#include <sys/mman.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "base/assert.hpp"
#include "pm/mapping.hpp"
#include "pm/pool_format.hpp"

namespace perdure::pm {
namespace {

// As far as slot words reach; where so many are not to be had, a quarter, and so on.
constexpr std::uint64_t kAddresses = std::uint64_t{1} << 40;
constexpr std::uint64_t kLeastAddresses = std::uint64_t{1} << 34;
constexpr std::uint64_t kPage = 4096;

}  // namespace

FollowedFile::FollowedFile(FollowedFile&& other) noexcept
    : path_(std::move(other.path_)),
      file_(std::move(other.file_)),
      data_(std::exchange(other.data_, nullptr)),
      addresses_(other.addresses_),
      size_(std::exchange(other.size_, 0)) {}

FollowedFile::~FollowedFile() {
  if (data_ != nullptr) ::munmap(const_cast<std::byte*>(data_), addresses_);
}

Result<FollowedFile> FollowedFile::open(std::string const& path) {
  auto file = Mapping::open_existing(path, false, Lock::none);
  if (!file) return file.status();
  FollowedFile followed(path, std::move(*file));
  if (Status s = followed.reserve(); !s.ok()) return s;
  if (Status s = followed.follow(); !s.ok()) return s;
  return followed;
}

Status FollowedFile::reserve() {
  PERDURE_ASSERT(data_ == nullptr);
  for (addresses_ = kAddresses; addresses_ >= kLeastAddresses; addresses_ /= 4) {
    void* const at =
        ::mmap(nullptr, addresses_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED) continue;
    data_ = static_cast<std::byte const*>(at);
    return {};
  }
  return failed("no address space to map it (ulimit -v?)");
}

Status FollowedFile::follow() {
  struct stat st{};
  if (::fstat(file_.get(), &st) != 0) return failed("cannot be looked at");
  std::uint64_t const bytes = static_cast<std::uint64_t>(st.st_size) / kPage * kPage;
  if (bytes <= size_ || bytes > kAddresses) return {};
  if (bytes > addresses_)
    return {Code::no_space, "pool " + path_ + " has " + std::to_string(bytes) +
                                " bytes by now, and " + std::to_string(addresses_) +
                                " of address space were to be had when its reader was opened "
                                "(ulimit -v?): open it again"};
  void* const from = const_cast<std::byte*>(data_) + size_;
  void* const at = ::mmap(from, bytes - size_, PROT_READ, MAP_SHARED | MAP_FIXED, file_.get(),
                          static_cast<off_t>(size_));
  if (at == MAP_FAILED) return failed("cannot be mapped");
  ::madvise(at, bytes - size_, MADV_HUGEPAGE);  // advice only, as in mapping.cpp
  size_ = bytes;
  return {};
}

Status FollowedFile::failed(std::string const& what) const {
  return {Code::io_error, "pool " + path_ + ": " + what + ": " + std::strerror(errno)};
}

}  // namespace perdure::pm
