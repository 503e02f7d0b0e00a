// What the segments of one power log share: which of them RocksDB may lack, and the disk below.
// Invariants: as of GwalLog; live segments are retired oldest first, only the newest takes records,
// and their requests ascend. Of a log that could not be written nothing is written any more.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/mutex.hpp"
#include "lsm/gwal/gwal.hpp"
#include "lsm/gwal/gwal_power_disk.hpp"

namespace perdure::lsm {

class GwalPowerLog {
 public:
  struct Live {
    std::uint64_t number = 0;
    std::optional<wal::LogPosition> first;  // of its records; none yet
    std::uint64_t intent = kNoGwalIntent;
    bool retired = false;  // and gone, but for one without records behind others
  };

  explicit GwalPowerLog(std::unique_ptr<GwalPowerDisk> disk);
  ~GwalPowerLog();
  GwalPowerLog(GwalPowerLog const&) = delete;
  GwalPowerLog& operator=(GwalPowerLog const&) = delete;

  [[nodiscard]] std::string const& name() const { return name_; }
  /// Until close(), and before begin() of whoever opened the log.
  [[nodiscard]] GwalPowerDisk& disk() { return *disk_; }
  /// Segments that were found, oldest first; `newest` of all numbers that there were.
  Status found(std::vector<Live> segments, std::uint64_t newest, RequestId next_request)
      PERDURE_EXCLUDES(writing_, mutex_);
  Result<std::uint64_t> begin() PERDURE_EXCLUDES(mutex_);
  /// Whether all segments are retired, so that nobody needs the log. The disk goes.
  [[nodiscard]] bool close() PERDURE_EXCLUDES(writing_, mutex_);
  GwalRoom make_room(std::uint64_t bytes) PERDURE_EXCLUDES(writing_, mutex_);

  // Of one of the live segments.
  [[nodiscard]] Status takes_records(std::uint64_t number) const PERDURE_EXCLUDES(mutex_);
  Status append(std::uint64_t number, GwalRecord const& record) PERDURE_EXCLUDES(mutex_);
  Status intend(std::uint64_t number, std::uint64_t rocks_sequence)
      PERDURE_EXCLUDES(writing_, mutex_);
  Status retire(std::uint64_t number) PERDURE_EXCLUDES(writing_, mutex_);

 private:
  [[nodiscard]] Status ours() const;
  [[nodiscard]] Status usable() const PERDURE_REQUIRES(mutex_);
  [[nodiscard]] Status is_newest(std::uint64_t number) const PERDURE_REQUIRES(mutex_);
  [[nodiscard]] Live* live(std::uint64_t number) PERDURE_REQUIRES(mutex_);
  [[nodiscard]] GwalPowerPlace place() const PERDURE_REQUIRES(mutex_);
  [[nodiscard]] bool fits(std::uint64_t bytes) const PERDURE_REQUIRES(mutex_);
  [[nodiscard]] bool holds_records() const PERDURE_REQUIRES(mutex_);
  [[nodiscard]] std::string name_of(std::uint64_t number) const;
  Result<wal::Lsn> put(std::uint64_t number, GwalRecord const& record) PERDURE_EXCLUDES(mutex_);
  Status write(GwalPowerPlace const& place) PERDURE_REQUIRES(writing_) PERDURE_EXCLUDES(mutex_);
  Status broken_by(Status const& s) PERDURE_EXCLUDES(mutex_);

  std::string const name_;
  std::uint64_t const process_;
  Mutex writing_;  // images; taken before the other
  mutable Mutex mutex_;
  std::unique_ptr<GwalPowerDisk> disk_;  // until close(), after which nobody calls
  std::deque<Live> live_ PERDURE_GUARDED_BY(mutex_);  // oldest first
  std::uint64_t newest_ PERDURE_GUARDED_BY(mutex_) = 0;
  bool begun_ PERDURE_GUARDED_BY(mutex_) = false;  // by us, the newest
  RequestId next_request_ PERDURE_GUARDED_BY(mutex_) = 0;
  Status broken_ PERDURE_GUARDED_BY(mutex_);
};

}  // namespace perdure::lsm
