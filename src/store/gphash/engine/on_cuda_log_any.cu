// The CUDA engine of layout `log` whose entries have hashes of keys.
#include "store/gphash/engine/cuda_instance.cuh"

namespace perdure {

template Result<std::unique_ptr<Engine>>
make_cuda_engine_of<gphash::WordOps<gphash::Shape228, true, true, true>>(EngineOptions const&);

}  // namespace perdure
