// The CUDA engine of layout `in_place` that counts accesses.
#include "store/cuda_engine.cuh"

namespace perdure {

template Result<std::unique_ptr<Engine>> make_cuda_engine_of<gphash::InPlaceOps<gphash::ShapeAny>, true>(
    EngineOptions const&);

}  // namespace perdure
