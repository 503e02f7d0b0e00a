#include "store/store_lock.hpp"

#include "base/assert.hpp"
#include "pm/changes.hpp"

namespace perdure {

std::uint64_t this_thread_number() noexcept {
  static std::atomic<std::uint64_t> last{0};
  thread_local std::uint64_t const mine = last.fetch_add(1) + 1;
  return mine;
}

void StoreLock::begin_writing() {
  MutexLock const lock(mutex_);
  while (writing_) may_write_.wait(mutex_);
  PERDURE_ASSERT(!exclusive_ && !exclusive_waits_);  // only the writer is, and it has left
  writing_ = true;
}

void StoreLock::end_writing() {
  MutexLock const lock(mutex_);
  PERDURE_ASSERT(writing_ && !exclusive_);
  writing_ = false;
  may_write_.notify_one();  // under the lock: who comes in may be the last to use the store
}

void StoreLock::lock_exclusive() {
  MutexLock const lock(mutex_);
  PERDURE_ASSERT(writing_ && !exclusive_ &&
                 !exclusive_waits_);  // there is one writer, and only it takes the lock exclusively
  exclusive_waits_ = true;
  while (readers_ != 0) empty_.wait(mutex_);
  PERDURE_ASSERT(writing_ && !exclusive_);  // nobody else came in meanwhile
  exclusive_waits_ = false;
  exclusive_ = true;
  if (changes_ != nullptr) changes_->begin();
}

/// Counts those in who waited: the next writer waits for them.
void StoreLock::unlock_exclusive() {
  MutexLock const lock(mutex_);
  PERDURE_ASSERT(exclusive_ && readers_ == 0);
  if (changes_ != nullptr) changes_->end();
  exclusive_ = false;
  readers_ += waiting_;
  waiting_ = 0;
  ++turn_;
  let_in_.notify_all();
}

void StoreLock::lock_shared() {
  MutexLock const lock(mutex_);
  if (!exclusive_ && !exclusive_waits_) {
    ++readers_;
    return;
  }
  ++waiting_;
  std::uint64_t const turn = turn_;
  while (turn_ == turn) let_in_.wait(mutex_);  // and counted in
  PERDURE_ASSERT(readers_ > 0 && !exclusive_);
}

void StoreLock::unlock_shared() {
  MutexLock const lock(mutex_);
  PERDURE_ASSERT(readers_ > 0 && !exclusive_);
  if (--readers_ == 0 && exclusive_waits_) empty_.notify_one();
}

void StoreLock::hold(void const* token) {
  std::lock_guard const lock(inside_);
  PERDURE_ASSERT(token != nullptr && token_ == nullptr);
  PERDURE_ASSERT(is_exclusive());
  token_ = token;
  thread_ = this_thread_number();
}

void StoreLock::hold_no_more() {
  PERDURE_ASSERT(token_ != nullptr);
  PERDURE_ASSERT(is_exclusive());  // for whoever lets go of it afterwards
  token_ = nullptr;
  thread_ = 0;
}

bool StoreLock::enter_as_holder() {
  inside_.lock_shared();
  if (token_ != nullptr) return true;
  inside_.unlock_shared();
  return false;
}

bool StoreLock::enter_inside(void const* token, bool exclusive) {
  if (token == nullptr && !is_held_here()) return false;
  exclusive ? inside_.lock() : inside_.lock_shared();
  // It may have ended on another thread meanwhile.
  if (token_ != nullptr && (token == token_ || (token == nullptr && is_held_here()))) return true;
  leave_inside(exclusive);
  return false;
}

}  // namespace perdure
