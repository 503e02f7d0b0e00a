// The sweep after an opening: what is free of blocks and records, at once of small tables, else
// beside everything else. Invariants: until it has ended new ones come from superblocks of their
// own; where it ends early, by a lack of memory or by damage, it leaves unknown what is free.
#pragma once

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "store/dash/dash_core.hpp"

namespace perdure {

class DashSweeper {
 public:
  explicit DashSweeper(DashCore& core) : core_(core) {}
  DashSweeper(DashSweeper const&) = delete;
  DashSweeper& operator=(DashSweeper const&) = delete;
  ~DashSweeper() { stop(); }

  /// The pool has been opened, and nobody uses it yet.
  void begin();
  void stop();
  void wait();

 private:
  DashCore& core_;
  std::thread thread_;
  std::atomic<bool> stop_{false};
  std::mutex mutex_;
  std::condition_variable changed_;
  bool ended_ = true;  // guarded by mutex_
};

}  // namespace perdure
