// std::mutex, its guard and std::condition_variable with the annotations that libstdc++'s lack
// (thread_annotations.hpp). Invariant: they do what those do, and cost the same.
#pragma once

#include <condition_variable>
#include <mutex>

#include "base/simulated.hpp"
#include "base/thread_annotations.hpp"

namespace perdure {

class PERDURE_CAPABILITY("mutex") Mutex {
 public:
  void lock() PERDURE_ACQUIRE() {
    fault::locks();
    while (fault::simulated() && !mutex_.try_lock()) fault::give_way();
    if (!fault::simulated()) mutex_.lock();
    fault::locked(this);
  }
  void unlock() PERDURE_RELEASE() {
    fault::unlocks(this);
    mutex_.unlock();
  }
  [[nodiscard]] bool try_lock() PERDURE_TRY_ACQUIRE(true) { return mutex_.try_lock(); }
  /// For lambdas that are called by who holds it. Nothing is looked at.
  void is_held() const PERDURE_ASSERT_CAPABILITY(this) {}

 private:
  friend class Condition;
  std::mutex mutex_;
};

class PERDURE_SCOPED_CAPABILITY MutexLock {
 public:
  explicit MutexLock(Mutex& mutex) PERDURE_ACQUIRE(mutex) : mutex_(mutex) { mutex_.lock(); }
  /// Of a mutex that try_lock() has.
  MutexLock(Mutex& mutex, std::adopt_lock_t) PERDURE_REQUIRES(mutex) : mutex_(mutex) {}
  MutexLock(MutexLock const&) = delete;
  MutexLock& operator=(MutexLock const&) = delete;
  ~MutexLock() PERDURE_RELEASE() {
    if (held_) mutex_.unlock();
  }
  /// For a while in which the caller does without.
  void unlock() PERDURE_RELEASE() {
    held_ = false;
    mutex_.unlock();
  }
  void lock() PERDURE_ACQUIRE() {
    mutex_.lock();
    held_ = true;
  }

 private:
  Mutex& mutex_;
  bool held_ = true;
};

/// What is waited for stands in a loop around wait(), where clang sees that the lock is held.
class Condition {
 public:
  void wait(Mutex& mutex) PERDURE_REQUIRES(mutex) {
    if (fault::simulated()) return let_others_go_on(mutex);
    std::unique_lock lock(mutex.mutex_, std::adopt_lock);
    condition_.wait(lock);
    static_cast<void>(lock.release());  // held, as before
  }
  /// The same, for no longer than `time`.
  template <class Time>
  void wait_for(Mutex& mutex, Time time) PERDURE_REQUIRES(mutex) {
    std::unique_lock lock(mutex.mutex_, std::adopt_lock);
    condition_.wait_for(lock, time);
    static_cast<void>(lock.release());
  }
  void notify_one() noexcept { condition_.notify_one(); }
  void notify_all() noexcept { condition_.notify_all(); }

 private:
  static void let_others_go_on(Mutex& mutex) PERDURE_REQUIRES(mutex) {
    mutex.unlock();
    fault::give_way();
    mutex.lock();
  }

  std::condition_variable condition_;
};

}  // namespace perdure
