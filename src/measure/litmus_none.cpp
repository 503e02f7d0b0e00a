// measure/litmus_gpu.hpp for builds without CUDA.
#include "measure/litmus_gpu.hpp"

namespace perdure::measure {

Result<std::unique_ptr<LitmusGpu>> make_litmus_gpu() {
  return Status{Code::unsupported, "this build has no CUDA (configure with -DPERDURE_CUDA=ON)"};
}

}  // namespace perdure::measure
