// The CUDA engine of layout `word` in any shape.
#include "store/gphash/engine/cuda_instance.cuh"

namespace perdure {

template Result<std::unique_ptr<Engine>>
make_cuda_engine_of<gphash::WordOps<gphash::ShapeAny, true>>(EngineOptions const&);

}  // namespace perdure
