#include "pm/copied_file.hpp"

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>

#include "pm/named_file.hpp"

namespace perdure::pm {
namespace {

constexpr std::size_t kLine = 64;

Status failed(std::string_view what, std::string const& path, char const* doing, int error) {
  return {error == ENOMEM ? Code::no_space : Code::io_error,
          std::string(what) + " " + path + ": " + doing + ": " + std::strerror(error)};
}

/// Lines of zeros are left as the fresh memory that they are.
void copy_backwards(std::byte* to, std::byte const* from, std::size_t bytes) {
  constexpr std::byte kZeros[kLine] = {};
  for (std::size_t end = bytes; end > 0;) {
    std::size_t const n = std::min(kLine, end);
    end -= n;
    std::byte line[kLine];
    std::memcpy(line, from + end, n);
    std::atomic_thread_fence(std::memory_order_acquire);  // before what lies below is read
    if (std::memcmp(line, kZeros, n) != 0) std::memcpy(to + end, line, n);
  }
}

}  // namespace

Result<CopiedFile> CopiedFile::copy(std::string_view what, std::string const& path) {
  auto file = open_file(what, path, false, Lock::none);
  if (!file) return file.status();
  struct stat st{};
  if (::fstat(file->get(), &st) != 0) return failed(what, path, "cannot be looked at", errno);
  CopiedFile copy;
  auto const bytes = static_cast<std::size_t>(st.st_size);
  if (bytes == 0) return copy;
  void* const theirs = ::mmap(nullptr, bytes, PROT_READ, MAP_SHARED, file->get(), 0);
  if (theirs == MAP_FAILED) return failed(what, path, "cannot be mapped", errno);
  void* const ours = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  int const error = errno;
  if (ours != MAP_FAILED) {
    copy.data_ = static_cast<std::byte*>(ours);
    copy.size_ = bytes;
    copy_backwards(copy.data_, static_cast<std::byte const*>(theirs), bytes);
  }
  ::munmap(theirs, bytes);
  if (ours == MAP_FAILED) return failed(what, path, "no memory for a copy", error);
  return copy;
}

CopiedFile::~CopiedFile() {
  if (data_ != nullptr) ::munmap(data_, size_);
}

Result<std::string> first_bytes(std::string_view what, std::string const& path, std::size_t bytes) {
  auto file = open_file(what, path, false, Lock::none);
  if (!file) return file.status();
  std::string read(bytes, '\0');
  std::size_t size = 0;
  while (size < bytes) {
    ssize_t const n =
        ::pread(file->get(), read.data() + size, bytes - size, static_cast<off_t>(size));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return failed(what, path, "cannot be read", errno);
    if (n == 0) break;
    size += static_cast<std::size_t>(n);
  }
  read.resize(size);
  return read;
}

}  // namespace perdure::pm
