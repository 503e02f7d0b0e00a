// What this computer and this build can run.
#include <thread>

#include "exec/cpu/processor.hpp"
#include "exec/cuda/cuda_info.hpp"
#include "perdure/store.h"
#include "store/gphash/engine/engine.hpp"

namespace perdure {
std::vector<DeviceInfo> devices() {
  std::string const isa = cpu_instruction_set();
  DeviceInfo cpu{Device::cpu, !isa.empty(),
                 exec::processor_name() + ", " +
                     std::to_string(std::thread::hardware_concurrency()) + " cores, " + isa,
                 isa.empty() ? "this processor lacks AVX2, which the CPU warps need" : ""};
  exec::GpuInfo const gpu = exec::gpu_info();
  return {cpu, {Device::cuda, gpu.available, gpu.description, gpu.why_not}};
}

std::string_view version() { return PERDURE_VERSION; }

}  // namespace perdure
