// Anonymous memory of this process, zeros at first: with huge pages where that is asked for and the
// kernel has them, and registered with a GPU as pools are.
#pragma once

#include <cstddef>
#include <utility>

#include "perdure/status.h"

namespace perdure::measure {

class Pages {
 public:
  enum class Kind { plain, huge, pinned };
  /// The kernel promises `bytes`; it takes them as they are touched, pinned ones at once.
  static Result<Pages> make(std::size_t bytes, Kind kind);

  Pages() = default;
  Pages(Pages&& other) noexcept { *this = std::move(other); }
  Pages& operator=(Pages&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    std::swap(pinned_, other.pinned_);
    return *this;
  }
  ~Pages();

  template <class T>
  [[nodiscard]] T* as(std::size_t byte = 0) const {
    return reinterpret_cast<T*>(data_ + byte);
  }
  [[nodiscard]] std::size_t bytes() const { return bytes_; }
  /// Of those that were touched, how many lie in huge pages; the kernel says so.
  [[nodiscard]] std::size_t huge_bytes() const;

 private:
  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
  bool pinned_ = false;
};

/// What this process may still take: of the machine, and of its container.
std::size_t free_memory();

}  // namespace perdure::measure
