// A process that works on a store and is killed with the store still open, as a crash does.
#pragma once

#include <functional>

namespace perdure::bench {

/// Runs `work` in a child process and, once it has returned, kills that with SIGKILL; what `work`
/// made must not be destroyed before. No thread may run in this process yet. Throws where `work`
/// failed.
void run_and_kill(std::function<void()> const& work);

}  // namespace perdure::bench
