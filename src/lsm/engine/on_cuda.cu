// The engine of a GPU.
#include "exec/cuda/cuda_info.hpp"
#include "exec/cuda/cuda_machine.cuh"
#include "lsm/engine/engine_on.hpp"

namespace perdure::lsm {

Result<std::unique_ptr<MachineEngine>> make_cuda_side(exec::Workers& workers,
                                                      EngineOptions const& options) {
  return caught([&]() -> Result<std::unique_ptr<MachineEngine>> {
    if (Status s = exec::check_gpu(); !s.ok()) return s;
    auto shared = exec::CudaMachine::describe_device(workers);
    if (!shared) return shared.status();
    // In a child of a process that used the GPU before it forked, the first thing that fails is
    // this.
    exec::CudaMachine trial(*shared);
    if (Status s = trial.begin(nullptr); !s.ok()) return s;
    return std::unique_ptr<MachineEngine>(
        new EngineOn<exec::CudaMachine>(std::move(*shared), options));
  });
}

}  // namespace perdure::lsm
