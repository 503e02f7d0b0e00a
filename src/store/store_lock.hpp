// The store's lock: the reader-writer lock (exec/reader_writer_lock.hpp), which announces changes
// of the pool while it is exclusive; and a transaction or a device session that holds it
// exclusively from its begin to its end, whichever threads call for it. Invariants:
//  1. Between Changes::begin() and end() the lock is exclusive.
//  2. Calls inside what a holder holds exclude each other by `inside_`; the holder changes only
//     while that is exclusive.
#pragma once

#include <atomic>
#include <cstdint>
#include <shared_mutex>

#include "base/assert.hpp"
#include "exec/reader_writer_lock.hpp"

namespace perdure::pm {
class Changes;
}

namespace perdure {

/// Numbers are never used again, as ids of threads are.
[[nodiscard]] std::uint64_t this_thread_number() noexcept;

class StoreLock {
 public:
  /// Whoever has it exclusively changes the pool of this word; null: there is none any more.
  void announce(pm::Changes* changes) {
    PERDURE_ASSERT(changes == nullptr || changes_ == nullptr);
    changes_ = changes;
  }
  [[nodiscard]] bool announced() const { return changes_ != nullptr; }
  /// As the lock's own.
  [[nodiscard]] bool is_exclusive() const { return lock_.is_exclusive(); }
  [[nodiscard]] bool has_writer() const { return lock_.has_writer(); }

  /// Keeps other writers out, and no reader.
  void begin_writing() { lock_.begin_writing(exec::kSleepingThreads); }
  void end_writing() { lock_.end_writing(exec::kSleepingThreads); }
  /// For the writer.
  void lock_exclusive();
  void unlock_exclusive();
  void lock_shared() { lock_.lock_shared(exec::kSleepingThreads); }
  void unlock_shared() { lock_.unlock_shared(exec::kSleepingThreads); }

  /// Who has it exclusively hands it to a holder, known by a token: the address of something of its
  /// own.
  void hold(void const* token);
  /// The caller is inside, exclusively.
  void hold_no_more();
  /// This thread began what is being held.
  [[nodiscard]] bool is_held_here() const {
    return thread_.load(std::memory_order_relaxed) == this_thread_number();
  }
  /// Number of what another thread began and is being held; 0: there is nothing. Numbers are never
  /// used again.
  [[nodiscard]] std::uint64_t held_elsewhere() const {
    std::uint64_t const number = hold_.load(std::memory_order_relaxed);
    return is_held_here() ? 0 : number;
  }
  /// True: the caller is the holder's, by its token or, without one, by its thread, and is in until
  /// it leaves.
  bool enter_inside(void const* token, bool exclusive);
  /// In for the holder, whoever it is; false: there is none.
  bool enter_as_holder();
  void leave_inside(bool exclusive) { exclusive ? inside_.unlock() : inside_.unlock_shared(); }

 private:
  exec::ReaderWriterLock lock_;
  pm::Changes* changes_ = nullptr;  // for who has it exclusively

  std::shared_mutex inside_;
  void const* token_ = nullptr;  // of the holder; guarded by inside_
  std::atomic<std::uint64_t> thread_{0};  // that began it; written under inside_
  std::atomic<std::uint64_t> hold_{0};  // its number; likewise
};

/// How a call got in: through the lock, inside what its holder holds, or, where it named one that
/// is not the holder, not.
enum class Way : std::uint8_t { none, lock, inside };

class SharedLock {
 public:
  explicit SharedLock(StoreLock& lock, void const* token = nullptr) : lock_(lock) {
    way_ = lock_.enter_inside(token, false) ? Way::inside
           : token != nullptr               ? Way::none
                                            : Way::lock;
    if (way_ == Way::lock) lock_.lock_shared();
  }
  SharedLock(SharedLock const&) = delete;
  SharedLock& operator=(SharedLock const&) = delete;
  ~SharedLock() {
    if (way_ == Way::lock) lock_.unlock_shared();
    if (way_ == Way::inside) lock_.leave_inside(false);
  }
  [[nodiscard]] Way way() const { return way_; }

 private:
  StoreLock& lock_;
  Way way_;
};

/// The writer; readers go on. For a snapshot, and the choice of what is cached.
class WriterLock {
 public:
  explicit WriterLock(StoreLock& lock) : lock_(lock) { lock_.begin_writing(); }
  WriterLock(WriterLock const&) = delete;
  WriterLock& operator=(WriterLock const&) = delete;
  ~WriterLock() { lock_.end_writing(); }

 private:
  StoreLock& lock_;
};

/// The writer, exclusively; any thread may destroy it.
class ExclusiveLock {
 public:
  ExclusiveLock() = default;
  explicit ExclusiveLock(StoreLock& lock, void const* token = nullptr) : lock_(&lock) {
    way_ = lock.enter_inside(token, true) ? Way::inside : token != nullptr ? Way::none : Way::lock;
    if (way_ != Way::lock) return;
    lock.begin_writing();
    lock.lock_exclusive();
    exclusive_ = true;
  }
  ExclusiveLock(ExclusiveLock&& other) noexcept { *this = static_cast<ExclusiveLock&&>(other); }
  ExclusiveLock& operator=(ExclusiveLock&& other) noexcept {
    PERDURE_ASSERT(this != &other);
    leave();
    lock_ = other.lock_;
    way_ = other.way_;
    exclusive_ = other.exclusive_;
    other.way_ = Way::none;
    return *this;
  }
  ~ExclusiveLock() { leave(); }

  /// Nothing is written to the store from here on. Writers go on waiting.
  void let_readers_in() {
    if (way_ == Way::lock && exclusive_) lock_->unlock_exclusive();
    exclusive_ = false;
  }
  /// Exclusively again.
  void keep_readers_out() {
    if (way_ == Way::lock && !exclusive_) lock_->lock_exclusive();
    exclusive_ = way_ == Way::lock;
  }
  [[nodiscard]] Way way() const { return way_; }

 private:
  void leave() {
    if (way_ == Way::inside) lock_->leave_inside(true);
    if (way_ == Way::lock) {
      let_readers_in();
      lock_->end_writing();
    }
    way_ = Way::none;
  }

  StoreLock* lock_ = nullptr;
  Way way_ = Way::none;
  bool exclusive_ = false;
};

}  // namespace perdure
