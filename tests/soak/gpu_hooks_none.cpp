// Builds without CUDA: an error that says so.
#include "soak/gpu_hooks.hpp"

namespace perdure::test {

Status arm_trap(fault::TrapPoint, std::uint64_t) {
  return {Code::unsupported,
          "this soak was built without its GPU engine (configure with -DPERDURE_CUDA=ON "
          "-DPERDURE_SOAK_CUDA=ON)"};
}

bool context_is_dead() { return false; }

void show_kernels(std::atomic<std::uint32_t>*) {}

}  // namespace perdure::test
