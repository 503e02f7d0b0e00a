// The explorer's engine of layout `log` whose entries have hashes of keys.
#include "explore/engine_of.hpp"

namespace perdure::explore {

template std::unique_ptr<Engine> make_of<gphash::WordOps<gphash::Shape228, true, true, true>>(
    EngineOptions const&);

}  // namespace perdure::explore
