// The factories of lsm/engine/on_cpu.cpp, one per instruction set it is compiled for. C names, for
// the linker keeps these and hides all else (cmake/cpu_objects.cmake); the caller owns what they
// return.
#pragma once

#include "lsm/engine/machine_engine.hpp"

namespace perdure::lsm {

extern "C" MachineEngine* perdure_lsm_engine_avx2(exec::Workers& workers,
                                                  EngineOptions const& options);
extern "C" MachineEngine* perdure_lsm_engine_avx512(exec::Workers& workers,
                                                    EngineOptions const& options);

}  // namespace perdure::lsm
