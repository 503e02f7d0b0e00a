// Chooses the CPU engine by what the processor can do.
#include "base/caught.hpp"
#include "lsm/engine/cpu_factories.hpp"

namespace perdure::lsm {

Result<std::unique_ptr<Engine>> make_cpu_engine(exec::Workers& workers) {
  return caught([&]() -> Result<std::unique_ptr<Engine>> {
#if defined(PERDURE_HAS_AVX512)
    if (__builtin_cpu_supports("x86-64-v4"))
      return std::unique_ptr<Engine>(perdure_lsm_engine_avx512(workers));
#endif
    if (__builtin_cpu_supports("x86-64-v3"))
      return std::unique_ptr<Engine>(perdure_lsm_engine_avx2(workers));
    return Status{Code::unsupported,
                  "this processor lacks AVX2, which the CPU warps need; use device cuda"};
  });
}

}  // namespace perdure::lsm
