#include "store/store_lock.hpp"

#include "base/assert.hpp"
#include "pm/changes.hpp"

namespace perdure {

std::uint64_t this_thread_number() noexcept {
  static std::atomic<std::uint64_t> last{0};
  thread_local std::uint64_t const mine = last.fetch_add(1) + 1;
  return mine;
}

void StoreLock::lock_exclusive() {
  lock_.lock_exclusive(exec::kSleepingThreads);
  if (changes_ != nullptr) changes_->begin();
}

void StoreLock::unlock_exclusive() {
  if (changes_ != nullptr) changes_->end();
  lock_.unlock_exclusive(exec::kSleepingThreads);
}

void StoreLock::hold(void const* token) {
  std::lock_guard const lock(inside_);
  PERDURE_ASSERT(token != nullptr && token_ == nullptr);
  PERDURE_ASSERT(is_exclusive());
  static std::atomic<std::uint64_t> last{0};
  token_ = token;
  thread_ = this_thread_number();
  hold_ = last.fetch_add(1) + 1;
}

void StoreLock::hold_no_more() {
  PERDURE_ASSERT(token_ != nullptr);
  PERDURE_ASSERT(is_exclusive());  // for whoever releases it afterwards
  token_ = nullptr;
  hold_ = 0;
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
