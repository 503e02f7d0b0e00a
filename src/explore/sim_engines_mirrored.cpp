// The explorer's engine of layout `word` with a mirror.
#include "explore/engine_of.hpp"

namespace perdure::explore {

template std::unique_ptr<Engine> make_of<gphash::WordOps<gphash::ShapeAny, true>>(
    EngineOptions const&);

}  // namespace perdure::explore
