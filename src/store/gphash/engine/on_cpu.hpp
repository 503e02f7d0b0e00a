// The CPU engines. Each is instantiated by one of on_cpu_*.cpp, which compile side by side. All of
// these sources are compiled once per instruction set; all but the factory is local to their
// object.
#pragma once

#include "exec/cpu/cpu_machine.hpp"
#include "store/gphash/engine/engine_on.hpp"

namespace perdure::cpu_engines::HWY_NAMESPACE {

template <class Ops>
std::unique_ptr<Engine> make_of(EngineOptions const& options) {
  using exec::HWY_NAMESPACE::CpuMachine;
  return std::make_unique<EngineOn<CpuMachine, Ops>>(options, CpuMachine::Shared{options.workers});
}

}  // namespace perdure::cpu_engines::HWY_NAMESPACE
