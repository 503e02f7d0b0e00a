// Chooses the CPU engine by what the processor can do, and makes engines of sides.
#include "base/caught.hpp"
#include "lsm/engine/cpu_factories.hpp"
#include "lsm/engine/two_sided.hpp"

namespace perdure::lsm {

Result<std::unique_ptr<MachineEngine>> make_cpu_side(exec::Workers& workers,
                                                     EngineOptions const& options) {
  return caught([&]() -> Result<std::unique_ptr<MachineEngine>> {
#if defined(PERDURE_HAS_AVX512)
    if (__builtin_cpu_supports("x86-64-v4"))
      return std::unique_ptr<MachineEngine>(perdure_lsm_engine_avx512(workers, options));
#endif
    if (__builtin_cpu_supports("x86-64-v3"))
      return std::unique_ptr<MachineEngine>(perdure_lsm_engine_avx2(workers, options));
    return Status{Code::unsupported,
                  "this processor lacks AVX2, which the CPU warps need; use device cuda"};
  });
}

namespace {

Result<std::unique_ptr<Engine>> as_engine(Result<std::unique_ptr<MachineEngine>> side) {
  if (!side) return side.status();
  return std::unique_ptr<Engine>(std::move(*side));
}

}  // namespace

Result<std::unique_ptr<Engine>> make_cpu_engine(exec::Workers& workers,
                                                EngineOptions const& options) {
  return as_engine(make_cpu_side(workers, options));
}

Result<std::unique_ptr<Engine>> make_cuda_engine(exec::Workers& workers,
                                                 EngineOptions const& options) {
  return as_engine(make_cuda_side(workers, options));
}

Result<std::unique_ptr<Engine>> make_two_sided_engine(exec::Workers& workers,
                                                      EngineOptions const& options) {
  auto device = make_cuda_side(workers, options);
  if (!device) return device.status();
  auto host = make_cpu_side(workers, options);
  if (!host) return host.status();
  return caught([&]() -> Result<std::unique_ptr<Engine>> {
    return std::unique_ptr<Engine>(std::make_unique<TwoSidedEngine>(
        std::move(*host), std::move(*device), SideRules::of(workers)));
  });
}

}  // namespace perdure::lsm
