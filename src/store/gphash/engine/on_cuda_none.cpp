// The CUDA engine in builds without CUDA: an error that says so.
#include "exec/cuda/cuda_info.hpp"
#include "store/gphash/engine/engine.hpp"

namespace perdure {

namespace {
constexpr char const* kWhyNot = "this build has no CUDA (configure with -DPERDURE_CUDA=ON)";
}

Result<std::unique_ptr<Engine>> make_cuda_engine(EngineOptions const&) {
  return Status{Code::unsupported, kWhyNot};
}

exec::GpuInfo exec::gpu_info() { return {false, "", kWhyNot}; }

}  // namespace perdure
