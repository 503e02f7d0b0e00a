#include "store/world.hpp"

#include "base/assert.hpp"
#include "pm/changes.hpp"

namespace perdure {

std::uint64_t this_thread_number() noexcept {
  static std::atomic<std::uint64_t> last{0};
  thread_local std::uint64_t const mine = last.fetch_add(1) + 1;
  return mine;
}

void World::begin_writing() {
  std::unique_lock lock(mutex_);
  may_write_.wait(lock, [this] { return !writing_; });
  writing_ = true;
}

void World::end_writing() {
  std::lock_guard const lock(mutex_);
  PERDURE_ASSERT(writing_ && !alone_);
  writing_ = false;
  may_write_.notify_one();  // under the lock: who comes in may be the last to use the store
}

void World::enter_alone() {
  std::unique_lock lock(mutex_);
  PERDURE_ASSERT(writing_ && !alone_ && !wants_alone_);  // there is one writer, and only that one goes alone
  wants_alone_ = true;
  empty_.wait(lock, [this] { return readers_ == 0; });
  wants_alone_ = false;
  alone_ = true;
  if (changes_ != nullptr) changes_->begin();
}

/// Counts those in who waited: the next one who wants to be alone waits for them.
void World::leave_alone() {
  std::lock_guard const lock(mutex_);
  PERDURE_ASSERT(alone_ && readers_ == 0);
  if (changes_ != nullptr) changes_->end();
  alone_ = false;
  readers_ += waiting_;
  waiting_ = 0;
  ++turn_;
  let_in_.notify_all();
}

void World::enter_shared() {
  std::unique_lock lock(mutex_);
  if (!alone_ && !wants_alone_) {
    ++readers_;
    return;
  }
  ++waiting_;
  let_in_.wait(lock, [this, turn = turn_] { return turn_ != turn; });  // and counted in
}

void World::leave_shared() {
  std::lock_guard const lock(mutex_);
  PERDURE_ASSERT(readers_ > 0 && !alone_);
  if (--readers_ == 0 && wants_alone_) empty_.notify_one();
}

void World::hold(void const* token) {
  std::lock_guard const lock(inside_);
  PERDURE_ASSERT(token != nullptr && token_ == nullptr);
  token_ = token;
  thread_ = this_thread_number();
}

void World::hold_no_more() {
  PERDURE_ASSERT(token_ != nullptr);
  token_ = nullptr;
  thread_ = 0;
}

bool World::enter_as_holder() {
  inside_.lock_shared();
  if (token_ != nullptr) return true;
  inside_.unlock_shared();
  return false;
}

bool World::enter_inside(void const* token, bool alone) {
  if (token == nullptr && !is_held_here()) return false;
  alone ? inside_.lock() : inside_.lock_shared();
  // It may have ended on another thread meanwhile.
  if (token_ != nullptr && (token == token_ || (token == nullptr && is_held_here()))) return true;
  leave_inside(alone);
  return false;
}

}  // namespace perdure
