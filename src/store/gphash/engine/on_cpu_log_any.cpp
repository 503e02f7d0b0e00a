// The CPU engine of layout `log` whose entries have hashes of keys.
#include "store/gphash/engine/on_cpu.hpp"

namespace perdure::cpu_engines::HWY_NAMESPACE {

template std::unique_ptr<Engine> make_of<gphash::WordOps<gphash::Shape228, true, true, true>>(
    EngineOptions const&);

}  // namespace perdure::cpu_engines::HWY_NAMESPACE
