// One of the explorer's engines; each is instantiated by one of engines_*.cpp, which compile side
// by side.
#pragma once

#include "exec/sim/sim_machine.hpp"
#include "explore/sim_engines.hpp"
#include "store/gphash/engine/engine_on.hpp"

namespace perdure::explore {

template <class Ops>
std::unique_ptr<Engine> make_of(EngineOptions const& options) {
  exec::SimMachine::Shared const shared{machine.warps, machine.stage_by_stage};
  return std::make_unique<EngineOn<exec::SimMachine, Ops>>(options, shared);
}

}  // namespace perdure::explore
