// A Host whose waits end when another thread's operation has ended in its midst, with its locks
// taken. Invariant: once one has given up, nobody waits for what it holds.
#pragma once

#include <atomic>
#include <stdexcept>
#include <utility>

namespace perdure::threads {

/// Who waits for another thread's operation gives up where that has ended in its midst.
template <class Host>
class GivesUp : public Host {
 public:
  template <class... Args>
  explicit GivesUp(std::atomic<bool>* given_up, Args&&... args)
      : Host(std::forward<Args>(args)...), given_up_(given_up) {}
  void pause() const {
    if (given_up_->load(std::memory_order_relaxed))
      throw std::runtime_error("an operation beside it failed");
    Host::pause();
  }
  /// This one has ended in its midst.
  void give_up() const { given_up_->store(true); }

 private:
  std::atomic<bool>* given_up_;
};

}  // namespace perdure::threads
