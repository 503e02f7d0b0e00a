// The note in a database's directory that says where its power log lies. It is there from before
// the first record until an orderly close: while it is, RocksDB may lack what only that log has,
// so nobody may open the database without it. Invariant: it comes and goes as a whole, and is on
// the disk when a call returns.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "perdure/status.h"
#include "wal/disk/block_device.hpp"

namespace perdure::lsm {

/// Of the database in this directory.
[[nodiscard]] inline std::string power_note_of(std::string const& database) {
  return database + "/perdure-power";
}

struct GwalPowerNoteRead {
  std::string identity;  // of the database: one that was there before may have left the note
  std::string directory;  // of the log
};
/// Nothing where there is no note.
[[nodiscard]] Result<std::optional<GwalPowerNoteRead>> read_gwal_power_note(
    std::string const& path);

/// A note that is there as long as it is not removed, whatever becomes of this.
class WrittenGwalPowerNote {
 public:
  static Result<WrittenGwalPowerNote> write(std::string const& path, std::string const& identity,
                                            std::string const& directory);
  Status remove();

 private:
  std::string path_;
  std::unique_ptr<wal::NewName> name_;
};

}  // namespace perdure::lsm
