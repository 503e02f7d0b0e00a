// The explorer's engines, linked in place of store/gphash/engine/make_cpu_engine.cpp: what the
// store takes for the CPU is the simulated machine, over the same source. engines_*.cpp have them.
#include "store/gphash/engine/choose_engine.hpp"

namespace perdure {
namespace explore {

template <class Ops>
std::unique_ptr<Engine> make_of(EngineOptions const& options);

}  // namespace explore

std::string cpu_instruction_set() { return "sim"; }

std::unique_ptr<Engine> make_cpu_engine(EngineOptions const& options) {
  return choose_engine<false>(options, [&]<class Ops>() { return explore::make_of<Ops>(options); });
}

}  // namespace perdure
