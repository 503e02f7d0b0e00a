// The factories of store/on_cpu.cpp, one per instruction set it is compiled for.
#pragma once

#include <memory>

#include "store/engine.hpp"

namespace perdure::cpu_engines {
namespace N_AVX2 {
std::unique_ptr<Engine> make(EngineOptions const& options);
}
namespace N_AVX3 {
std::unique_ptr<Engine> make(EngineOptions const& options);
}
}  // namespace perdure::cpu_engines
