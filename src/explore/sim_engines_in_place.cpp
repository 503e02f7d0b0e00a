// The explorer's engines of layout `in_place`.
#include "explore/engine_of.hpp"

namespace perdure::explore {

template std::unique_ptr<Engine> make_of<gphash::InPlaceOps<gphash::Shape228>>(
    EngineOptions const&);
template std::unique_ptr<Engine> make_of<gphash::InPlaceOps<gphash::ShapeAny>>(
    EngineOptions const&);

}  // namespace perdure::explore
