// The CUDA engines' own source once more, its trap points alive (PERDURE_TRAPS), and the hooks to arm them.
// Linked into the soak in place of the library's: nothing else traps.
#include "soak/gpu_hooks.hpp"

#include "exec/cuda_traps.cuh"
#include "store/on_cuda_in_place.cu"
#include "store/on_cuda_word.cu"
#include "store/on_cuda_word_any.cu"

namespace perdure::test {

Status arm_trap(exec::TrapPoint point, std::uint64_t nth) { return exec::arm_trap(point, nth); }

bool context_is_dead() { return exec::context_is_dead(); }

void show_kernels(std::atomic<std::uint32_t>* flag) { exec::kernels_shown = flag; }

}  // namespace perdure::test
