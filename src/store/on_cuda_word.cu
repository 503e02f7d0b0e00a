// The CUDA engine of layout `word` in the default shape.
#include "store/cuda_engine.cuh"

namespace perdure {

template Result<std::unique_ptr<Engine>> make_cuda_engine_of<gphash::WordOps<gphash::Shape228, true>>(
    EngineOptions const&);

}  // namespace perdure
