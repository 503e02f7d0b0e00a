// The engine of a GPU in builds without CUDA: an error that says so.
#include "lsm/engine/engine.hpp"

namespace perdure::lsm {

Result<std::unique_ptr<Engine>> make_cuda_engine(exec::Workers&) {
  return Status{Code::unsupported,
                "device cuda: this build has no CUDA (configure with -DPERDURE_CUDA=ON); use "
                "device cpu"};
}

}  // namespace perdure::lsm
