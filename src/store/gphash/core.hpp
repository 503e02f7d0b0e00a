// An open pool whose index is GPHash, and what all parts of its store share. Invariants: everything
// here changes under the exclusive store lock alone, unless it guards itself (`counters`,
// `sessions`); a call passes check_open() before it looks at the pool.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "exec/workers.hpp"
#include "index/gphash/table.hpp"
#include "perdure/store.h"
#include "pm/dense.hpp"
#include "pm/heap.hpp"
#include "pm/pool.hpp"
#include "pm/repairs.hpp"
#include "store/gphash/counters.hpp"
#include "store/gphash/engine/engine.hpp"
#include "store/gphash/health.hpp"
#include "store/gphash/open_transaction.hpp"
#include "store/store_lock.hpp"
#include "store/values_view.hpp"
#include "wal/entry_log.hpp"
#include "wal/log_dir.hpp"
#include "wal/undo_log.hpp"

namespace perdure {

/// The way out of a device's failure.
inline constexpr char const* kReopen = "; close it and reopen it, on this device or on device cpu";

/// Sessions that no batch uses, kept for the next.
class Sessions {
 public:
  Result<std::unique_ptr<Session>> take(Engine& engine);
  /// A batch has ended.
  void give(std::unique_ptr<Session> session);
  [[nodiscard]] std::uint64_t batches() const;
  void clear() { free_.clear(); }

 private:
  mutable std::mutex mutex_;  // guards the rest
  std::vector<std::unique_ptr<Session>> free_;
  std::uint64_t batches_ = 0;
};

struct Core {
  Core(std::string const& pool_path, OpenOptions const& open_options, RecoveryReport& report,
       pm::Pool made);

  [[nodiscard]] bool in_place() const { return pool.header().in_place(); }
  [[nodiscard]] bool logged() const { return pool.header().logged(); }
  /// Of all records; 0 where keys or values have any length.
  [[nodiscard]] std::uint64_t fixed_stride() const;
  /// Nobody else uses the pool: it is being opened, or the store lock is exclusive. For who is
  /// about to change it.
  [[nodiscard]] bool is_exclusive() const { return !lock.announced() || lock.is_exclusive(); }
  Status check_open(bool writing) const;
  [[nodiscard]] Status held_by_this_thread() const;  // why it must wait for itself
  [[nodiscard]] Status not_the_transaction() const;  // that was named
  /// What a session says of a batch of n operations that did not happen, with the way out.
  [[nodiscard]] Status of_batch(Status const& status, std::size_t n) const;
  /// And of a transaction for so many.
  [[nodiscard]] Status of_transaction(Status const& status, std::uint64_t n) const;
  /// The engine's table is the host's from here on; no session is running.
  Status show_table();
  /// Layout `log`: the host is about to look at slots, whose words are the engine's. Once more
  /// after each change.
  Status show_words();
  void pool_may_have_grown();
  /// The number of the next batch, which its records carry. Numbers are never used again: the root
  /// leases them, so many at a time.
  std::uint64_t next_sequence();

  std::string const& path;
  OpenOptions const& options;
  RecoveryReport& recovery;
  StoreLock lock;
  pm::Pool pool;
  pm::RecordHeap heap;
  gphash::Table table;
  exec::Workers workers;
  EngineOptions engine_options;  // that `engine` was made with
  std::unique_ptr<Engine> engine;
  wal::UndoLog undo;
  wal::EntryLog entries;  // layout `log` only
  pm::DenseRoom dense;
  pm::Repairs repairs;
  std::shared_ptr<wal::LogDir> power;  // null unless durability is power; also null while replaying
  std::uint64_t sequence = 0;  // of the last batch
  std::uint64_t generation = 1;  // of where keys stand; scans end when it changes
  bool closed = false;
  std::shared_ptr<Transaction::State> transaction;  // begun and not ended
  std::shared_ptr<DeviceSession::State> device_session;  // begun and not ended
  std::shared_ptr<ViewedPool> viewed = std::make_shared<ViewedPool>();
  Health health;
  Counters counters;
  Sessions sessions;
  std::optional<OpenTransaction> last;  // committed, and nothing has been written since

 private:
  std::mutex words_mutex_;  // readers side by side show the same
  [[nodiscard]] Status after_failure(bool writing) const;
};

}  // namespace perdure
