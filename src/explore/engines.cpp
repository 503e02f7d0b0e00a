// The explorer's engine, linked in place of store/engines.cpp: what the store takes for the CPU is the
// simulated machine, over the same source.
#include "explore/engines.hpp"
#include "exec/sim_machine.hpp"
#include "store/engine_on.hpp"

namespace perdure {

std::string cpu_instruction_set() { return "sim"; }

std::unique_ptr<Engine> make_cpu_engine(EngineOptions const& options) {
  return make_engine_on<exec::SimMachine>(options, {explore::machine.warps, explore::machine.stage_by_stage});
}

}  // namespace perdure
