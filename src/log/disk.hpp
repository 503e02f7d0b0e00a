// The disk below logs, checkpoints and snapshots: files under names, and what makes both last. One stands behind it,
// the system's; a test may put another in its place, on which whole stores then run (tests/log/faulty_disk.hpp).
// Invariant: a name that was made, renamed or removed is so after a power loss only once sync_directory_of() returned.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "log/block_device.hpp"
#include "perdure/status.h"

namespace perdure::log {

/// What lies under a name.
struct Found {
  bool regular = false;
  std::vector<std::byte> head;  // of a regular file: its first bytes
};

class Disk {
 public:
  virtual ~Disk() = default;
  /// As open_device().
  virtual Result<std::unique_ptr<BlockDevice>> open(std::string const& path, OpenMode mode,
                                                    IoOptions const& options) = 0;
  /// True: it was made. False: it was there.
  virtual Result<bool> make_directory(std::string const& path) = 0;
  /// Whether what lies there is cleared by a power loss.
  virtual Result<bool> forgets(std::string const& directory) = 0;
  /// Nothing where there is nothing; a link is not followed.
  virtual Result<std::optional<Found>> look(std::string const& path, std::size_t head_bytes) = 0;
  virtual Status rename(std::string const& from, std::string const& to, bool replace) = 0;
  virtual Status remove(std::string const& path) = 0;
  virtual Status sync_directory_of(std::string const& path) = 0;
};

[[nodiscard]] Disk& disk();

/// For tests: logs and snapshots that are opened from here on lie on this one; nullptr, on the system's. It must
/// outlive them, and nobody may be opening one meanwhile.
void use_disk(Disk* instead);

}  // namespace perdure::log
