// The store of a B+-tree over the simulated medium, as a process sees it that has opened its pool:
// the store's own runs, look at all records and ranges (store/btree), on simulated threads.
// Invariant: an opening does what the store's does (store/btree/btree_open.cpp), and says what that
// would refuse.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "explore/btree/store_host.hpp"
#include "explore/btree/store_scenario.hpp"
#include "index/btree/tree.hpp"
#include "perdure/batch.h"
#include "pm/pool.hpp"
#include "store/btree/btree_runs.hpp"

namespace perdure::explore {

/// What operations answered.
struct Answers {
  std::vector<std::uint8_t> statuses;
  std::vector<std::uint64_t> values;  // of gets that found one
};

class OpenedStore {
 public:
  using Contents = std::map<std::uint64_t, std::uint64_t>;
  static constexpr std::uint64_t kSuperblock = pm::kLeastSuperblock;

  OpenedStore(pm::Pool opened, Keeps keeps);
  OpenedStore(OpenedStore const&) = delete;
  OpenedStore& operator=(OpenedStore const&) = delete;
  virtual ~OpenedStore() = default;

  /// Of a pool that was just made.
  virtual bool begin() = 0;
  /// Of one that was closed, or whose process was killed; what is wrong with it.
  virtual std::optional<std::string> recover() = 0;
  /// An orderly close, after which nothing may follow.
  virtual void close() = 0;
  /// What no run should have to wait for.
  virtual void make_room() = 0;
  /// Of a log: collects what is queued, by the running thread; how many segments.
  virtual std::uint64_t collect() { return 0; }
  /// Of a log: leaves so much room in the segment that is appended to, by large values of `key` and
  /// keys above it. Answers which of them are there afterwards.
  virtual std::vector<std::uint64_t> fill(Filled const&, std::uint64_t /*key*/) { return {}; }
  /// Of a log: fills a segment with large values of `key` and keys above it that were cancelled.
  virtual void cancel(std::uint64_t /*key*/) {}
  /// Of a log: the segment that is appended to is somebody's, for as long as the answer stands.
  virtual std::shared_ptr<void> hold() { return nullptr; }

  /// A batch by the running thread.
  Answers apply(StoreBatch const& batch);
  /// By a range of all, and by gets of `keys`, which must agree.
  std::optional<std::string> contents(std::vector<std::uint64_t> const& keys, Contents& found);
  /// Where nobody writes: what is in the pool, and what is free there, is what the tree leads to.
  virtual std::optional<std::string> fault_of_room() = 0;
  /// What writes should not have done.
  virtual std::optional<std::string> fault_of_writes() { return std::nullopt; }

  [[nodiscard]] StoreHost& host() { return host_; }
  [[nodiscard]] exec::Epochs& epochs() { return table_.epochs(); }

 protected:
  using Table = btree::Tree<btree::WordKeys>;
  using Parts = BtreeParts<Table, btree::WordKeys>;

  virtual void write(threads::Batch const& batch, threads::Ops const& ops) = 0;
  std::optional<std::uint64_t> get(std::uint64_t key);
  /// The words of all entries.
  std::vector<std::uint64_t> words();
  void begin_writing();
  static std::string named(std::uint64_t record) {
    return "the record at byte " + std::to_string(record);
  }

  pm::Pool pool_;
  Mutex memory_;
  threads::Space space_;
  threads::BatchNumbers numbers_;
  BtreeOptions options_;
  StoreHost host_;
  Table table_;
  Parts parts_;
};

/// Values in the heap, or in a log. `keeps`: see StoreHost.
[[nodiscard]] std::unique_ptr<OpenedStore> open_heap_store(pm::Pool pool, Keeps keeps);
/// So many segments may wait for a collector before writers wait, too.
[[nodiscard]] std::unique_ptr<OpenedStore> open_log_store(pm::Pool pool, Keeps keeps,
                                                          std::uint64_t most_queued);

}  // namespace perdure::explore
