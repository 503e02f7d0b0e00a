// The CUDA engines' own source once more, its trap points alive (PERDURE_TRAPS), and the hooks to
// arm them. Linked into the soak in place of the library's: nothing else traps.
#include "soak/gpu_hooks.hpp"

#include "exec/cuda/cuda_status.cuh"
#include "store/gphash/engine/on_cuda_in_place.cu"
#include "store/gphash/engine/on_cuda_log.cu"
#include "store/gphash/engine/on_cuda_log_any.cu"
#include "store/gphash/engine/on_cuda_word.cu"
#include "store/gphash/engine/on_cuda_word_any.cu"

namespace perdure::test {

Status arm_trap(fault::TrapPoint point, std::uint64_t nth) {
  return exec::cuda_status(fault::arm_trap(point, nth), "arming a trap");
}

bool context_is_dead() { return fault::context_is_dead(); }

void show_kernels(std::atomic<std::uint32_t>* flag) { fault::kernels_shown = flag; }

}  // namespace perdure::test
