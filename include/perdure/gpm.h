// libGPM by the names and argument orders of its paper (GPM, ASPLOS'22, table 2), so that programs
// written for it compile: with nvcc and the target perdure::gpm. Behind them: perdure/gpm.hpp,
// which also has these calls for kernels that run on the host's threads. Programs written for the
// paper's published code take perdure/libgpm.cuh instead.
//
//   host     gpm_map, gpm_unmap, gpm_persist_begin, gpm_persist_end, gpmlog_create_conv,
//            gpmlog_create_hcl, gpmlog_open, gpmlog_close, gpmlog_clear, gpmlog_size,
//            gpmlog_partitions, gpmcp_create, gpmcp_open, gpmcp_close, gpmcp_register,
//            gpmcp_checkpoint, gpmcp_restore
//   kernels  gpm_persist, gpmlog_insert, gpmlog_read, gpmlog_remove, gpmlog_clear, gpmlog_size,
//            gpmlog_empty, gpmlog_partitions
//
// What calls answer, and what they come after: perdure/gpm_common.h. Kernels may have up to three
// dimensions.
#pragma once

#if defined(PERDURE_LIBGPM_CUH)
#error \
    "perdure/libgpm.cuh and perdure/gpm.h have calls of the same names that differ: include one of them"
#endif
#define PERDURE_GPM_H

#include "perdure/gpm_common.h"

inline gpm_result gpm_unmap(char const*, void* address, std::size_t, gpm_stream stream = nullptr) {
  return gpm_unmap_address(address, stream);
}
/// Room for `groups` groups, each of up to `elements` elements of `size` bytes together, in two
/// copies.
[[nodiscard]] inline gpmcp* gpmcp_create(char const* path, std::size_t size, std::uint32_t elements,
                                         std::uint32_t groups) {
  return gpmcp_create_spare(path, size, elements, groups, 0);
}

#if defined(__CUDACC__)
// A partition is a stack of bytes. `partition`: -1 = the thread's own. GPM_OK, or below 0.

/// Appends 1 to 256 bytes; durable when it returns.
__device__ inline gpm_result gpmlog_insert(gpmlog* log, void const* address, std::size_t size,
                                           int partition = -1) {
  auto thread = perdure::gpm::gpm_detail::this_thread();
  return perdure::gpm::gpm_detail::result_of(
      perdure::gpm::gpm_insert(thread, log->view, address, size, partition));
}
/// The last `size` bytes: the newest entry, a part of it, or several.
__device__ inline gpm_result gpmlog_read(gpmlog* log, void* address, std::size_t size,
                                         int partition = -1) {
  auto thread = perdure::gpm::gpm_detail::this_thread();
  return perdure::gpm::gpm_detail::result_of(
      perdure::gpm::gpm_read(thread, log->view, address, size, partition));
}
/// Takes off the last `size` bytes; durable when it returns.
__device__ inline gpm_result gpmlog_remove(gpmlog* log, std::size_t size, int partition = -1) {
  auto thread = perdure::gpm::gpm_detail::this_thread();
  return perdure::gpm::gpm_detail::result_of(
      perdure::gpm::gpm_remove(thread, log->view, size, partition));
}
#endif
