// measure/gpu_meter.hpp for builds without CUDA.
#include "measure/gpu_meter.hpp"

namespace perdure::measure {

Result<std::unique_ptr<GpuMeter>> make_gpu_meter() {
  return Status{Code::unsupported, "this build has no CUDA (configure with -DPERDURE_CUDA=ON)"};
}

}  // namespace perdure::measure
