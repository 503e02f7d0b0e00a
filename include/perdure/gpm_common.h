// What perdure/gpm.h (libGPM by the names of its paper) and perdure/libgpm.cuh (by those of its
// published code) have in common; include one of these two. docs/libgpm.md says how to build, and
// what comes after what.
//
// Answers. A call that makes something returns null where it fails. The others return a value below
// zero where they fail, and otherwise GPM_OK, which is 0, or where it says so a number: so a
// program that takes any other value than 0 for a failure is right, and so is one that takes those
// below 0. gpm_error() says what failed on the host and what to do. Without a GPU a build for CUDA
// fails them all; a build without CUDA does what the host can. Calls of the host may come from
// several threads, but not two for one log or checkpoint at once. Forks: files, logs and
// checkpoints belong to the process that opened them. In a child every call with its parent's
// pointers fails, and their memory is not there; on the host's threads it may map and open others.
//
// Order. A call of the host comes after all kernels that were launched before it on the legacy
// default stream, on per-thread default streams, and on streams made with cudaStreamCreate(), and
// before all that are launched after it has returned. Kernels on a stream made with
// cudaStreamNonBlocking are ordered with it where that stream is its last argument. Of another
// GPU's kernels nothing is known: wait for them yourself.
#pragma once

#include <cstddef>
#include <cstdint>

#if defined(__CUDACC__)
#include "exec/cuda/grid_cuda.cuh"
#include "gpm/gpm_log.hpp"
#endif

enum gpm_result : int {
  GPM_OK = 0,
  GPM_FAILED = -1,  // gpm_error() says why; what was durable before is as it was
  GPM_NONE_YET = -2,  // gpmcp_restore: the group was never checkpointed; nothing was changed
  // Of logs, in kernels: nothing was written, read or taken off.
  GPM_OVERFLOW = -16,  // the partition has no room for the entry
  GPM_SIZE = -17,  // 0 bytes, or an entry of more than 256
  GPM_PARTITION = -18,  // no such partition, or more threads than the log was made for
  GPM_EMPTY = -19,  // the partition holds nothing
  GPM_FEWER = -20,  // the partition holds fewer bytes than that
  GPM_FOREIGN = -21,  // what stands where the last entry was is none: somebody else wrote there
};

struct CUstream_st;  // a cudaStream_t points to one
using gpm_stream = CUstream_st*;

/// Of the last call of this host thread that failed; valid until its next one.
[[nodiscard]] char const* gpm_error();

/// What programs for the published code count on (perdure/libgpm.cuh calls it): from now on
/// relative paths lie in `directory`, and failures of the host's calls are told on standard error
/// too, as are entries that found no room in a log that is closed.
void gpm_as_published(char const* directory);
/// The file that a path names: the same, or in that directory. Valid until this host thread's next
/// such call.
[[nodiscard]] char const* gpm_path_of(char const* path);

/// `size` bytes of the file at `path`, at an address that host and kernels share; null on failure.
/// `create`: made anew, of zeros; else it must have so many at least (0: whatever it has). It must
/// lie on tmpfs (/dev/shm) or hugetlbfs for kernels to reach it.
[[nodiscard]] void* gpm_map(char const* path, std::size_t size, bool create);
/// How many bytes are mapped at an address of gpm_map(), in whole pages; 0 where none are.
[[nodiscard]] std::size_t gpm_mapped_bytes(void const* address);
gpm_result gpm_unmap_address(void* address, gpm_stream stream = nullptr);

/// What the host itself stored to mapped memory is as durable as that is, before anything it stores
/// afterwards.
void gpm_persist_on_host(void const* at, std::size_t size);
/// Copies to mapped memory from any memory of host or GPU, or fills it; done, and as durable as the
/// mapped file is, when it returns.
gpm_result gpm_write(void* to, void const* from, std::size_t size, gpm_stream stream = nullptr);
gpm_result gpm_fill(void* to, int byte, std::size_t size, gpm_stream stream = nullptr);

/// Around kernels that persist. On the paper's platform they switch DDIO off and on (section 5.1).
/// Here nothing switches it: stores that gpm_persist() has waited for are in host memory, or in the
/// processor's caches before it, and gpm_survives() says what that outlives. gpm_persist_begin()
/// answers what it came to on this computer, for people: "DDIO: none to switch, ..." or "DDIO: left
/// as it is, ...". An end without a begin fails.
char const* gpm_persist_begin();
gpm_result gpm_persist_end();
/// For example "kernel abort, process kill, GPU reset (declared)", of a mapped file; null if
/// `address` is not mapped.
[[nodiscard]] char const* gpm_survives(void const* address);

// Logs. `size` is in bytes of entries of all partitions together, shared out evenly: each has room
// for its share, an entry of n bytes counted as n rounded up to a multiple of 4. Checks come on
// top. So `24 * threads` holds an entry of 24 bytes, or six of 4, of each thread. A log that is
// there is replaced.
struct gpmlog;  // kernels get it by pointer
/// For `partitions` partitions, each behind a lock.
[[nodiscard]] gpmlog* gpmlog_create_conv(char const* path, std::size_t size,
                                         std::uint32_t partitions);
/// For kernels of `blocks` blocks of `threads` threads, each with a place of its own: all
/// dimensions counted.
[[nodiscard]] gpmlog* gpmlog_create_hcl(char const* path, std::size_t size, std::uint32_t blocks,
                                        std::uint32_t threads);
/// Its durable entries are there again.
[[nodiscard]] gpmlog* gpmlog_open(char const* path);
gpm_result gpmlog_close(gpmlog* log, gpm_stream stream = nullptr);
/// Entries that found no room since the log was opened; below 0 on failure.
[[nodiscard]] long long gpmlog_overflows(gpmlog* log, gpm_stream stream = nullptr);
// What kernels have too, on the host (gpmlog_clear(), ... call them there). Partition -1: the whole
// log.
gpm_result gpmlog_clear_on_host(gpmlog* log, int partition, gpm_stream stream);
[[nodiscard]] long long gpmlog_size_on_host(gpmlog* log, int partition, gpm_stream stream);
[[nodiscard]] long long gpmlog_partitions_on_host(gpmlog* log);

// Checkpoints.
struct gpmcp;
[[nodiscard]] gpmcp* gpmcp_open(char const* path);
gpm_result gpmcp_close(gpmcp* checkpoint);
/// The group's next element, which kernels must reach. After gpmcp_open(): in the order in which
/// they were before.
gpm_result gpmcp_register(gpmcp* checkpoint, void* address, std::size_t size, std::uint32_t group);
/// `word` is the program's: how far it had come.
gpm_result gpmcp_checkpoint(gpmcp* checkpoint, std::uint32_t group, std::uint64_t word = 0,
                            gpm_stream stream = nullptr);
gpm_result gpmcp_restore(gpmcp* checkpoint, std::uint32_t group, std::uint64_t* word = nullptr,
                         gpm_stream stream = nullptr);
/// Room for `groups` groups, each of up to `elements` elements of `size` bytes together, in two
/// copies; and for `spare` groups more, whose copies the file has once something is registered.
[[nodiscard]] gpmcp* gpmcp_create_spare(char const* path, std::size_t size, std::uint32_t elements,
                                        std::uint32_t groups, std::uint32_t spare);

#if defined(__CUDACC__)

/// What a gpmlog* points to, in GPU memory.
struct gpmlog {
  perdure::gpm::GpmLogView view;
};

namespace perdure::gpm::gpm_detail {
__device__ inline gpm_result result_of(GpmLogError error) {
  return error == GpmLogError::none
             ? GPM_OK
             : static_cast<gpm_result>(GPM_OVERFLOW + static_cast<int>(GpmLogError::overflow) -
                                       static_cast<int>(error));
}
__device__ inline exec::CudaThread this_thread() { return exec::CudaThread(exec::Persist::here); }
}  // namespace perdure::gpm::gpm_detail

/// What this thread stored to mapped files before is there before anything it stores afterwards.
__device__ inline void gpm_persist() { perdure::gpm::gpm_detail::this_thread().persist(); }

/// In a kernel: the entries of a partition (-1: the thread's own) go, the newest first. On the
/// host: those of the whole log at once (-1), or of a partition.
__host__ __device__ inline gpm_result gpmlog_clear(gpmlog* log, int partition = -1,
                                                   gpm_stream stream = nullptr) {
#if defined(__CUDA_ARCH__)
  auto thread = perdure::gpm::gpm_detail::this_thread();
  return perdure::gpm::gpm_detail::result_of(perdure::gpm::gpm_clear(thread, log->view, partition));
#else
  return gpmlog_clear_on_host(log, partition, stream);
#endif
}
/// Bytes that a partition holds (on the host, -1: that all hold); below 0 on failure.
__host__ __device__ inline long long gpmlog_size(gpmlog* log, int partition = -1,
                                                 gpm_stream stream = nullptr) {
#if defined(__CUDA_ARCH__)
  auto thread = perdure::gpm::gpm_detail::this_thread();
  std::uint64_t bytes = 0;
  perdure::gpm::GpmLogError const error =
      perdure::gpm::gpm_size(thread, log->view, bytes, partition);
  if (error != perdure::gpm::GpmLogError::none) return perdure::gpm::gpm_detail::result_of(error);
  return static_cast<long long>(bytes);
#else
  return gpmlog_size_on_host(log, partition, stream);
#endif
}
/// 1 or 0; below 0 on failure.
__device__ inline int gpmlog_empty(gpmlog* log, int partition = -1) {
  auto thread = perdure::gpm::gpm_detail::this_thread();
  bool empty = false;
  perdure::gpm::GpmLogError const error =
      perdure::gpm::gpm_empty(thread, log->view, empty, partition);
  if (error != perdure::gpm::GpmLogError::none) return perdure::gpm::gpm_detail::result_of(error);
  return empty ? 1 : 0;
}
/// How many there are; of a hierarchical log its threads. Below 0 on failure.
__host__ __device__ inline long long gpmlog_partitions(gpmlog* log) {
#if defined(__CUDA_ARCH__)
  return static_cast<long long>(log->view.partitions);
#else
  return gpmlog_partitions_on_host(log);
#endif
}

#else
inline gpm_result gpmlog_clear(gpmlog* log, int partition = -1, gpm_stream stream = nullptr) {
  return gpmlog_clear_on_host(log, partition, stream);
}
[[nodiscard]] inline long long gpmlog_size(gpmlog* log, int partition = -1,
                                           gpm_stream stream = nullptr) {
  return gpmlog_size_on_host(log, partition, stream);
}
[[nodiscard]] inline long long gpmlog_partitions(gpmlog* log) {
  return gpmlog_partitions_on_host(log);
}
#endif
