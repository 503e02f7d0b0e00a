// The CUDA engine.
#include "exec/cuda_machine.cuh"
#include "store/engine_on.hpp"

namespace perdure {

Result<std::unique_ptr<Engine>> make_cuda_engine(EngineOptions const& options) {
  auto shared = exec::CudaMachine::describe_device(*options.workers);
  if (!shared) return shared.status();
  return make_engine_on<exec::CudaMachine>(options, std::move(*shared));
}

}  // namespace perdure
