// libGPM by the names and argument orders of its paper (GPM, ASPLOS'22, table 2), so that programs written for it
// compile: with nvcc and the target perdure::gpm. Behind them: perdure/gpm.hpp, which also has these calls for kernels
// that run on the host's threads. Blocks of kernels that log have one dimension.
//
//   host     gpm_map, gpm_unmap, gpm_persist_begin, gpm_persist_end, gpmlog_create_conv, gpmlog_create_hcl,
//   gpmlog_open,
//            gpmlog_close, gpmlog_clear, gpmcp_create, gpmcp_open, gpmcp_close, gpmcp_register, gpmcp_checkpoint,
//            gpmcp_restore
//   kernels  gpm_persist, gpmlog_insert, gpmlog_read, gpmlog_remove, gpmlog_clear
//
// Calls that make something return null, and the others a value other than GPM_OK, where they fail; gpm_error() says
// what failed and what to do. Without a GPU a build for CUDA fails them all; a build without CUDA does what the host
// can. Calls of the host may come from several threads, but not two for one log or checkpoint at once.
#pragma once

#include <cstddef>
#include <cstdint>

#if defined(__CUDACC__)
#include "exec/grid_cuda.cuh"
#include "log/gpm_log.hpp"
#endif

/// What calls answer. From GPM_OVERFLOW on: of logs, in kernels.
enum gpm_result : int {
  GPM_OK = 0,
  GPM_FAILED = 1,     // gpm_error() says why; what was durable before is as it was
  GPM_NONE_YET = 2,   // gpmcp_restore: the group was never checkpointed
  GPM_OVERFLOW = 16,  // the log has no room: nothing was written
  GPM_SIZE,           // an entry of 0 or more than 256 bytes
  GPM_PARTITION,      // no such partition, or more threads than the log was made for
  GPM_EMPTY,          // there is no entry
  GPM_MISMATCH,       // the newest entry has another size
};

/// Of the last call of this host thread that failed; valid until its next one.
[[nodiscard]] char const* gpm_error();

/// `size` bytes of the file at `path`, at an address that host and kernels share; null on failure. `create`: made anew,
/// of zeros. The file must lie on tmpfs (/dev/shm) or hugetlbfs for kernels to reach it.
[[nodiscard]] void* gpm_map(char const* path, std::size_t size, bool create);
gpm_result gpm_unmap(char const* path, void* address, std::size_t size);

/// Around kernels that persist. On the paper's platform they switch DDIO off and on (section 5.1). Here nothing
/// switches it: stores that gpm_persist() has waited for are in host memory, or in the processor's caches before it,
/// and gpm_survives() says what that outlives. gpm_persist_begin() answers what it came to on this computer, for
/// people: "DDIO: none to switch, ..." or "DDIO: left as it is, ...". An end without a begin fails.
char const* gpm_persist_begin();
gpm_result gpm_persist_end();
/// For example "kernel abort, process kill, GPU reset (declared)", of a mapped file; null if `address` is not mapped.
[[nodiscard]] char const* gpm_survives(void const* address);

struct gpmlog;  // kernels get it by pointer
/// `size` bytes of entries for `partitions` partitions, each behind a lock. A log that is there is replaced.
[[nodiscard]] gpmlog* gpmlog_create_conv(char const* path, std::size_t size, std::uint32_t partitions);
/// The same for kernels of `blocks` blocks of `threads` threads, each with a place of its own.
[[nodiscard]] gpmlog* gpmlog_create_hcl(char const* path, std::size_t size, std::uint32_t blocks,
                                        std::uint32_t threads);
/// Its durable entries are there again.
[[nodiscard]] gpmlog* gpmlog_open(char const* path);
gpm_result gpmlog_close(gpmlog* log);
/// Entries that found no room since the log was opened.
[[nodiscard]] std::uint64_t gpmlog_overflows(gpmlog* log);

struct gpmcp;
/// Room for `groups` groups, each of up to `elements` elements of `size` bytes together, in two copies.
[[nodiscard]] gpmcp* gpmcp_create(char const* path, std::size_t size, std::uint32_t elements, std::uint32_t groups);
[[nodiscard]] gpmcp* gpmcp_open(char const* path);
gpm_result gpmcp_close(gpmcp* checkpoint);
/// The group's next element, which kernels must reach. After gpmcp_open(): in the order in which they were before.
gpm_result gpmcp_register(gpmcp* checkpoint, void* address, std::size_t size, std::uint32_t group);
/// `word` is the program's: how far it had come.
gpm_result gpmcp_checkpoint(gpmcp* checkpoint, std::uint32_t group, std::uint64_t word = 0);
gpm_result gpmcp_restore(gpmcp* checkpoint, std::uint32_t group, std::uint64_t* word = nullptr);

/// On the host: ends all entries at once, or those of a partition, durably.
gpm_result gpmlog_clear_on_host(gpmlog* log, int partition);

#if defined(__CUDACC__)

/// What a gpmlog* points to, in GPU memory.
struct gpmlog {
  perdure::log::GpmLogView view;
};

namespace perdure::log::gpm_detail {
__device__ inline gpm_result result_of(GpmLogError error) {
  return error == GpmLogError::none ? GPM_OK
                                    : static_cast<gpm_result>(GPM_OVERFLOW + static_cast<int>(error) -
                                                              static_cast<int>(GpmLogError::overflow));
}
__device__ inline exec::CudaThread this_thread() { return exec::CudaThread(exec::Persist::here); }
}  // namespace perdure::log::gpm_detail

/// What this thread stored to mapped files before is there before anything it stores afterwards.
__device__ inline void gpm_persist() { perdure::log::gpm_detail::this_thread().persist(); }

/// Durable when it returns. `partition`: -1 = the thread's own.
__device__ inline gpm_result gpmlog_insert(gpmlog* log, void const* address, std::size_t size, int partition = -1) {
  auto thread = perdure::log::gpm_detail::this_thread();
  return perdure::log::gpm_detail::result_of(perdure::log::gpm_insert(thread, log->view, address, size, partition));
}
/// The newest entry.
__device__ inline gpm_result gpmlog_read(gpmlog* log, void* address, std::size_t size, int partition = -1) {
  auto thread = perdure::log::gpm_detail::this_thread();
  return perdure::log::gpm_detail::result_of(perdure::log::gpm_read(thread, log->view, address, size, partition));
}
/// Takes off the newest entry.
__device__ inline gpm_result gpmlog_remove(gpmlog* log, std::size_t size, int partition = -1) {
  auto thread = perdure::log::gpm_detail::this_thread();
  return perdure::log::gpm_detail::result_of(perdure::log::gpm_remove(thread, log->view, size, partition));
}
/// In a kernel: the entries of a partition. On the host: all entries (-1), or those of a partition.
__host__ __device__ inline gpm_result gpmlog_clear(gpmlog* log, int partition = -1) {
#if defined(__CUDA_ARCH__)
  auto thread = perdure::log::gpm_detail::this_thread();
  return perdure::log::gpm_detail::result_of(perdure::log::gpm_clear(thread, log->view, partition));
#else
  return gpmlog_clear_on_host(log, partition);
#endif
}

#else
inline gpm_result gpmlog_clear(gpmlog* log, int partition = -1) { return gpmlog_clear_on_host(log, partition); }
#endif
