// exec/device_arrays.hpp for builds without CUDA.
#include "exec/device_arrays.hpp"

namespace perdure::exec {

Result<std::unique_ptr<DeviceArrays>> make_device_arrays() {
  return Status{Code::unsupported, "this build has no CUDA"};
}

}  // namespace perdure::exec
