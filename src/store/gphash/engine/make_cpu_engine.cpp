// Chooses the CPU engine by what the processor can do.
#include "store/gphash/engine/cpu_factories.hpp"

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
  if (isa == "avx512" && (options.logged || (options.default_shape && !options.mirrored)))
    return std::unique_ptr<Engine>(perdure_cpu_engine_avx512(options));
#endif
  if (!isa.empty()) return std::unique_ptr<Engine>(perdure_cpu_engine_avx2(options));
  return nullptr;
}

}  // namespace perdure
