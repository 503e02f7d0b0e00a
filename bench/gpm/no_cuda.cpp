// Builds without CUDA: device cuda is refused.
#include "apps.hpp"

namespace perdure::bench::gpm {

Machine open_cuda() {
  throw Failure("this build has no GPU code; use --device cpu, or build where nvcc is found");
}

}  // namespace perdure::bench::gpm
