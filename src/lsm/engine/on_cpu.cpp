// The engine of CPU warps, compiled once per instruction set; PERDURE_CPU_FACTORY is the one name
// that leaves the object (cmake/cpu_objects.cmake).
#include "exec/cpu/cpu_machine.hpp"
#include "lsm/engine/cpu_factories.hpp"
#include "lsm/engine/engine_on.hpp"

namespace perdure::lsm {

extern "C" MachineEngine* PERDURE_CPU_FACTORY(exec::Workers& workers,
                                              EngineOptions const& options) {
  using exec::HWY_NAMESPACE::CpuMachine;
  return new EngineOn<CpuMachine>(CpuMachine::Shared{&workers}, options);
}

}  // namespace perdure::lsm
