// Which GPU there is, for builds with and without CUDA, and whether this process may use it.
// Invariant: what CUDA holds does not survive a fork, so in a child of a process that used it no
// call of CUDA is made.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include "base/process.hpp"
#include "exec/recorded_litmus.hpp"
#include "perdure/status.h"

namespace perdure::exec {

struct GpuInfo {
  bool available = false;
  std::string description;
  std::string why_not;
};
[[nodiscard]] GpuInfo gpu_info();

/// From now on the GPU is this process's; not ok where it was that of a process which forked this
/// one.
inline Status claim_gpu() {
  static std::atomic<std::uint64_t> whose{0};
  std::uint64_t known = 0;
  if (whose.compare_exchange_strong(known, this_process()) || known == this_process()) return {};
  return {Code::unsupported,
          "this process was forked by one that uses the GPU, which CUDA does not allow: use device "
          "cpu, or begin the "
          "process anew (exec; multiprocessing's spawn)"};
}

/// Ok where kernels can run on it, and nothing speaks against it; asked before a file is touched.
inline Status check_gpu() {
  GpuInfo gpu;
  Status const ours = claim_gpu();
  if (ours.ok()) gpu = gpu_info();
  if (gpu.available) {
    Status const sound = check_recorded(Reliance::batches, gpu.description);
    return sound.ok() ? sound : Status{sound.code(), "device cuda: " + sound.message()};
  }
  return {Code::unsupported,
          "device cuda: " + (ours.ok() ? gpu.why_not + "; use device cpu" : ours.message())};
}

}  // namespace perdure::exec
