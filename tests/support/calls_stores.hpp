// Stores that simulate their warps (src/exec/sim/) need a scheduler in each thread that calls
// them. Of other builds this is nothing.
#pragma once

#if defined(PERDURE_EXPLORE)
#include "exec/sim/sim_scheduler.hpp"
#endif

namespace perdure::test {

class CallsStores {
 public:
#if defined(PERDURE_EXPLORE)
  CallsStores() { exec::sim_scheduler = &scheduler_; }
  ~CallsStores() { exec::sim_scheduler = before_; }

 private:
  exec::SimScheduler scheduler_{{}};
  exec::SimScheduler* const before_ = exec::sim_scheduler;
#else
  CallsStores() {}
#endif
 public:
  CallsStores(CallsStores const&) = delete;
  CallsStores& operator=(CallsStores const&) = delete;
};

}  // namespace perdure::test
