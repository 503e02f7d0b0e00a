// Which GPU there is, for builds with and without CUDA.
#pragma once

#include <string>

namespace perdure::exec {

struct GpuInfo {
  bool available = false;
  std::string description;
  std::string why_not;
};
[[nodiscard]] GpuInfo gpu_info();

}  // namespace perdure::exec
