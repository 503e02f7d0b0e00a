// The CUDA engines that count accesses.
#include "store/cuda_engine.cuh"

namespace perdure {

template Result<std::unique_ptr<Engine>> make_cuda_engine_of<gphash::WordOps<gphash::ShapeAny, true>, true>(
    EngineOptions const&);
template Result<std::unique_ptr<Engine>> make_cuda_engine_of<gphash::InPlaceOps<gphash::ShapeAny>, true>(
    EngineOptions const&);

}  // namespace perdure
