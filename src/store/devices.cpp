// What this computer and this build can run.
#include <fstream>
#include <thread>

#include "exec/cuda/cuda_info.hpp"
#include "perdure/store.h"
#include "store/gphash/engine/engine.hpp"

namespace perdure {
namespace {

std::string processor_name() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);) {
    if (line.starts_with("model name")) return line.substr(line.find(':') + 2);
  }
  return "unknown processor";
}

}  // namespace

std::vector<DeviceInfo> devices() {
  std::string const isa = cpu_instruction_set();
  DeviceInfo cpu{Device::cpu, !isa.empty(),
                 processor_name() + ", " + std::to_string(std::thread::hardware_concurrency()) +
                     " cores, " + isa,
                 isa.empty() ? "this processor lacks AVX2, which the CPU warps need" : ""};
  exec::GpuInfo const gpu = exec::gpu_info();
  return {cpu, {Device::cuda, gpu.available, gpu.description, gpu.why_not}};
}

std::string_view version() { return PERDURE_VERSION; }

}  // namespace perdure
