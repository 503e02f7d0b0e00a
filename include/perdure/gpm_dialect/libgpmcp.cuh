// perdure/libgpm.cuh by the name of the published header of checkpoints. Programs that define
// CHECKPOINT_TIME, and a variable checkpoint_time, before they include it find there the
// nanoseconds that their checkpoints took.
#pragma once

#include <chrono>
#include <string>

#include "perdure/libgpm.cuh"

#if defined(CHECKPOINT_TIME)
template <class Group>
gpm_result gpmcp_checkpoint(gpmcp* checkpoint, Group group) {
  auto const start = std::chrono::steady_clock::now();
  gpm_result const done = gpmcp_checkpoint(checkpoint, static_cast<std::uint32_t>(group), 0);
  checkpoint_time +=
      static_cast<double>((std::chrono::steady_clock::now() - start) / std::chrono::nanoseconds(1));
  return done;
}
#endif
