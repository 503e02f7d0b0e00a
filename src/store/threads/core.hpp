// An open pool whose operations host threads do one by one, and what all parts of its store share,
// whatever the index. Invariants: a call passes check_open() before it looks at the index; whatever
// takes from the pool, or changes its root, holds `memory`, but for openings and closes, which have
// the store alone.
//
// Locking: a batch runs under the shared side of `open`, a writing one (and whoever locks parts of
// the index) under that of `changing`, too; who closes has `open` alone, who needs the index at
// rest `changing`. Where a batch of writes is a transaction, it has `changing` alone, and who reads
// shares it. A write that an exception ends in its midst ends the store, too (health.hpp).
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>

#include "base/mutex.hpp"
#include "exec/reader_writer_lock.hpp"
#include "exec/workers.hpp"
#include "perdure/store.h"
#include "pm/pool.hpp"
#include "pm/repairs.hpp"
#include "store/threads/counters.hpp"
#include "store/threads/engine.hpp"
#include "store/threads/health.hpp"
#include "store/threads/space.hpp"

namespace perdure::threads {

/// Numbers of write batches, or of their operations, which records carry. Invariant: each is below
/// what the root leases, so that an opening goes on above them.
class BatchNumbers {
 public:
  BatchNumbers(pm::Pool& pool, Mutex& memory) : pool_(pool), memory_(memory) {}

  /// The pool has been opened.
  void begin();
  /// The first of n numbers in a row.
  std::uint64_t take(std::uint64_t n);

 private:
  pm::Pool& pool_;
  Mutex& memory_;
  std::atomic<std::uint64_t> sequence_{0}, lease_{0};
};

struct Core {
  Core(std::string const& pool_path, OpenOptions const& open_options, RecoveryReport& report,
       pm::Pool made);
  Core(Core const&) = delete;
  Core& operator=(Core const&) = delete;
  virtual ~Core() = default;

  /// Null before it has been made, and once the store is closed.
  [[nodiscard]] virtual Engine* operations() const = 0;
  [[nodiscard]] Index index() const { return static_cast<Index>(pool.header().index); }
  /// Whether a batch of writes is a transaction: then it is alone, and all of it is there after a
  /// crash, or nothing.
  [[nodiscard]] bool has_transactions() const { return pool.header().has_maps(); }
  Status check_open(bool writing) const;
  [[nodiscard]] Status lacks(char const* what, char const* way_out) const;
  [[nodiscard]] Status corrupt(std::string const& what) const;

  std::string const& path;
  OpenOptions const& options;
  RecoveryReport& recovery;
  pm::Pool pool;
  pm::Repairs repairs;
  Mutex memory;  // guards what takes from the pool, and its root
  Space space;
  exec::Workers workers;
  Health health;
  exec::ReaderWriterLock open, changing;  // `open` guards `closed`
  bool closed = false;
  Counters counters;
  BatchNumbers numbers;
};

/// Of who looks at an index: what it sees no crash undoes.
class CommittedHold {
 public:
  explicit CommittedHold(Core& core) {
    if (core.has_transactions()) hold_.emplace(core.changing);
  }

 private:
  std::optional<exec::SharedHold<>> hold_;
};

/// Of who writes a batch: beside others, or alone where it is a transaction.
class BatchHold {
 public:
  explicit BatchHold(Core& core) {
    if (core.has_transactions())
      alone_.emplace(core.changing);
    else
      beside_.emplace(core.changing);
  }

 private:
  std::optional<exec::SharedHold<>> beside_;
  std::optional<exec::ExclusiveHold<>> alone_;
};

}  // namespace perdure::threads
