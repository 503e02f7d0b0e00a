// The engine over Dash's extendible hashing.
#include "index/dash/extendible.hpp"
#include "store/dash/dash_engine_on.hpp"

namespace perdure {

std::unique_ptr<DashEngine> make_dash_eh(pm::Pool& pool, Mutex& memory, threads::Space& space,
                                         DashOptions const& options) {
  return make_dash<dash::Extendible>(pool, memory, space, options);
}

}  // namespace perdure
