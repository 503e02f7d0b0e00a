// The engine over Dash's linear hashing.
#include "index/dash/linear.hpp"
#include "store/dash/dash_engine_on.hpp"

namespace perdure {

std::unique_ptr<DashEngine> make_dash_lh(pm::Pool& pool, Mutex& memory, threads::Space& space,
                                         DashOptions const& options) {
  return make_dash<dash::Linear>(pool, memory, space, options);
}

}  // namespace perdure
