// The engine of a GPU in builds without CUDA: an error that says so.
#include "lsm/engine/machine_engine.hpp"

namespace perdure::lsm {

Result<std::unique_ptr<MachineEngine>> make_cuda_side(exec::Workers&, EngineOptions const&) {
  return Status{Code::unsupported,
                "device cuda: this build has no CUDA (configure with -DPERDURE_CUDA=ON); use "
                "device cpu"};
}

}  // namespace perdure::lsm
