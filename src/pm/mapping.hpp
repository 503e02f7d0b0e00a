// A pool file mapped into memory: the back ends (tmpfs, hugetlbfs, memfd, file), growth in place,
// exclusive use, pinning. Invariant: bytes [0, size) are backed by the medium (posix_fallocate),
// or, of a file that is open read-only, by zeros of our own where it has holes; so a full tmpfs is
// an error here and never a SIGBUS later. The address never changes while it is open. A child that
// is forked has no part in it: it can neither damage the file, nor keep its memory, nor, by the
// mapping, its lock. What is not in our hands: somebody who cuts the file off while it is mapped.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "perdure/status.h"
#include "perdure/survival.h"
#include "pm/named_file.hpp"

namespace perdure::pm {

struct MapOptions {
  bool read_only = false;
  bool lock_memory = false;
  bool gpu = false;  // register with the GPU, and whatever is added by growth
  // a copy in memory, beside the process that has it open for writing (live_copy.cpp)
  bool live = false;
};

class Mapping {
 public:
  static Result<Mapping> create(std::string const& path, std::uint64_t bytes,
                                std::uint64_t max_bytes, MakeOptions const& make,
                                MapOptions const& options);
  /// A created file is not there for good, and what it is to replace is untouched, until keep().
  Status keep();
  /// Takes a file away again that was made and kept, because something else failed; if the name
  /// still is its.
  void take_away() { new_file_.remove(); }
  /// A file that says, where it is not there, how to make one.
  static Result<Fd> open_existing(std::string const& path, bool writing, Lock lock);
  /// `check`, if there is one, is asked about the file and its size before anything is mapped.
  using FileCheck = std::function<Status(int fd, std::uint64_t bytes)>;
  static Result<Mapping> open(std::string const& path, MapOptions const& options,
                              FileCheck const& check = {});
  /// A copy of the file in memory of this process, which may write to it, as the file was between
  /// two changes of the process that has it open. Waits for such a moment, for two seconds at most.
  static Result<Mapping> copy_live(std::string const& path, MapOptions const& options,
                                   FileCheck const& check);

  Mapping(Mapping&& other) noexcept;
  Mapping& operator=(Mapping&& other) noexcept;
  ~Mapping();

  /// Backs and maps bytes up to `bytes` (never shrinks). On failure the mapping is as it was.
  Status grow(std::uint64_t bytes);

  void limit(std::uint64_t max_bytes) { max_bytes_ = max_bytes; }
  /// What was written to [at, at + bytes) is as durable as the file's disk.
  Status sync(void const* at, std::size_t bytes) const;
  /// Unmaps, and releases the file and its lock.
  void close();

  [[nodiscard]] std::byte* data() const { return data_; }
  [[nodiscard]] std::uint64_t size() const { return size_; }
  /// Bytes of addresses that it can grow into.
  [[nodiscard]] std::uint64_t reserved() const { return reserved_; }
  [[nodiscard]] Medium medium() const { return medium_; }
  [[nodiscard]] bool read_only() const { return options_.read_only; }
  /// From here on it is as if it had been opened read-only.
  void end_writing() { options_.read_only = true; }

 private:
  Mapping() = default;
  /// Memory that stands for the pool in `file`.
  static Result<Mapping> in_memory(std::string const& path, int file, std::uint64_t bytes,
                                   MapOptions const& options);
  Status reserve_addresses(std::uint64_t bytes);
  enum class Pages : std::uint8_t { as_touched, now, around_holes };
  Status map(std::uint64_t from, std::uint64_t to, Pages pages);
  Status cover_holes(std::uint64_t size);
  /// Bytes that its file system holds at most; 2^40 where that has no limit.
  Result<std::uint64_t> detect_medium();

  std::string path_;
  MapOptions options_;
  Medium medium_ = Medium::file;
  NewFile new_file_;  // of a created file until keep(); closing removes it
  int fd_ = -1;
  std::byte* data_ = nullptr;
  std::uint64_t size_ = 0;
  std::uint64_t reserved_ = 0;  // address space set aside
  std::uint64_t max_bytes_ = 0;  // the file never grows past it; 0 = as the medium allows
  std::vector<std::pair<std::uint64_t, std::uint64_t>>
      pinned_;  // ranges registered with the GPU, one by one
  std::uint64_t granule_ = 4096;  // page size of the medium
  std::uint64_t process_ = 0;  // that opened it
};

}  // namespace perdure::pm
