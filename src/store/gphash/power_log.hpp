// A store's side of durability `power`: what it logs, what it waits for, when it checkpoints.
// Without a log every step here is nothing. Invariants: the log's order is the pool's, for a batch
// is logged while it is still alone; nobody is acknowledged, or answered from, what is not durable.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "exec/aside.hpp"
#include "store/gphash/core.hpp"
#include "store/gphash/frozen_pool.hpp"
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
  /// Of a writer, which is let wait rather than all of them later.
  void wait_for_checkpoint() const {
    if (log) log->wait_for_checkpoint();
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
  /// The thread that logs batches while they are executed.
  [[nodiscard]] exec::Aside& aside();
  /// One record of the log, which replay does as a whole or not at all.
  Status append_pieces(std::span<std::span<std::byte const> const> pieces);
  /// Of the pool as it is now, while nobody writes. One that is running is given up.
  Status checkpoint();
  /// The one that is running, if any. The one before counts on.
  void give_up();
  /// After a batch, before the log runs full: begins one, or goes on with the one that is running.
  void checkpoint_in_time(ExclusiveLock& store_lock);
  /// f(), and once more where the space that it lacks was held for the checkpoint that is running,
  /// which is waited for.
  template <class F>
  Status with_held_space(F const& f) {
    Status s = f();
    if (s.code() != Code::no_space || !core_.heap.holds_any()) return s;
    Status const ended = finish_running();
    return ended.ok() ? f() : ended;
  }

 private:
  [[nodiscard]] bool can_go_beside() const;
  Status go_on();
  Status finish_running();
  void hold_what_is_not_copied();
  [[nodiscard]] wal::ImageSource frozen() const;
  [[nodiscard]] wal::ForEach side_by_side() const;

  Core& core_;
  std::unique_ptr<exec::Aside> aside_;  // writes columns of batches; begun with the first of them
  FrozenPool frozen_;  // while a checkpoint runs
};

}  // namespace perdure
