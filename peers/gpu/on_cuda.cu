// The peers on a GPU.
#include "exec/cuda_machine.cuh"
#include "make_on.hpp"

namespace perdure::peers {

Result<std::unique_ptr<Peer>> make_on_cuda(Making making) {
  auto shared = exec::CudaMachine::describe_device(*making.workers);
  if (!shared) return shared.status();
  return make_on<exec::CudaMachine>(std::move(making), std::move(*shared));
}

}  // namespace perdure::peers
