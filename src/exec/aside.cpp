#include "exec/aside.hpp"

#include <atomic>
#include <chrono>
#include <thread>
#include <utility>

#include "base/mutex.hpp"
#include "base/own_thread.hpp"
#include "base/process.hpp"

namespace perdure::exec {
namespace {

/// How long each side looks for the other before it sleeps: waking a thread takes as long as a
/// small batch.
constexpr auto kSpinForTask = std::chrono::microseconds(100);

template <class F>
void for_a_while(F done) {
  auto const until = std::chrono::steady_clock::now() + kSpinForTask;
  while (!done() && std::chrono::steady_clock::now() < until) std::this_thread::yield();
}

}  // namespace

class Aside::Thread {
 public:
  Thread() : thread_(own_thread([this] { serve(); })) {}
  ~Thread() {
    wait();
    {
      MutexLock const lock(mutex_);
      stop_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }

  [[nodiscard]] bool is_here() const { return process_ == this_process(); }

  void hand(std::function<void()> job) {
    wait();
    {
      MutexLock const lock(mutex_);
      job_ = std::move(job);
      busy_.store(true, std::memory_order_relaxed);
    }
    changed_.notify_all();
  }
  [[nodiscard]] bool done() const { return !busy_.load(std::memory_order_acquire); }
  void wait() {
    for_a_while([this] { return done(); });
    if (done()) return;
    MutexLock const lock(mutex_);
    while (!done()) changed_.wait(mutex_);
  }

  Thread* aside = nullptr;  // put_aside()

 private:
  void serve() {
    for (;;) {
      for_a_while([this] { return !done(); });
      std::function<void()> job;
      {
        MutexLock const lock(mutex_);
        while (!stop_ && done()) changed_.wait(mutex_);
        if (stop_) return;
        job = std::move(job_);
      }
      job();
      {
        MutexLock const lock(mutex_);
        busy_.store(false, std::memory_order_release);
      }
      changed_.notify_all();
    }
  }

  std::uint64_t const process_ = this_process();
  Mutex mutex_;  // guards the rest; busy_ is looked at without, too
  Condition changed_;
  std::function<void()> job_ PERDURE_GUARDED_BY(mutex_);
  bool stop_ PERDURE_GUARDED_BY(mutex_) = false;
  std::atomic<bool> busy_{false};
  std::thread thread_;  // begins once all else is there
};

Aside::Aside() : thread_(std::make_unique<Thread>()) {}
Aside::~Aside() {
  if (!thread_->is_here()) put_aside(std::move(thread_));
}

void Aside::hand(std::function<void()> job) {
  if (thread_->is_here()) return thread_->hand(std::move(job));
  job();
}
bool Aside::done() const { return !thread_->is_here() || thread_->done(); }
void Aside::wait() {
  if (thread_->is_here()) thread_->wait();
}

}  // namespace perdure::exec
