// An open pool whose index is a Dash table, and what all parts of its store share. Invariants: a
// call passes check_open() before it looks at the table; whatever takes from the pool, or changes
// its root, holds `memory`, but for openings and closes, which have the store alone.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "base/mutex.hpp"
#include "exec/workers.hpp"
#include "perdure/store.h"
#include "pm/pool.hpp"
#include "pm/repairs.hpp"
#include "store/dash/dash_counters.hpp"
#include "store/dash/dash_engine.hpp"
#include "store/dash/dash_health.hpp"
#include "store/dash/dash_space.hpp"

namespace perdure {

/// As the command line, Python and errors name it.
[[nodiscard]] char const* name(Index index);

/// Numbers of write batches, which their records carry. Invariant: each is below what the root
/// leases, so that an opening goes on above them.
class BatchNumbers {
 public:
  BatchNumbers(pm::Pool& pool, Mutex& memory) : pool_(pool), memory_(memory) {}

  /// The pool has been opened.
  void begin();
  std::uint64_t next();

 private:
  pm::Pool& pool_;
  Mutex& memory_;
  std::atomic<std::uint64_t> sequence_{0}, lease_{0};
};

struct DashCore {
  DashCore(std::string const& pool_path, OpenOptions const& open_options, RecoveryReport& report,
           pm::Pool made);

  [[nodiscard]] Index index() const { return static_cast<Index>(pool.header().index); }
  [[nodiscard]] Offset index_at() const;  // 0: the root names none
  Status check_open(bool writing) const;
  [[nodiscard]] Status lacks(char const* what, char const* way_out) const;
  [[nodiscard]] Status corrupt(std::string const& what) const;
  void make_engine(dash::SegmentShape segments);
  /// Nobody changes the table. False: some segments are damaged, and what they hold is left out.
  bool count_records();

  std::string const& path;
  OpenOptions const& options;
  RecoveryReport& recovery;
  pm::Pool pool;
  pm::Repairs repairs;
  Mutex memory;  // guards what takes from the pool, and its root
  DashSpace space;
  exec::Workers workers;
  DashHealth health;
  std::unique_ptr<DashEngine> engine;
  bool closed = false;  // changes where nobody else is in the store
  DashCounters counters;
  BatchNumbers numbers;
};

}  // namespace perdure
