// The calls of libpmem that programs for the published libGPM make, over gpm_map(): files of
// perdure/libgpm.cuh's directory, where "/pmem/" stands for that directory. Invariant: what
// pmem_persist() was given is as durable as the mapped file is.
#pragma once

#include <cstring>
#include <filesystem>
#include <string>
#include <system_error>

#include "perdure/gpm_common.h"

enum : int { PMEM_FILE_CREATE = 1 };

/// A file that is there keeps what it holds, and grows to `size`; without PMEM_FILE_CREATE it must
/// be there. Null on failure: gpm_error() says why.
inline void* pmem_map_file(char const* path, std::size_t size, int flags, unsigned,
                           std::size_t* mapped, int* is_pmem) {
  constexpr char const* kPublished = "/pmem/";
  char const* const name = std::strncmp(path, kPublished, std::strlen(kPublished)) == 0
                               ? path + std::strlen(kPublished)
                               : path;
  std::string const file = gpm_path_of(name);
  std::error_code error;
  auto const has = std::filesystem::file_size(file, error);
  bool const there = !error;
  if (there && (flags & PMEM_FILE_CREATE) != 0 && has < size)
    std::filesystem::resize_file(file, size, error);
  void* const at = gpm_map(name, size, !there && (flags & PMEM_FILE_CREATE) != 0);
  if (mapped != nullptr) *mapped = gpm_mapped_bytes(at);
  if (is_pmem != nullptr) *is_pmem = at != nullptr ? 1 : 0;
  return at;
}
inline int pmem_unmap(void* address, std::size_t) {
  return gpm_unmap_address(address) == GPM_OK ? 0 : -1;
}
inline int pmem_is_pmem(void const*, std::size_t) { return 1; }
inline void pmem_persist(void const* at, std::size_t size) { gpm_persist_on_host(at, size); }
inline void pmem_flush(void const* at, std::size_t size) { gpm_persist_on_host(at, size); }
inline void pmem_drain() {}  // each flush waits
inline char const* pmem_errormsg() { return gpm_error(); }
