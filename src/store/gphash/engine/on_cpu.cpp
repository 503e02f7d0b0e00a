// Which CPU engine a store gets; on_cpu_*.cpp have them. PERDURE_CPU_FACTORY is the one name that
// leaves the object which these sources are linked into (cmake/cpu_objects.cmake).
#include <hwy/highway.h>

#include "store/gphash/engine/choose_engine.hpp"
#include "store/gphash/engine/cpu_factories.hpp"

namespace perdure {
namespace cpu_engines::HWY_NAMESPACE {

template <class Ops>
std::unique_ptr<Engine> make_of(EngineOptions const& options);

}  // namespace cpu_engines::HWY_NAMESPACE

extern "C" Engine* PERDURE_CPU_FACTORY(EngineOptions const& options) {
  auto engine = choose_engine<false>(
      options, [&]<class Ops>() { return cpu_engines::HWY_NAMESPACE::make_of<Ops>(options); });
  return engine.release();
}

}  // namespace perdure
