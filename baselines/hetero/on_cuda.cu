// The device on a GPU.
#include "device_on.hpp"
#include "exec/cuda/cuda_machine.cuh"

namespace perdure::hetero {

Result<std::unique_ptr<Device>> device_on_cuda(exec::Workers& workers) {
  auto shared = exec::CudaMachine::describe_device(workers);
  if (!shared) return shared.status();
  return std::unique_ptr<Device>(new DeviceOn<exec::CudaMachine>(std::move(*shared)));
}

}  // namespace perdure::hetero
