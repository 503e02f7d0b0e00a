#include "sides.hpp"

namespace perdure::hetero {

Result<std::unique_ptr<Device>> device_on_cuda(exec::Workers&) {
  return Status{Code::unsupported,
                "this build has no CUDA; configure with -DPERDURE_CUDA=ON, or use device cpu"};
}

}  // namespace perdure::hetero
