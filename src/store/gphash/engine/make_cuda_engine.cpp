// Which CUDA engine a store gets; on_cuda_*.cu have them.
#include "store/gphash/engine/choose_engine.hpp"

namespace perdure {

template <class Ops>
Result<std::unique_ptr<Engine>> make_cuda_engine_of(EngineOptions const& options);

Result<std::unique_ptr<Engine>> make_cuda_engine(EngineOptions const& options) {
  return choose_engine<true>(options,
                             [&]<class Ops>() { return make_cuda_engine_of<Ops>(options); });
}

}  // namespace perdure
