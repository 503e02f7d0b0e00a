// A G-WAL for who only reads its database: a copy of all segments in this process's memory, which
// is recovered as ever. Nothing of the log itself is locked or changed, and another process may
// have it open for writing.
//
// Invariant: where still_stands() says so, no segment has gone since the copy was begun, nor was
// one handed over to RocksDB; so what RocksDB had at any moment in between goes with the copy, and
// the two are one state of the database.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "lsm/gwal/gwal.hpp"
#include "perdure/status.h"
#include "pm/copied_file.hpp"

namespace perdure::lsm {

class GwalCopy {
 public:
  /// A directory that is not there has no segments. Code::busy: one went meanwhile; try again.
  static Result<GwalCopy> take(std::string directory);
  [[nodiscard]] Result<bool> still_stands() const;
  [[nodiscard]] bool empty() const { return segments_.empty(); }
  /// The log over the copy: recover() as ever, and what that changes is the copy. No begin(). The
  /// directory that the options name is that of the copy's messages.
  Result<std::unique_ptr<Gwal>> log(GwalOptions const& options) &&;

 private:
  using Segments = std::map<std::uint64_t, std::shared_ptr<pm::CopiedFile>>;  // by their numbers
  GwalCopy(std::string directory, Segments segments)
      : directory_(std::move(directory)), segments_(std::move(segments)) {}

  std::string directory_;
  Segments segments_;
};

}  // namespace perdure::lsm
