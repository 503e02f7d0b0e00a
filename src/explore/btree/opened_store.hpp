// The store of a B+-tree over the simulated medium, as a process sees it that has opened its pool:
// the store's own runs, look at all records and ranges (store/btree), on simulated threads
// (opened_on.hpp). Invariant: an opening does what the store's does (store/btree/btree_open.cpp),
// and says what that would refuse.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "explore/btree/key_form.hpp"
#include "explore/btree/store_host.hpp"
#include "explore/btree/store_scenario.hpp"
#include "explore/judging.hpp"
#include "index/btree/layout.hpp"
#include "pm/blocks.hpp"
#include "pm/pool.hpp"
#include "store/btree/btree_engine.hpp"
#include "store/threads/space.hpp"

namespace perdure::explore {

/// What operations answered.
struct Answers {
  std::vector<std::uint8_t> statuses;
  std::vector<std::uint64_t> values;  // of gets that found one
};

/// A batch as the columns that a store takes, and where its answers go.
class StoreCall {
 public:
  StoreCall(StoreBatch const& operations, KeyForm form);
  StoreCall(StoreCall const&) = delete;
  StoreCall& operator=(StoreCall const&) = delete;

  [[nodiscard]] bool reads() const;
  [[nodiscard]] std::size_t count() const { return kinds_.size(); }

  Call call;
  Answers answers;

 private:
  std::vector<std::byte> keys_, values_;
  std::vector<std::int64_t> key_offsets_{0}, offsets_{0};
  std::vector<OpKind> kinds_;
};

class OpenedStore {
 public:
  using Contents = ByKey;
  static constexpr std::uint64_t kSuperblock = pm::kLeastSuperblock;

  OpenedStore(pm::Pool opened, Keeps keeps, KeyForm form);
  OpenedStore(OpenedStore const&) = delete;
  OpenedStore& operator=(OpenedStore const&) = delete;
  virtual ~OpenedStore() = default;

  /// Of a pool that was just made.
  virtual bool begin() = 0;
  /// Of one that was closed, or whose process was killed; what is wrong with it.
  virtual std::optional<std::string> recover() = 0;
  /// An orderly close, after which nothing may follow.
  virtual void close() = 0;
  /// What no run should have to wait for, where it writes these keys.
  virtual void make_room(std::vector<std::uint64_t> const& keys) = 0;
  /// Of a log: collects what is queued, by the running thread; how many segments.
  virtual std::uint64_t collect() { return 0; }
  /// Of a log: leaves so much room in the segment that is appended to, by large values of `key` and
  /// keys above it. Answers which of them are there afterwards.
  virtual std::vector<std::uint64_t> fill(Filled const&, std::uint64_t /*key*/) { return {}; }
  /// Of a log: fills a segment with large values of `key` and keys above it that were cancelled.
  virtual void cancel(std::uint64_t /*key*/) {}
  /// Of a log: the segment that is appended to is somebody's, for as long as the answer stands.
  virtual std::shared_ptr<void> hold() { return nullptr; }

  /// Of a log: the running thread has the item of a key for a while, as a reader has it.
  virtual std::optional<std::string> fault_of_holding(std::uint64_t /*key*/) {
    return std::nullopt;
  }

  /// A batch by the running thread.
  virtual Answers apply(StoreBatch const& batch) = 0;
  /// The same of puts whose keys rise, into an empty store that nobody else uses meanwhile.
  virtual Answers load(StoreBatch const& batch) { return apply(batch); }
  /// By a range of all, and by gets of `keys`, which must agree.
  std::optional<std::string> contents(std::vector<std::uint64_t> const& keys, Contents& found);
  /// Where nobody writes: what is in the pool, and what is free there, is what the tree leads to.
  virtual std::optional<std::string> fault_of_room() = 0;
  /// What writes should not have done.
  virtual std::optional<std::string> fault_of_writes() { return std::nullopt; }
  /// Instead of recover(): whether a repair puts right what flipped bits have made of the pool.
  virtual std::optional<std::string> fault_of_repairs() { return std::nullopt; }

  // Of a store whose batches are transactions:
  virtual void begin_batch() {}
  /// The running thread's part of one that has begun.
  virtual Answers apply_part(StoreBatch const& batch) { return apply(batch); }
  /// False: there is no room.
  virtual bool commit_batch() { return true; }

  [[nodiscard]] StoreHost& host() { return host_; }
  [[nodiscard]] KeyForm form() const { return form_; }

 protected:
  using Visit = threads::Visitor;
  /// All that a range has.
  virtual BtreePage all(Visit const& visit) = 0;
  void begin_writing();
  static std::string named(std::uint64_t record) {
    return "the record at byte " + std::to_string(record);
  }

  pm::Pool pool_;
  Mutex memory_;
  threads::Space space_;
  threads::BatchNumbers numbers_;
  pm::Blocks leaf_blocks_;  // where leaves are durable, and alone
  KeyForm form_;
  BtreeOptions options_;
  StoreHost host_;
};

/// How a store is made.
struct StoreMaking {
  Keeps keeps = Keeps::order;
  bool strings = false;  // keys are
  bool leaves = false;  // are durable
  std::uint64_t most_queued = 4;  // of a log: segments wait for a collector, then writers wait, too
};

/// Values in the heap, or in a log; or all durable, and batches transactions.
[[nodiscard]] std::unique_ptr<OpenedStore> open_heap_store(pm::Pool pool, StoreMaking const& how);
[[nodiscard]] std::unique_ptr<OpenedStore> open_leaves_store(pm::Pool pool, StoreMaking const& how);
[[nodiscard]] std::unique_ptr<OpenedStore> open_log_store(pm::Pool pool, StoreMaking const& how);
[[nodiscard]] std::unique_ptr<OpenedStore> open_full_store(pm::Pool pool, StoreMaking const& how);

}  // namespace perdure::explore
