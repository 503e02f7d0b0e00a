// The applications on a GPU. Compiled with PERDURE_TRAPS it can abort a kernel at its n-th ordering
// point, which is what perdure-gpmbench-traps is for.
#include "apps.hpp"

namespace perdure::bench::gpm {

Machine open_cuda() {
  std::shared_ptr<perdure::gpm::Cuda> grid = require(perdure::gpm::Cuda::open(), "GPU");
  return {grid->describe(),
          [grid](std::string const& app, AppOptions const& options) {
            return options.count ? run_counted(*grid, app, options) : run_app(*grid, app, options);
          },
          [grid](std::string const& name, MicroOptions const& options) {
            return run_micro(*grid, name, options);
          }};
}

#if defined(PERDURE_TRAPS)
void arm_trap(std::uint64_t nth) {
  namespace fault = perdure::fault;
  cudaError_t const armed = fault::arm_trap(fault::TrapPoint::ordering, nth);
  require(Status(armed == cudaSuccess ? Code::ok : Code::device_error, cudaGetErrorString(armed)),
          "arming the trap");
}
#endif

}  // namespace perdure::bench::gpm
