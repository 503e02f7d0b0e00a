// The factories of store/gphash/engine/on_cpu.cpp, one per instruction set it is compiled for. C
// names, for the linker keeps these and hides all else (cmake/cpu_objects.cmake); the caller owns
// what they return.
#pragma once

#include "store/gphash/engine/engine.hpp"

namespace perdure {

extern "C" Engine* perdure_cpu_engine_avx2(EngineOptions const& options);
/// In the default shape without a mirror, or layout `log`, and no others.
extern "C" Engine* perdure_cpu_engine_avx512(EngineOptions const& options);

}  // namespace perdure
