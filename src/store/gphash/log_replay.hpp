// Runs again what the log of durability `power` holds beyond the image that a pool was made from.
// Batches that took effect once do so again: the pool is as it was then. Invariant: where
// acknowledged batches are lost, nothing is changed unless a repair was asked for: neither what
// stands at the pool's path, nor a file of the log.
#pragma once

#include <memory>

#include "store/gphash/core.hpp"
#include "store/gphash/logged_queue.hpp"
#include "store/gphash/write.hpp"
#include "wal/replay.hpp"

namespace perdure {

class LogReplay {
 public:
  LogReplay(Core& core, BatchWriter& writer) : core_(core), writer_(writer) {}

  /// Then the store logs to it. It is known to have been durable up to `noted`.
  Status run(std::shared_ptr<wal::LogDir> power, wal::Loaded const& loaded, wal::Lsn noted);

 private:
  Result<wal::ReplayReport> read_and_run(wal::LogDir& power, wal::LogPosition from);
  Status run_queue(LoggedQueue& queue);
  Status run_merged(MergedBatches& merged);
  void tell(wal::ReplayReport const& report, wal::Loaded const& loaded, double seconds);
  [[nodiscard]] Status lost_batches(wal::ReplayReport const& report) const;
  Status note_loss(wal::LogDir& power, wal::ReplayReport const& report);

  Core& core_;
  BatchWriter& writer_;
};

}  // namespace perdure
