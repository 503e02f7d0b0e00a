// The baselines on CPU warps. Compiled once per instruction set; all but the factory is local to
// its object (cmake/cpu_objects.cmake), which PERDURE_CPU_FACTORY names.
#include "exec/cpu/cpu_machine.hpp"
#include "make_on.hpp"

namespace perdure::baselines {

extern "C" void PERDURE_CPU_FACTORY(Making& making, Result<std::unique_ptr<Baseline>>& made) {
  using exec::HWY_NAMESPACE::CpuMachine;
  CpuMachine::Shared const shared{making.workers.get()};
  made = make_on<CpuMachine>(std::move(making), shared);
}

}  // namespace perdure::baselines
