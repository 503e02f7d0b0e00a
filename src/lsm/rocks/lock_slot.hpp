// What a lock takes in a stripe's table: one cache line, its key inside where the key is short.
//
// Invariant: a slot owns its key's bytes. Whoever took the lock may go before those who share it,
// and his buffer with him.
#pragma once

#include <rocksdb/utilities/transaction_db.h>
#include <tsl/robin_map.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>
#include <string_view>
#include <utility>
#include <vector>

#include "lsm/rocks/tracked_keys.hpp"

namespace perdure::lsm {

/// A key with its hash, of a family that is known.
class LockedKey {
 public:
  static constexpr std::size_t kInside = 20;

  explicit LockedKey(KeyRef const& key)
      : hash_(key.hash), size_(static_cast<std::uint32_t>(key.bytes.size())) {
    char* at = inside_.data();
    if (!is_inside()) {
      at = new char[size_];
      std::memcpy(inside_.data(), static_cast<void const*>(&at), sizeof at);
    }
    if (size_ != 0) std::memcpy(at, key.bytes.data(), size_);
  }
  LockedKey(LockedKey&& other) noexcept { take(other); }
  LockedKey& operator=(LockedKey&& other) noexcept {
    if (this == &other) return *this;
    free();
    take(other);
    return *this;
  }
  LockedKey(LockedKey const&) = delete;
  LockedKey& operator=(LockedKey const&) = delete;
  ~LockedKey() { free(); }

  [[nodiscard]] std::uint64_t hash() const { return hash_; }
  [[nodiscard]] std::string_view bytes() const {
    return {is_inside() ? inside_.data() : outside(), size_};
  }

 private:
  [[nodiscard]] bool is_inside() const { return size_ <= kInside; }
  [[nodiscard]] char* outside() const {
    char* at = nullptr;
    std::memcpy(static_cast<void*>(&at), inside_.data(), sizeof at);
    return at;
  }
  void take(LockedKey& other) {
    hash_ = other.hash_;
    size_ = std::exchange(other.size_, 0);
    inside_ = other.inside_;
  }
  void free() const {
    if (!is_inside()) delete[] outside();
  }

  std::uint64_t hash_;
  std::uint32_t size_;
  std::array<char, kInside> inside_;
};

/// Who has a key. Most locks have one holder, for whom no time ends; what else there may be lies
/// apart.
class HeldLock {
 public:
  using Id = rocksdb::TransactionID;

  HeldLock(Id holder, std::uint64_t expires_us, bool alone, std::uint32_t place)
      : first_(holder), place_(place), exclusive_(alone) {
    if (expires_us != 0) rest_ = std::make_unique<Rest>(Rest{{}, expires_us});
  }

  [[nodiscard]] bool exclusive() const { return exclusive_; }
  void set_exclusive(bool alone) { exclusive_ = alone; }
  [[nodiscard]] bool is_free() const { return first_ == 0; }
  [[nodiscard]] bool only(Id id) const {
    return first_ == id && (rest_ == nullptr || rest_->others.empty());
  }
  [[nodiscard]] bool is_held_by(Id id) const {
    if (first_ == id) return true;
    return rest_ != nullptr &&
           std::find(rest_->others.begin(), rest_->others.end(), id) != rest_->others.end();
  }
  /// Where who took it first tracks the key.
  [[nodiscard]] std::uint32_t place() const { return place_; }
  /// When all holders' time is over; 0: never.
  [[nodiscard]] std::uint64_t expires_us() const {
    return rest_ != nullptr ? rest_->expires_us : 0;
  }
  [[nodiscard]] std::vector<Id> holders() const {
    std::vector<Id> all{first_};
    if (rest_ != nullptr) all.insert(all.end(), rest_->others.begin(), rest_->others.end());
    return all;
  }
  void share(Id with, std::uint64_t his_expires_us) {
    if (rest_ == nullptr) rest_ = std::make_unique<Rest>();
    rest_->others.push_back(with);
    bool const ends = rest_->expires_us != 0 && his_expires_us != 0;
    rest_->expires_us = ends ? std::max(rest_->expires_us, his_expires_us) : 0;
  }
  /// False: it is not a holder.
  bool leave(Id id) {
    if (first_ != id) return rest_ != nullptr && std::erase(rest_->others, id) != 0;
    first_ = 0;
    if (rest_ == nullptr || rest_->others.empty()) return true;
    first_ = rest_->others.back();
    rest_->others.pop_back();
    return true;
  }

 private:
  struct Rest {
    std::vector<Id> others;
    std::uint64_t expires_us = 0;
  };
  Id first_;
  std::unique_ptr<Rest> rest_;
  std::uint32_t place_;
  bool exclusive_;
};

namespace lock_slots {

struct Hash {
  std::size_t operator()(LockedKey const& key) const noexcept { return key.hash(); }
};
struct Equal {
  using is_transparent = void;
  bool operator()(LockedKey const& a, LockedKey const& b) const {
    return a.hash() == b.hash() && a.bytes() == b.bytes();
  }
  bool operator()(KeyRef const& a, LockedKey const& b) const {
    return a.hash == b.hash() && a.bytes == b.bytes();
  }
  bool operator()(LockedKey const& a, KeyRef const& b) const { return (*this)(b, a); }
};

/// Slots begin where lines begin.
template <class T>
struct Lines {
  using value_type = T;
  static constexpr std::align_val_t kLine{64};
  Lines() = default;
  template <class U>
  Lines(Lines<U> const&) {}
  T* allocate(std::size_t n) { return static_cast<T*>(::operator new(n * sizeof(T), kLine)); }
  void deallocate(T* at, std::size_t) { ::operator delete(at, kLine); }
  bool operator==(Lines const&) const { return true; }
};

}  // namespace lock_slots

using LockSlots = tsl::robin_map<LockedKey, HeldLock, lock_slots::Hash, lock_slots::Equal,
                                 lock_slots::Lines<std::pair<LockedKey, HeldLock>>, true>;
static_assert(sizeof(LockSlots::value_type) == 56, "with the table's own 8 bytes, a line");

}  // namespace perdure::lsm
