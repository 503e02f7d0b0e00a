// A thread beside its owner's that runs what is handed to it, one job at a time: a device's part of
// a batch, say, while the owner answers the rest. Invariants: a job is touched by that thread alone
// between hand() and done(); the end waits for it. In a child that was forked, where the thread is
// not, jobs run on the caller, and nothing waits for what the parent had begun.
#pragma once

#include <functional>
#include <memory>

namespace perdure::exec {

class Aside {
 public:
  Aside();
  ~Aside();
  Aside(Aside const&) = delete;
  Aside& operator=(Aside const&) = delete;

  /// Waits for the job before. A job throws nothing.
  void hand(std::function<void()> job);
  /// Whether there is nothing under way; does not wait.
  [[nodiscard]] bool done() const;
  void wait();

 private:
  class Thread;
  std::unique_ptr<Thread> thread_;
};

}  // namespace perdure::exec
