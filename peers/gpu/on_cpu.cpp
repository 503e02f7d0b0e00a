// The peers on CPU warps. Compiled once per instruction set; all but the factory is local to its object.
#include "exec/cpu_machine.hpp"
#include "make_on.hpp"

namespace perdure::peers::on_cpu::HWY_NAMESPACE {

Result<std::unique_ptr<Peer>> make(Making making) {
  using exec::HWY_NAMESPACE::CpuMachine;
  CpuMachine::Shared const shared{making.workers.get()};
  return make_on<CpuMachine>(std::move(making), shared);
}

}  // namespace perdure::peers::on_cpu::HWY_NAMESPACE
