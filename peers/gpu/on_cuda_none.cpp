#include "machines.hpp"

namespace perdure::peers {

Result<std::unique_ptr<Peer>> make_on_cuda(Making) {
  return Status{Code::unsupported, "this build has no CUDA; configure with -DPERDURE_CUDA=ON"};
}

}  // namespace perdure::peers
