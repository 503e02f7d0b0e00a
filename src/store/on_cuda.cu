// The CUDA engine.
#include "exec/cuda_info.hpp"
#include "exec/cuda_machine.cuh"
#include "store/engine_on.hpp"

namespace perdure {

Result<std::unique_ptr<Engine>> make_cuda_engine(EngineOptions const& options) {
  exec::GpuInfo const gpu = exec::gpu_info();
  if (!gpu.available) return Status{Code::unsupported, "device cuda: " + gpu.why_not + "; use device cpu"};
  auto shared = exec::CudaMachine::describe_device();
  if (!shared) return shared.status();
  return make_engine_on<exec::CudaMachine>(options, std::move(*shared));
}

}  // namespace perdure
