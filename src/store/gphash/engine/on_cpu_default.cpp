// The CPU engines of both layouts in the default shape, without a mirror.
#include "store/gphash/engine/on_cpu.hpp"

namespace perdure::cpu_engines::HWY_NAMESPACE {

template std::unique_ptr<Engine> make_of<gphash::WordOps<gphash::Shape228>>(EngineOptions const&);
template std::unique_ptr<Engine> make_of<gphash::InPlaceOps<gphash::Shape228>>(
    EngineOptions const&);

}  // namespace perdure::cpu_engines::HWY_NAMESPACE
