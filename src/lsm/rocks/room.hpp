// Memory that calls use again: arrays that are filled whole, so that nobody clears them first, and
// objects that hold such arrays. Invariant: a loan belongs to one call at a time.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <memory>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/mutex.hpp"

namespace perdure::lsm {

template <class T>
class Room {
 public:
  static_assert(std::is_trivially_copyable_v<T> && alignof(T) <= alignof(std::max_align_t));
  /// n elements that may hold anything; what was taken before is gone.
  std::span<T> take(std::size_t n) {
    if (n > capacity_) {
      std::size_t const more = n + n / 8;  // the next call's may be a little more
      elements_ = nullptr;  // two at a time would be more than it takes
      capacity_ = 0;
      elements_ = std::make_unique_for_overwrite<std::byte[]>(more * sizeof(T));
      capacity_ = more;
    }
    taken_ = {reinterpret_cast<T*>(elements_.get()), n};
    return taken_;
  }
  /// What was taken last.
  [[nodiscard]] std::span<T> get() const { return taken_; }
  [[nodiscard]] std::size_t bytes() const { return capacity_ * sizeof(T); }

 private:
  std::unique_ptr<std::byte[]> elements_;  // no element is written before it is filled
  std::size_t capacity_ = 0;
  std::span<T> taken_;
};

/// Byte strings one behind the other.
class AppendedBytes {
 public:
  void clear() { size_ = 0; }
  void add(void const* data, std::size_t n) {
    if (n > capacity_ - size_) grow(n);
    if (n == sizeof(std::uint64_t))
      std::memcpy(bytes_.get() + size_, data, sizeof(std::uint64_t));
    else if (n > 0)
      std::memcpy(bytes_.get() + size_, data, n);
    size_ += n;
  }
  [[nodiscard]] std::byte const* data() const { return bytes_.get(); }
  [[nodiscard]] std::size_t size() const { return size_; }
  [[nodiscard]] std::size_t capacity() const { return capacity_; }

 private:
  void grow(std::size_t n) {
    std::size_t const capacity = std::max(size_ + n, std::max<std::size_t>(4096, 2 * capacity_));
    auto fresh = std::make_unique_for_overwrite<std::byte[]>(capacity);
    if (size_ > 0) std::memcpy(fresh.get(), bytes_.get(), size_);
    bytes_ = std::move(fresh);
    capacity_ = capacity;
  }
  std::unique_ptr<std::byte[]> bytes_;
  std::size_t size_ = 0;
  std::size_t capacity_ = 0;
};

/// Objects with bytes(), made when none is idle. What is idle has a limit, so that what one huge
/// call took goes with it; it is high, for memory that is got anew costs its pages anew.
template <class T>
class Reused {
 public:
  class Loan {
   public:
    Loan(Reused& from, std::unique_ptr<T> object) : from_(&from), object_(std::move(object)) {}
    Loan(Loan&&) noexcept = default;
    Loan(Loan const&) = delete;
    Loan& operator=(Loan const&) = delete;
    Loan& operator=(Loan&&) = delete;
    ~Loan() {
      if (object_ != nullptr) from_->give(std::move(object_));
    }
    T& operator*() const { return *object_; }
    T* operator->() const { return object_.get(); }

   private:
    Reused* from_;
    std::unique_ptr<T> object_;
  };

  Loan take() {
    {
      MutexLock const lock(mutex_);
      if (!idle_.empty()) {
        std::unique_ptr<T> object = std::move(idle_.back());
        idle_.pop_back();
        kept_ -= object->bytes();
        return {*this, std::move(object)};
      }
      idle_.reserve(++made_);  // so that giving one back needs no memory
    }
    return {*this, std::make_unique<T>()};
  }

 private:
  static constexpr std::size_t kKept = std::size_t{1} << 30;

  void give(std::unique_ptr<T> object) {
    MutexLock const lock(mutex_);
    if (kept_ + object->bytes() > kKept) return;
    kept_ += object->bytes();
    idle_.push_back(std::move(object));
  }

  Mutex mutex_;
  std::size_t made_ PERDURE_GUARDED_BY(mutex_) = 0;
  std::size_t kept_ PERDURE_GUARDED_BY(mutex_) = 0;
  std::vector<std::unique_ptr<T>> idle_ PERDURE_GUARDED_BY(mutex_);
};

}  // namespace perdure::lsm
