// The disk below logs, checkpoints and snapshots: files under names, and what makes both last. One
// stands behind it, the system's; tests and the explorer put others in its place, on which whole
// stores then run (tests/log/forgetful_disk.hpp, src/explore/sim_disk.cpp). Invariant: a name that
// was made, kept or removed is so after a power loss only once sync_directory_of() returned.
#pragma once

#include <sys/types.h>

#include <memory>
#include <string>

#include "perdure/status.h"
#include "pm/named_file.hpp"
#include "wal/disk/block_device.hpp"

namespace perdure::wal {

class Disk {
 public:
  virtual ~Disk() = default;
  /// As open_device().
  virtual Result<std::unique_ptr<BlockDevice>> open(std::string const& path, OpenMode mode,
                                                    IoOptions const& options) = 0;
  /// As make_device(): a file that has its name only once that is kept.
  virtual Result<NewDevice> make(std::string const& path, pm::MakeOptions const& make,
                                 IoOptions const& options) = 0;
  /// True: it was made. False: it was there.
  virtual Result<bool> make_directory(std::string const& path, mode_t mode) = 0;
  /// Whether what lies there is cleared by a power loss.
  virtual Result<bool> forgets(std::string const& directory) = 0;
  virtual Status sync_directory_of(std::string const& path) = 0;
};

[[nodiscard]] Disk& disk();

/// For tests: logs and snapshots that are opened from here on lie on this one; nullptr, on the
/// system's. It must outlive them, and nobody may be opening one meanwhile.
void use_disk(Disk* instead);

}  // namespace perdure::wal
