#include "machines.hpp"

namespace perdure::baselines {

Result<std::unique_ptr<Baseline>> make_on_cuda(Making) {
  return Status{Code::unsupported, "this build has no CUDA; configure with -DPERDURE_CUDA=ON"};
}

}  // namespace perdure::baselines
