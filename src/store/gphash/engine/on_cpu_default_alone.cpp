// The factory of an instruction set for which the engines of the default shape alone are compiled:
// store/gphash/engine/make_cpu_engine.cpp asks for no others. As in store/gphash/engine/on_cpu.cpp,
// PERDURE_CPU_FACTORY is the one name that leaves the object.
#include <hwy/highway.h>

#include "index/gphash/ops.hpp"
#include "store/gphash/engine/cpu_factories.hpp"

namespace perdure {
namespace cpu_engines::HWY_NAMESPACE {

template <class Ops>
std::unique_ptr<Engine> make_of(EngineOptions const& options);

}  // namespace cpu_engines::HWY_NAMESPACE

extern "C" Engine* PERDURE_CPU_FACTORY(EngineOptions const& options) {
  using namespace cpu_engines::HWY_NAMESPACE;
  if (options.hashed)
    return make_of<gphash::WordOps<gphash::Shape228, true, true, true>>(options).release();
  if (options.logged)
    return make_of<gphash::WordOps<gphash::Shape228, true, true>>(options).release();
  if (options.in_place) return make_of<gphash::InPlaceOps<gphash::Shape228>>(options).release();
  return make_of<gphash::WordOps<gphash::Shape228>>(options).release();
}

}  // namespace perdure
