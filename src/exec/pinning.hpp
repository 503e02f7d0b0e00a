// Makes host memory reachable from the GPU. In builds without CUDA it says so.
#pragma once

#include <cstddef>

#include "perdure/status.h"

namespace perdure::exec {

/// Registers [data, data+bytes) in chunks, so that single calls stay small; the device sees it at
/// the same addresses. Errors name the memlock limit and the kind of mapping that was refused.
Status pin(void* data, std::size_t bytes, bool read_only);
void unpin(void* data, std::size_t bytes);

/// Pinned memory of the driver's own, for answers. Null: there is none to be had.
void* allocate_pinned(std::size_t bytes);
void free_pinned(void* data);

}  // namespace perdure::exec
