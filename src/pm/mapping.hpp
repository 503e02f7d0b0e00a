// A pool file mapped into memory: the back ends (tmpfs, hugetlbfs, memfd, file), growth in place,
// exclusive use, pinning. Invariant: bytes [0, size) are backed by the medium (file_memory.hpp),
// or, of a file that is open read-only, by zeros of our own where it has holes; so a full tmpfs is
// an error here and never a SIGBUS later. The address never changes while it is open. While it is
// open for writing the file may be longer: by what is prepared for the next growth, or, after a
// crash, by what was to be. A child that is forked has no part in it: it can neither damage the
// file, nor keep its memory, nor, by the mapping, its lock. What is not in our hands: somebody who
// cuts the file off while it is mapped.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "perdure/status.h"
#include "perdure/survival.h"
#include "pm/file_memory.hpp"
#include "pm/named_file.hpp"

namespace perdure::pm {

class Extension;

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
  /// `check`, if there is one, is asked about the file and its size before anything is mapped. It
  /// answers how many bytes the file counts on, all without one. Of a file in memory, a hole behind
  /// those that reaches to the end is what a killed process was about to back: it is not mapped for
  /// writing.
  using FileCheck = std::function<Result<std::uint64_t>(int fd, std::uint64_t bytes)>;
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
  Status grow(std::uint64_t bytes) { return grow(bytes, bytes); }
  /// The same up to `least`, and up to `eager` if there is room. What is prepared is taken instead.
  Status grow(std::uint64_t least, std::uint64_t eager);
  /// Has up to so many bytes behind its end, a multiple of `unit`, prepared for the next growth, by
  /// a thread. False: not on this medium (a disk grows in no time), or not now, for want of a
  /// thread or of room.
  bool prepare(std::uint64_t bytes, std::uint64_t unit);
  /// Gives back what is prepared; nothing is prepared any more.
  void prepare_no_more();

  void limit(std::uint64_t max_bytes) { max_bytes_ = max_bytes; }
  /// What was written to [at, at + bytes) is as durable as the file's disk.
  Status sync(void const* at, std::size_t bytes) const;
  /// Unmaps, and releases the file and its lock.
  void close();

  [[nodiscard]] std::byte* data() const { return file_.data; }
  [[nodiscard]] std::uint64_t size() const { return size_; }
  /// Bytes of addresses that it can grow into.
  [[nodiscard]] std::uint64_t reserved() const { return reserved_; }
  [[nodiscard]] Medium medium() const { return file_.medium; }
  [[nodiscard]] bool read_only() const { return file_.options.read_only; }
  /// From here on it is as if it had been opened read-only.
  void end_writing() {
    prepare_no_more();
    file_.options.read_only = true;
  }

 private:
  Mapping();
  /// Memory that stands for the pool in `file`.
  static Result<Mapping> in_memory(std::string const& path, int file, std::uint64_t bytes,
                                   MapOptions const& options);
  Status reserve_addresses(std::uint64_t bytes);
  /// Bytes that it may have at most.
  [[nodiscard]] std::uint64_t most() const;
  Status grow_here(std::uint64_t bytes);
  /// Bytes that its file system holds at most; 2^40 where that has no limit.
  Result<std::uint64_t> detect_medium();

  FileMemory file_;
  NewFile new_file_;  // of a created file until keep(); closing removes it
  std::uint64_t size_ = 0;
  std::uint64_t reserved_ = 0;  // address space set aside
  std::uint64_t max_bytes_ = 0;  // the file never grows past it; 0 = as the medium allows
  std::vector<std::pair<std::uint64_t, std::uint64_t>>
      pinned_;  // ranges registered with the GPU, one by one
  std::uint64_t granule_ = 4096;  // page size of the medium
  std::uint64_t process_ = 0;  // that opened it
  std::unique_ptr<Extension> extension_;  // since something was prepared first
};

}  // namespace perdure::pm
