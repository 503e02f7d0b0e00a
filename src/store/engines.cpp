// Chooses the CPU engine by what the processor can do.
#include "store/cpu_engines.hpp"

namespace perdure {

std::string cpu_instruction_set() {
#if defined(PERDURE_HAS_AVX512)
  if (__builtin_cpu_supports("x86-64-v4")) return "avx512";
#endif
  if (__builtin_cpu_supports("x86-64-v3")) return "avx2";
  return "";
}

std::unique_ptr<Engine> make_cpu_engine(EngineOptions const& options) {
  std::string const isa = cpu_instruction_set();
#if defined(PERDURE_HAS_AVX512)
  if (isa == "avx512") return cpu_engines::N_AVX3::make(options);
#endif
  if (isa == "avx2") return cpu_engines::N_AVX2::make(options);
  return nullptr;
}

}  // namespace perdure
