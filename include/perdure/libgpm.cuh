// libGPM by the names, argument orders and answers of its published code (GPMbench), so that those
// programs compile as they are, with `-I include/perdure/gpm_dialect` for the names of its headers:
// with nvcc, and the target perdure::gpm. docs/porting-libgpm.md says how, and what is otherwise
// than there. Other programs take perdure/gpm.h.
//
//   host     gpm_map_file, gpm_unmap, gpm_persist_begin, gpm_persist_end, gpm_memcpy,
//            gpm_memcpy_nodrain, gpm_memset, gpm_memset_nodrain, gpm_is_pmem, ddio_on, ddio_off,
//            gpmlog_create, gpmlog_create_managed, gpmlog_create_conv, gpmlog_create_hcl,
//            gpmlog_open, gpmlog_close, gpmlog_get_partitions, gpmcp_create, gpmcp_open,
//            gpmcp_close, gpmcp_register, gpmcp_checkpoint, gpmcp_restore, pmem_map_file,
//            pmem_persist, pmem_mt_persist, pmem_flush, pmem_drain, pmem_unmap, pmem_write
//   kernels  gpm_drain, gpm_persist, gpm_flush, gpm_memcpy, gpm_memcpy_nodrain, gpm_memset,
//            gpm_memset_nodrain, vol_memcpy, gpmlog_insert, gpmlog_read, gpmlog_remove,
//            gpmlog_read_remove, gpmlog_clear, gpmlog_get_size, gpmlog_is_empty,
//            gpmlog_get_partitions
//
// Files with relative paths lie in the directory that the environment variable PERDURE_PMEM names,
// else in /pmem. What fails on the host is told on standard error too. gpmlog_insert, read, remove
// and read_remove answer how many bytes they moved: all, or, reading and removing, as many as there
// are; below zero on failure (gpm_result), when they moved none. What calls come after:
// perdure/gpm_common.h.
#pragma once

#if defined(PERDURE_GPM_H)
#error \
    "perdure/libgpm.cuh and perdure/gpm.h have calls of the same names that differ: include one of them"
#endif
#define PERDURE_LIBGPM_CUH

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <algorithm>

#include "perdure/gpm_common.h"
#include "perdure/gpm_dialect/change-ddio.h"
#include "perdure/gpm_dialect/gpm-annotations.cuh"
#include "perdure/gpm_dialect/gpm-helper.cuh"

namespace perdure::gpm::gpm_detail {

inline bool const as_published = [] {
  char const* const directory = getenv("PERDURE_PMEM");
  gpm_as_published(directory != nullptr ? directory : "/pmem");
  return true;
}();

/// As many whole words of bytes as there are, if both addresses allow; how many bytes.
template <class Word>
__device__ inline std::size_t copy_words(exec::CudaThread& thread, char* to, char const* from,
                                         std::size_t bytes) {
  if ((reinterpret_cast<std::uintptr_t>(to) | reinterpret_cast<std::uintptr_t>(from)) %
          sizeof(Word) !=
      0)
    return 0;
  std::size_t const words = bytes / sizeof(Word);
  for (std::size_t i = 0; i < words; ++i)
    thread.store(reinterpret_cast<Word*>(to) + i, reinterpret_cast<Word const*>(from)[i]);
  return words * sizeof(Word);
}
__device__ inline void copy_in_kernel(void* to, void const* from, std::size_t bytes) {
  exec::CudaThread thread = this_thread();
  auto* const at = static_cast<char*>(to);
  auto const* const of = static_cast<char const*>(from);
  std::size_t done = copy_words<unsigned long long>(thread, at, of, bytes);
  done += copy_words<unsigned int>(thread, at + done, of + done, bytes - done);
  copy_words<unsigned char>(thread, at + done, of + done, bytes - done);
}
__device__ inline void fill_in_kernel(void* to, unsigned char value, std::size_t bytes) {
  exec::CudaThread thread = this_thread();
  auto* const at = static_cast<unsigned char*>(to);
  std::size_t done = 0;
  for (; done < bytes && reinterpret_cast<std::uintptr_t>(at + done) % 8 != 0; ++done)
    thread.store(at + done, value);
  for (; done + 8 <= bytes; done += 8)
    thread.store(reinterpret_cast<unsigned long long*>(at + done), value * 0x0101010101010101ull);
  for (; done < bytes; ++done) thread.store(at + done, value);
}

inline cudaError_t as_cuda(gpm_result result) {
  return result == GPM_OK ? cudaSuccess : cudaErrorInvalidValue;
}

/// -1 is the thread's own place, which a log with partitions behind locks has not.
__device__ inline bool names_no_partition(gpmlog const* log, int partition) {
  return partition == -1 && log->view.kind == GpmLogKind::conventional;
}
/// act(thread, n), for as many of `size` bytes as the partition has; how many, or what failed.
template <class F>
__device__ inline int for_what_is_there(gpmlog* log, std::size_t size, int partition, F act) {
  if (names_no_partition(log, partition)) return GPM_PARTITION;
  exec::CudaThread thread = this_thread();
  while (true) {
    std::uint64_t there = 0;
    GpmLogError error = gpm_size(thread, log->view, there, partition);
    std::size_t const some = size < there ? size : there;
    if (error == GpmLogError::none && some != 0) error = act(thread, some);
    if (error == GpmLogError::empty || error == GpmLogError::fewer)
      continue;  // another thread took some meanwhile
    if (error != GpmLogError::none) return result_of(error);
    return static_cast<int>(some);
  }
}

}  // namespace perdure::gpm::gpm_detail

// ------------------------------------------------------------------------------------------------
// Mapped memory

/// `create`: made anew, of zeros, with `len` bytes. Else it must be there; `len` becomes its size,
/// in whole pages.
inline void* gpm_map_file(char const* path, std::size_t& len, bool create) {
  if (create && len == 0) {
    fprintf(stderr, "libGPM: gpm_map_file: a file of no bytes; give a length\n");
    return nullptr;
  }
  void* const at = gpm_map(path, len, create);
  if (at != nullptr && !create) len = gpm_mapped_bytes(at);
  return at;
}
inline cudaError_t gpm_unmap(char const*, void* address, std::size_t) {
  return perdure::gpm::gpm_detail::as_cuda(gpm_unmap_address(address));
}
inline cudaError_t gpm_unmap(void* address, std::size_t) {
  return perdure::gpm::gpm_detail::as_cuda(gpm_unmap_address(address));
}
inline int gpm_is_pmem(void const* address, std::size_t) {
  return gpm_mapped_bytes(address) != 0 ? 1 : 0;
}

__device__ inline void gpm_drain() { gpm_persist(); }
__device__ inline void gpm_persist(void const*, std::size_t) { gpm_persist(); }
__device__ inline void gpm_flush(void const*, std::size_t) { gpm_persist(); }

/// On the host they are done, and as durable as the mapped file is, when they return, with or
/// without drain. Where memory lies is known from its address: `kind` says nothing.
__host__ __device__ inline cudaError_t gpm_memcpy_nodrain(void* to, void const* from,
                                                          std::size_t len, cudaMemcpyKind) {
#if defined(__CUDA_ARCH__)
  perdure::gpm::gpm_detail::copy_in_kernel(to, from, len);
  return cudaSuccess;
#else
  return perdure::gpm::gpm_detail::as_cuda(gpm_write(to, from, len));
#endif
}
__host__ __device__ inline cudaError_t gpm_memcpy(void* to, void const* from, std::size_t len,
                                                  cudaMemcpyKind kind) {
  cudaError_t const error = gpm_memcpy_nodrain(to, from, len, kind);
#if defined(__CUDA_ARCH__)
  gpm_persist();
#endif
  return error;
}
__host__ __device__ inline cudaError_t gpm_memset_nodrain(void* to, unsigned char value,
                                                          std::size_t len) {
#if defined(__CUDA_ARCH__)
  perdure::gpm::gpm_detail::fill_in_kernel(to, value, len);
  return cudaSuccess;
#else
  return perdure::gpm::gpm_detail::as_cuda(gpm_fill(to, value, len));
#endif
}
__host__ __device__ inline cudaError_t gpm_memset(void* to, unsigned char value, std::size_t len) {
  cudaError_t const error = gpm_memset_nodrain(to, value, len);
#if defined(__CUDA_ARCH__)
  gpm_persist();
#endif
  return error;
}
__device__ inline void vol_memcpy(void* to, void const* from, std::size_t len) {
  perdure::gpm::gpm_detail::copy_in_kernel(to, from, len);
}

inline void pmem_mt_persist(void* at, std::size_t size) { pmem_persist(at, size); }
/// Writes all of it to an open file; what pwrite() answered where it failed.
inline long long pmem_write(int fd, void const* from, std::size_t count, off_t offset) {
  std::size_t done = 0;
  while (done < count) {
    ssize_t const wrote = pwrite(fd, static_cast<char const*>(from) + done, count - done,
                                 offset + static_cast<off_t>(done));
    if (wrote < 0) return wrote;
    done += static_cast<std::size_t>(wrote);
  }
  return static_cast<long long>(done);
}

// ------------------------------------------------------------------------------------------------
// Logs

/// Accepted, and without effect: every insert is durable when it returns, and -1 is no partition of
/// a log of gpmlog_create().
enum gpmlog_flags : int { PMEMLOG_UNMANAGED = 1, PMEMLOG_UNSTRICT = 2 };

[[nodiscard]] inline gpmlog* gpmlog_create(char const* path, std::size_t len, int partitions,
                                           int = 0) {
  return gpmlog_create_conv(path, len, partitions > 0 ? static_cast<std::uint32_t>(partitions) : 0);
}
[[nodiscard]] inline gpmlog* gpmlog_create_conv(char const* path, std::size_t len, int partitions,
                                                int flags) {
  return gpmlog_create(path, len, partitions, flags);
}
[[nodiscard]] inline gpmlog* gpmlog_create_managed(char const* path, std::size_t& len, int blocks,
                                                   int threads, int = 0) {
  bool const some = blocks > 0 && threads > 0;
  return gpmlog_create_hcl(path, len, some ? static_cast<std::uint32_t>(blocks) : 0,
                           some ? static_cast<std::uint32_t>(threads) : 0);
}
[[nodiscard]] inline gpmlog* gpmlog_create_hcl(char const* path, std::size_t& len, int blocks,
                                               int threads, int flags) {
  return gpmlog_create_managed(path, len, blocks, threads, flags);
}

__device__ inline int gpmlog_insert(gpmlog* log, void const* from, std::size_t size,
                                    int partition = -1) {
  namespace detail = perdure::gpm::gpm_detail;
  if (detail::names_no_partition(log, partition)) return GPM_PARTITION;
  auto thread = detail::this_thread();
  perdure::gpm::GpmLogError const error =
      perdure::gpm::gpm_insert(thread, log->view, from, size, partition);
  if (error != perdure::gpm::GpmLogError::none) return detail::result_of(error);
  return static_cast<int>(size);
}
__device__ inline int gpmlog_read(gpmlog* log, void* to, std::size_t size, int partition = -1) {
  return perdure::gpm::gpm_detail::for_what_is_there(
      log, size, partition, [&](auto& thread, std::size_t some) {
        return perdure::gpm::gpm_read(thread, log->view, to, some, partition);
      });
}
__device__ inline int gpmlog_remove(gpmlog* log, std::size_t size, int partition = -1) {
  return perdure::gpm::gpm_detail::for_what_is_there(
      log, size, partition, [&](auto& thread, std::size_t some) {
        return perdure::gpm::gpm_remove(thread, log->view, some, partition);
      });
}
/// Both; with other threads on the partition they are two calls.
__device__ inline int gpmlog_read_remove(gpmlog* log, void* to, std::size_t size,
                                         int partition = -1) {
  int const read = gpmlog_read(log, to, size, partition);
  return read > 0 ? gpmlog_remove(log, static_cast<std::size_t>(read), partition) : read;
}
/// Bytes; 0 of a partition that is not there.
__device__ inline std::size_t gpmlog_get_size(gpmlog* log, int partition = -1) {
  if (perdure::gpm::gpm_detail::names_no_partition(log, partition)) return 0;
  long long const bytes = gpmlog_size(log, partition);
  return bytes > 0 ? static_cast<std::size_t>(bytes) : 0;
}
__device__ inline int gpmlog_is_empty(gpmlog* log, int partition = -1) {
  if (perdure::gpm::gpm_detail::names_no_partition(log, partition)) return GPM_PARTITION;
  return gpmlog_empty(log, partition);
}
__host__ __device__ inline int gpmlog_get_partitions(gpmlog* log) {
  return static_cast<int>(gpmlog_partitions(log));
}

// ------------------------------------------------------------------------------------------------
// Checkpoints

/// `size` is of the data of all groups; here each has room for so much. Groups are counted as
/// GPMbench counts them: 0 to `groups`, that many included, which takes room once something is
/// registered there.
[[nodiscard]] inline gpmcp* gpmcp_create(char const* path, std::size_t size, long long elements,
                                         long long groups) {
  bool const some = elements > 0 && groups > 0;
  return gpmcp_create_spare(path, size, some ? static_cast<std::uint32_t>(elements) : 0,
                            some ? static_cast<std::uint32_t>(groups) : 0, 1);
}
