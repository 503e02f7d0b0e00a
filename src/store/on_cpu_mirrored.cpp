// The CPU engines of layout `word` with a mirror.
#include "store/on_cpu.hpp"

namespace perdure::cpu_engines::HWY_NAMESPACE {

template std::unique_ptr<Engine> make_of<gphash::WordOps<gphash::ShapeAny, true>, true>(EngineOptions const&);
template std::unique_ptr<Engine> make_of<gphash::WordOps<gphash::ShapeAny, true>, false>(EngineOptions const&);

}  // namespace perdure::cpu_engines::HWY_NAMESPACE
