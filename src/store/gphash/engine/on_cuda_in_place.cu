// The CUDA engines of layout `in_place`.
#include "store/gphash/engine/cuda_instance.cuh"

namespace perdure {

template Result<std::unique_ptr<Engine>> make_cuda_engine_of<gphash::InPlaceOps<gphash::Shape228>>(
    EngineOptions const&);
template Result<std::unique_ptr<Engine>> make_cuda_engine_of<gphash::InPlaceOps<gphash::ShapeAny>>(
    EngineOptions const&);

}  // namespace perdure
