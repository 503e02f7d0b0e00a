// Words that are 0 at first and take neither time nor memory until they are used, however many
// there are. Invariant: each page comes from the system, and nowhere else from, so nothing has to
// be cleared.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <cstdint>
#include <new>
#include <utility>

namespace perdure {

class ZeroWords {
 public:
  ZeroWords() = default;
  explicit ZeroWords(std::size_t n) : bytes_(n * sizeof(std::uint64_t)) {
    void* const at = ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED) throw std::bad_alloc();
    words_ = static_cast<std::uint64_t*>(at);
  }
  ZeroWords(ZeroWords&& other) noexcept { *this = std::move(other); }
  ZeroWords& operator=(ZeroWords&& other) noexcept {
    std::swap(words_, other.words_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~ZeroWords() {
    if (words_ != nullptr) ::munmap(words_, bytes_);
  }

  explicit operator bool() const { return words_ != nullptr; }
  [[nodiscard]] std::uint64_t& operator[](std::size_t i) const { return words_[i]; }

 private:
  std::uint64_t* words_ = nullptr;
  std::size_t bytes_ = 0;
};

}  // namespace perdure
