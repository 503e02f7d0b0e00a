// The CPU engines of both layouts in any shape, without a mirror.
#include "store/gphash/engine/on_cpu.hpp"

namespace perdure::cpu_engines::HWY_NAMESPACE {

template std::unique_ptr<Engine> make_of<gphash::WordOps<gphash::ShapeAny>>(EngineOptions const&);
template std::unique_ptr<Engine> make_of<gphash::InPlaceOps<gphash::ShapeAny>>(
    EngineOptions const&);

}  // namespace perdure::cpu_engines::HWY_NAMESPACE
