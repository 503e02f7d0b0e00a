// Instead of gpu.cu in builds without CUDA.
#include "machines.hpp"

namespace perdure::q1 {

Result<std::unique_ptr<Gpu>> Gpu::open() {
  return Status{Code::unsupported,
                "this example was built without CUDA: use mode cpu, or build with PERDURE_CUDA=ON"};
}

}  // namespace perdure::q1
