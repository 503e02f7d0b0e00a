#include "store/dash/dash_sweeper.hpp"

#include "base/assert.hpp"
#include "base/caught.hpp"
#include "base/own_thread.hpp"

namespace perdure {
namespace {

// A table of at most this depth, in a pool of at most so many bytes, is swept by the opening;
// others by a thread.
constexpr std::uint32_t kDepthAtOnce = 7;
constexpr std::uint64_t kBytesAtOnce = 64u << 20;

}  // namespace

void DashSweeper::begin() {
  PERDURE_ASSERT(ended_ && !thread_.joinable());
  if (core_.engine->depth() <= kDepthAtOnce && core_.pool.bytes() <= kBytesAtOnce) {
    bool const whole = core_.engine->sweep([] { return true; });
    // Damage leaves the number of records unknown: recovery().counted and stats() say so.
    if (whole && !core_.counters.counted()) core_.count_records();
    return;
  }
  ended_ = false;
  thread_ = own_thread([this] {
    static_cast<void>(caught([this]() -> Status {
      core_.engine->sweep([this] { return !stop_; });
      return {};
    }));
    std::lock_guard const lock(mutex_);
    ended_ = true;
    changed_.notify_all();
  });
}

void DashSweeper::stop() {
  stop_ = true;
  if (!thread_.joinable()) return;
  thread_.join();
  PERDURE_ASSERT(ended_);  // nobody else goes through the table
}

void DashSweeper::wait() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return ended_; });
}

}  // namespace perdure
