// A store's side of durability `power`: what it logs, what it waits for, when it checkpoints.
// Without a log every step here is nothing. Invariants: the log's order is the pool's, for a batch
// is logged while it is still alone; nobody is acknowledged, or answered from, what is not durable.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "store/gphash/core.hpp"
#include "wal/redo_log.hpp"

namespace perdure {

/// The log as it stood at some moment.
struct LogMoment {
  std::shared_ptr<wal::LogDir> log;  // null: none
  wal::Lsn lsn = 0;

  /// Until all that was logged by then is on the disk.
  [[nodiscard]] Status wait_durable() const {
    return log ? log->log().wait_durable(lsn) : Status{};
  }
};

class PowerLog {
 public:
  explicit PowerLog(Core& core) : core_(core) {}

  /// Of a new pool, with its first checkpoint.
  Status create(CreateOptions const& create);
  /// Gives all files their names.
  Status keep();
  [[nodiscard]] LogMoment moment() const;
  /// Logs the operations of a session's batch that took effect.
  Status append(Session& session, std::span<std::uint8_t const> status);
  /// One record of the log, which replay does as a whole or not at all.
  Status append_pieces(std::span<std::span<std::byte const> const> pieces);
  Status checkpoint();
  /// After a batch, before the log runs full.
  void checkpoint_in_time(ExclusiveLock& store_lock);

 private:
  Core& core_;
};

}  // namespace perdure
