// Which transaction waits for which, for those that want deadlocks detected.
//
// Invariant: an owner is in the graph from before it sleeps until somebody wakes it or it wakes by
// itself. So of a cycle the last one to come sees all of it.
#pragma once

#include <rocksdb/utilities/transaction_db.h>

#include <cstdint>
#include <deque>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/mutex.hpp"

namespace perdure::lsm {

class WaitGraph {
 public:
  struct Wait {
    std::vector<rocksdb::TransactionID> on;
    std::uint32_t family = 0;
    bool exclusive = false;
    std::string key;
  };

  explicit WaitGraph(std::uint32_t paths_kept) : paths_kept_(paths_kept) {}

  /// False: the wait would close a cycle, or the search for one saw `depth` transactions and did
  /// not come to an end. It is not in the graph then, and the path is kept.
  [[nodiscard]] bool begin(rocksdb::TransactionID who, Wait wait, std::int64_t depth);
  /// Also of one that is not in the graph.
  void end(rocksdb::TransactionID who);

  /// The latest first.
  [[nodiscard]] std::vector<rocksdb::DeadlockPath> paths() const;
  void keep_paths(std::uint32_t count);

 private:
  struct Step {
    rocksdb::TransactionID who;
    std::ptrdiff_t from;  // the step that led here; -1: the transaction itself
  };
  enum class Search : std::uint8_t { no_cycle, cycle, too_deep };

  Search search(rocksdb::TransactionID who, std::int64_t depth, std::vector<Step>& steps) const
      PERDURE_REQUIRES(mutex_);
  void keep(std::vector<Step> const& steps, Search found) PERDURE_REQUIRES(mutex_);
  void erase(rocksdb::TransactionID who) PERDURE_REQUIRES(mutex_);

  mutable Mutex mutex_;
  std::unordered_map<rocksdb::TransactionID, Wait> waits_ PERDURE_GUARDED_BY(mutex_);
  std::unordered_map<rocksdb::TransactionID, std::size_t> waiters_ PERDURE_GUARDED_BY(mutex_);
  std::deque<rocksdb::DeadlockPath> paths_ PERDURE_GUARDED_BY(mutex_);
  std::uint32_t paths_kept_ PERDURE_GUARDED_BY(mutex_);
};

}  // namespace perdure::lsm
