// Writing segments, and what the segments of one log share. Invariants: live segments have
// successive numbers, and are retired oldest first. Only the newest takes records, whose requests
// ascend over all of them. Of a log of which something could not be synced nothing is written any
// more: whether the last record comes back is not known.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/mutex.hpp"
#include "lsm/gwal/gwal.hpp"
#include "lsm/gwal/gwal_files.hpp"
#include "lsm/gwal/gwal_format.hpp"
#include "lsm/gwal/gwal_headers.hpp"

namespace perdure::lsm {

/// A segment as its log knows it.
struct GwalLive {
  std::shared_ptr<GwalFile> file;
  std::uint64_t number = 0;
  std::uint64_t end = kGwalRecords;  // of its records
  std::uint64_t synced = 0;  // all before this place
  std::uint64_t intent = kNoGwalIntent;
  bool retired = false;  // and gone, but for one without records behind others
};

class GwalLog {
 public:
  GwalLog(std::unique_ptr<GwalFiles> files, GwalOptions const& options);

  [[nodiscard]] GwalFiles& files() { return *files_; }
  [[nodiscard]] GwalIdentity const& identity() const { return identity_; }

  /// Segments that were found, oldest first, before any is begun. `newest`: of all numbers that
  /// there were; the next one is above it, for the files may be used again.
  void found(std::vector<GwalLive> segments, std::uint64_t newest, RequestId next_request)
      PERDURE_EXCLUDES(mutex_);
  /// The next segment's file is made beforehand, beside the caller.
  void prepare() { files_->prepare(gwal_segment_bytes(segment_bytes_)); }
  /// A new one; it takes the records from here on.
  Result<std::uint64_t> begin(std::uint64_t bytes) PERDURE_EXCLUDES(mutex_);

  // Of one of the live segments.
  Result<std::span<std::byte>> room(std::uint64_t number, std::uint64_t bytes)
      PERDURE_EXCLUDES(mutex_);
  /// `summed`: the payload's sum, or null.
  Status append(std::uint64_t number, GwalRecord const& record, bool sync,
                GwalPayloadSum const* summed) PERDURE_EXCLUDES(mutex_);
  Status intend(std::uint64_t number, std::uint64_t rocks_sequence) PERDURE_EXCLUDES(mutex_);
  Status retire(std::uint64_t number) PERDURE_EXCLUDES(mutex_);
  [[nodiscard]] std::shared_ptr<GwalFile> file(std::uint64_t number) PERDURE_EXCLUDES(mutex_);

 private:
  Status ours() const;
  void prepare_next(std::uint64_t number, std::uint64_t used, std::uint64_t size);
  Status takes_records(std::uint64_t number) const PERDURE_REQUIRES(mutex_);
  [[nodiscard]] Result<GwalLive> place_for(std::uint64_t number, GwalRecord const& record) const
      PERDURE_EXCLUDES(mutex_);
  [[nodiscard]] GwalLive* live(std::uint64_t number) PERDURE_REQUIRES(mutex_);
  [[nodiscard]] std::string name_of(std::uint64_t number) const;
  Status write_header(GwalFile& file, std::uint64_t number, std::uint64_t previous_end) const;
  Status write_intent(GwalFile& file, std::uint64_t number, std::uint64_t rocks_sequence) const;
  Status sync_all() PERDURE_EXCLUDES(mutex_);
  Status remove_retired() PERDURE_EXCLUDES(retiring_, mutex_);
  /// What all calls answer from here on.
  Status broken_by(Status const& s) PERDURE_EXCLUDES(mutex_);

  // Constant after construction.
  std::unique_ptr<GwalFiles> const files_;
  GwalIdentity const identity_;
  std::uint32_t const identity_bytes_;
  std::uint64_t const segment_bytes_;
  exec::Workers* const workers_;
  std::uint64_t const boot_;
  std::uint64_t const process_;

  std::uint64_t prepared_behind_ = 0;  // the writer's: the segment during which it last was

  Mutex retiring_;  // taken before the other
  mutable Mutex mutex_;
  std::deque<GwalLive> live_ PERDURE_GUARDED_BY(mutex_);  // oldest first
  std::uint64_t newest_ PERDURE_GUARDED_BY(mutex_) = 0;  // number; 0 = none yet
  bool begun_ PERDURE_GUARDED_BY(mutex_) = false;  // by us, the newest
  RequestId next_request_ PERDURE_GUARDED_BY(mutex_) = 0;
  Status broken_ PERDURE_GUARDED_BY(mutex_);
};

/// The segment of this number, as its user has it.
[[nodiscard]] std::unique_ptr<GwalSegment> make_gwal_segment(std::shared_ptr<GwalLog> log,
                                                             std::uint64_t number);

}  // namespace perdure::lsm
