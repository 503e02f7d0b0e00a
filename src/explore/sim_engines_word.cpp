// The explorer's engines of layout `word` without a mirror.
#include "explore/engine_of.hpp"

namespace perdure::explore {

template std::unique_ptr<Engine> make_of<gphash::WordOps<gphash::Shape228>>(EngineOptions const&);
template std::unique_ptr<Engine> make_of<gphash::WordOps<gphash::ShapeAny>>(EngineOptions const&);

}  // namespace perdure::explore
