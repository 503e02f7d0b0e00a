// The redo log (wal/log_dir.hpp) as a G-WAL's: records go into its ring, one a batch, and which
// segment is the oldest, and RocksDB's number before its ingest, into its images.
//
// Invariants:
//  1. Images change as a whole, and the ring keeps what either of the two needs. So of a damaged
//     image the other one tells what there was before it.
//  2. Another database's log is refused, and nothing of it is changed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lsm/gwal/gwal.hpp"
#include "lsm/gwal/gwal_power_format.hpp"
#include "perdure/status.h"
#include "wal/log_dir.hpp"

namespace perdure::lsm {

/// What the images say.
struct GwalPowerPlace {
  std::uint64_t newest = 0;  // number of the last segment that was begun
  std::uint64_t oldest = 0;  // of the segment that begins at `at`; 0 = none yet
  std::uint64_t intent = kNoGwalIntent;  // of that one
  wal::LogPosition at;
};

/// A segment as the ring has it.
struct GwalPowerReplayed {
  std::uint64_t number = 0;
  wal::LogPosition first;
  std::vector<std::vector<std::byte>> memory;  // of the records
  std::vector<GwalRecord> records;

  [[nodiscard]] RequestId next_request() const {
    return records.back().first_request + records.back().requests;
  }
};

class GwalPowerDisk {
 public:
  /// Code::not_found: there is no log, or one whose making was cut short, or another database's
  /// that holds nothing.
  static Result<std::unique_ptr<GwalPowerDisk>> open(GwalOptions const& options);
  /// An empty one, in place of what a making that was cut short left.
  static Result<std::unique_ptr<GwalPowerDisk>> make(GwalOptions const& options);

  [[nodiscard]] std::string const& name() const { return files_->directory(); }
  [[nodiscard]] GwalPowerPlace const& place() const { return place_; }
  /// All records from the place on. Of a log that was opened, once, before begin().
  Result<std::vector<GwalPowerReplayed>> replay();
  /// From here on records may be appended. What is not known to be durable is not there any more.
  Status begin();
  [[nodiscard]] wal::RedoLog& log() { return files_->log(); }
  /// Durable when it returns. One at a time.
  Status write(GwalPowerPlace const& place);
  /// What was found of damage, and where the log ended; for people.
  [[nodiscard]] std::string const& report() const { return report_; }
  /// It ended in a record that was being written.
  [[nodiscard]] bool torn() const { return torn_; }

  GwalPowerDisk* aside = nullptr;  // put_aside()

 private:
  GwalPowerDisk(std::unique_ptr<wal::LogDir> files, GwalOptions const& options);
  Status load();
  Status take(std::uint64_t batch, std::vector<std::byte>& payload,
              std::vector<GwalPowerReplayed>& found) const;

  std::unique_ptr<wal::LogDir> const files_;
  GwalIdentity const identity_;
  std::uint32_t const identity_bytes_;
  GwalPowerPlace place_;
  std::optional<wal::LogPosition> end_;  // that replay() found
  std::string report_;
  bool torn_ = false;
  bool is_anothers_ = false;
};

/// A power log (by its directory) that is damaged, and the way out.
[[nodiscard]] Status gwal_power_damaged(std::string const& directory, std::string const& how);

}  // namespace perdure::lsm
