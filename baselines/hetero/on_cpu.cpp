// Both sides on CPU warps. Compiled once per instruction set; all but the factory is local to its
// object (cmake/cpu_objects.cmake), which PERDURE_CPU_FACTORY names.
#include "device_on.hpp"
#include "exec/cpu/cpu_machine.hpp"
#include "look_ahead.hpp"

namespace perdure::hetero {

using exec::HWY_NAMESPACE::CpuMachine;
using exec::HWY_NAMESPACE::CpuWarp;

class ThreadOfWarps final : public HostThread {
 public:
  void get(View const& table, GetArrays const& batch, std::uint32_t distance) const override {
    GetBody const body{table, batch.keys, batch.values};
    LookAhead<CpuWarp, pm::Memory, GetBody>(body, pm::Memory(table.base), distance).run(0, batch.n);
  }
  exec::Counts put(View const& table, PutArrays const& batch, std::size_t first) const override {
    PutBody const body{table, batch.keys, batch.values};
    return LookAhead<CpuWarp, pm::Memory, PutBody>(body, pm::Memory(table.base), kPutAhead)
        .run(first, first + batch.n);
  }

 private:
  static constexpr std::uint32_t kPutAhead = 8;
};

extern "C" void PERDURE_CPU_FACTORY(exec::Workers* second, CpuSides& made) {
  made.thread = std::make_unique<ThreadOfWarps>();
  if (second != nullptr)
    made.device = std::make_unique<DeviceOn<CpuMachine>>(CpuMachine::Shared{second});
}

}  // namespace perdure::hetero
