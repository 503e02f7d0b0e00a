// What stands between the log and the store while a pool is made anew: one thread reads the log and
// verifies it, the other runs its batches, many small ones as one.
//
// Invariant: batches are run in the log's order. Merging keeps to it, for operations on one key
// take effect in array order, and only operations of one kind are merged: what a batch frees, none
// merged with it needs.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "batch/call.hpp"
#include "exec/workers.hpp"
#include "wal/batch_record.hpp"

namespace perdure {

/// A record of the log: a batch, or the batches of a transaction.
struct Logged {
  std::uint64_t number = 0;
  std::vector<std::byte> payload;
};

/// From the thread that reads to the one that runs. Buffers come back, so that memory is touched
/// once.
class LoggedQueue {
 public:
  /// Waits while too much is on its way. Takes the payload, and leaves memory for the next one in
  /// its place. False once stop() was called.
  bool give(std::uint64_t number, std::vector<std::byte>& payload);
  void end();  // nothing follows
  /// None if there is none, and, where it is told to wait, none will come.
  std::optional<Logged> take(bool wait);
  void give_back(std::vector<Logged>& used, std::size_t count);
  void stop();  // nothing more will be taken

 private:
  std::mutex mutex_;  // guards the rest
  std::condition_variable changed_;
  std::deque<Logged> there_;
  std::vector<std::vector<std::byte>> free_;
  std::uint64_t bytes_ = 0;  // of what is there
  bool ended_ = false, stopped_ = false;
};

/// Batches on their way to become one. Their bytes are the caller's to keep.
class MergedBatches {
 public:
  explicit MergedBatches(exec::Workers& workers) : workers_(&workers) {}
  /// Whether this batch may be merged with those that are here.
  [[nodiscard]] bool takes(wal::DecodedBatch const& batch) const;
  void add(std::uint64_t number, wal::DecodedBatch batch);
  [[nodiscard]] bool empty() const { return parts_.empty(); }
  [[nodiscard]] std::size_t size() const { return parts_.size(); }
  void clear();
  /// All as one; valid until the next add() or clear().
  [[nodiscard]] Call call();
  [[nodiscard]] Call part(std::size_t p) const;
  /// What came of running them from part `first` on: ok if every operation took effect, else the
  /// batch is named.
  [[nodiscard]] Status check(std::size_t first, Status const& done,
                             std::span<KeyStatus const> statuses) const;

 private:
  struct Part {
    std::uint64_t number;  // of the batch, in the log
    std::size_t begin;  // its first operation, of all
    wal::DecodedBatch batch;
  };
  struct Gathered {
    std::vector<std::byte> data;  // as large as ever needed
    std::vector<std::int64_t> offsets;
  };
  template <class ColumnOf>
  Column gather(Gathered& to, ColumnOf const& column_of);

  exec::Workers* workers_;
  std::deque<Part> parts_;  // whose columns may point into them: they stay where they are
  std::size_t operations_ = 0;
  Gathered keys_, values_;
};

}  // namespace perdure
