// Which CPU engine a store gets; on_cpu_*.cpp have them.
#include <hwy/highway.h>

#include "store/choose_engine.hpp"
#include "store/cpu_engines.hpp"

namespace perdure::cpu_engines::HWY_NAMESPACE {

template <class Ops, bool kCounted>
std::unique_ptr<Engine> make_of(EngineOptions const& options);

std::unique_ptr<Engine> make(EngineOptions const& options) {
  return choose_engine<false>(options, [&]<class Ops, bool kCounted>() { return make_of<Ops, kCounted>(options); });
}

}  // namespace perdure::cpu_engines::HWY_NAMESPACE
