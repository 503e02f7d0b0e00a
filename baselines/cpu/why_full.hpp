// Why an index has no room: what the baselines' tables keep of the last refusal. Invariant: who is
// answered Outcome::full finds here the reason of that refusal, or of a later one.
#pragma once

#include <mutex>

#include "cpu_baseline.hpp"

namespace perdure::cpu_baselines {

class KnowsWhyFull {
 public:
  [[nodiscard]] Status why_full() {
    std::lock_guard const lock(why_mutex_);
    return why_full_;
  }

 protected:
  Outcome fail(Status const& status) {
    std::lock_guard const lock(why_mutex_);
    why_full_ = status;
    return Outcome::full;
  }

 private:
  std::mutex why_mutex_;
  Status why_full_;  // guarded by why_mutex_
};

}  // namespace perdure::cpu_baselines
