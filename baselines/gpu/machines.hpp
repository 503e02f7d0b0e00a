// The factories of on_cpu.cpp (one an instruction set it is compiled for) and on_cuda.cu.
#pragma once

#include <cstdint>
#include <memory>

#include "arena.hpp"
#include "baseline.hpp"
#include "exec/workers.hpp"

namespace perdure::baselines {

/// A baseline to be: over a new file, or over one as it was left.
struct Making {
  std::unique_ptr<Arena> arena;            // GPM baselines
  std::unique_ptr<Baseline> index;             // cpu_assisted
  std::shared_ptr<exec::Workers> workers;  // the host's threads
  BaselineOptions options;
  bool fresh = true;
};

/// C names, as those of store/gphash/engine/cpu_factories.hpp.
extern "C" void perdure_cpu_baselines_avx2(Making& making, Result<std::unique_ptr<Baseline>>& made);
extern "C" void perdure_cpu_baselines_avx512(Making& making,
                                             Result<std::unique_ptr<Baseline>>& made);

Result<std::unique_ptr<Baseline>> make_on_cuda(Making making);

}  // namespace perdure::baselines
