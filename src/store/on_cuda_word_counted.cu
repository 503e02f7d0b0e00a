// The CUDA engine of layout `word` that counts accesses.
#include "store/cuda_engine.cuh"

namespace perdure {

template Result<std::unique_ptr<Engine>> make_cuda_engine_of<gphash::WordOps<gphash::ShapeAny, true>, true>(
    EngineOptions const&);

}  // namespace perdure
