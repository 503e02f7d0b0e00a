// The CPU engines. Compiled once per instruction set; all but the factory is local to its object.
#include "exec/cpu_machine.hpp"
#include "store/cpu_engines.hpp"
#include "store/engine_on.hpp"

namespace perdure::cpu_engines::HWY_NAMESPACE {

std::unique_ptr<Engine> make(EngineOptions const& options) {
  using exec::HWY_NAMESPACE::CpuMachine;
  return make_engine_on<CpuMachine>(options, CpuMachine::Shared{options.workers});
}

}  // namespace perdure::cpu_engines::HWY_NAMESPACE
