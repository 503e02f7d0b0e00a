// The files of a G-WAL, and the seam below it: a directory of mapped files (gwal_directory.cpp),
// or the explorer's medium.
//
// Invariants: a file has its name only once keep() has returned, and then for good: names are
// durable in the order in which they come and go. A file's bytes stay where they are as long as
// the object, whatever becomes of its name. One that was used before may hold what it held then.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "lsm/gwal/gwal.hpp"
#include "perdure/status.h"

namespace perdure::lsm {

class GwalFile {
 public:
  virtual ~GwalFile() = default;
  [[nodiscard]] virtual std::span<std::byte> bytes() const = 0;
  /// For people.
  [[nodiscard]] virtual std::string name() const = 0;
  /// Gives it the name of its number.
  virtual Status keep() = 0;
  /// Takes the name away. `again`: the file may be used again, under a higher number.
  virtual Status remove(bool again) = 0;
  /// What was written there is as durable as the medium.
  virtual Status sync(void const* at, std::size_t bytes) const = 0;
};

class GwalFiles {
 public:
  virtual ~GwalFiles() = default;
  /// For people.
  [[nodiscard]] virtual std::string name() const = 0;
  /// Hash of what tells one start of the system from another; 0 = not known.
  [[nodiscard]] virtual std::uint64_t boot() const = 0;
  /// Of the segments that are there, ascending.
  virtual Result<std::vector<std::uint64_t>> numbers() = 0;
  virtual Result<std::shared_ptr<GwalFile>> open(std::uint64_t number) = 0;
  /// A file of `bytes` at least, that is to be the segment of this number.
  virtual Result<std::shared_ptr<GwalFile>> make(std::uint64_t number, std::uint64_t bytes) = 0;
  /// Somebody is to call make() for as much: what takes long may be done now, beside the caller.
  virtual void prepare(std::uint64_t) {}
  /// Of files that are kept to be used again so many stay.
  virtual void trim(std::size_t) {}
};

// Of a directory of files:

/// Code::not_found: there is no such directory.
Result<std::vector<std::uint64_t>> gwal_segment_numbers(std::string const& directory);
[[nodiscard]] std::string gwal_segment_path(std::string const& directory, std::uint64_t number);
/// Of this start of the system; see GwalFiles.
[[nodiscard]] std::uint64_t gwal_boot();

/// Locks the directory, which is made where it is missing.
Result<std::unique_ptr<GwalFiles>> open_gwal_directory(GwalOptions const& options);

/// The log over files that are open already.
Result<std::unique_ptr<Gwal>> open_gwal_over(std::unique_ptr<GwalFiles> files,
                                             GwalOptions const& options);

}  // namespace perdure::lsm
