// The CUDA engines. Each is instantiated by one of on_cuda_*.cu, which compile side by side: one
// file with all of them takes a compiler four minutes.
#pragma once

#include "exec/cuda/cuda_machine.cuh"
#include "store/gphash/engine/engine_on.hpp"

namespace perdure {

template <class Ops>
Result<std::unique_ptr<Engine>> make_cuda_engine_of(EngineOptions const& options) {
  auto shared = exec::CudaMachine::describe_device(*options.workers);
  if (!shared) return shared.status();
  return std::unique_ptr<Engine>(new EngineOn<exec::CudaMachine, Ops>(options, std::move(*shared)));
}

}  // namespace perdure
