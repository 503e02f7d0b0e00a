// exec/pinning.hpp for builds without CUDA.
#include "exec/pinning.hpp"

namespace perdure::exec {

Status pin(void*, std::size_t, bool) { return {Code::unsupported, "this build has no CUDA"}; }
void unpin(void*, std::size_t) {}
void* allocate_pinned(std::size_t) { return nullptr; }
void free_pinned(void*) {}

}  // namespace perdure::exec
