// The baselines on a GPU.
#include "exec/cuda/cuda_machine.cuh"
#include "make_on.hpp"

namespace perdure::baselines {

Result<std::unique_ptr<Baseline>> make_on_cuda(Making making) {
  auto shared = exec::CudaMachine::describe_device(*making.workers);
  if (!shared) return shared.status();
  return make_on<exec::CudaMachine>(std::move(making), std::move(*shared));
}

}  // namespace perdure::baselines
