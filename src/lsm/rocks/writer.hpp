// Writes: RocksDB's own while they are few, the memtables' when many come (H-Rocks, sections 4 and
// 6.7).
//
// Invariants:
//  1. A write that returned is seen by every read that begins afterwards, whichever of the two has
//     it: RocksDB gets writes only while there are no memtables, and nobody makes memtables
//     meanwhile.
//  2. Batches that wait together are appended in the order in which they came, each as a whole.
//  3. What memtables do not hold is written by RocksDB after all of them are flushed.
#pragma once

#include <rocksdb/db.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "base/mutex.hpp"
#include "exec/reader_writer_lock.hpp"
#include "exec/workers.hpp"
#include "lsm/rocks/counters.hpp"
#include "lsm/rocks/families.hpp"
#include "lsm/rocks/flusher.hpp"
#include "lsm/rocks/tables.hpp"
#include "lsm/rocks/write_pace.hpp"
#include "wal/batch_record.hpp"

namespace perdure::lsm {

class Writer {
 public:
  struct Options {
    std::uint64_t threshold = 0;  // operations
    std::uint64_t memtable_bytes = 0;
    std::uint32_t immutable_memtables = 0;
    std::chrono::milliseconds idle{200};
    std::size_t hand_overs_a_second = 3;
    bool read_only = false;  // RocksDB refuses writes, and no memtable is flushed
    bool power = false;  // what RocksDB serves is synced, too
  };
  Writer(rocksdb::DB& base, exec::Workers& workers, Tables& tables, Families const& families,
         Counters& counters, Options const& options)
      : base_(base),
        workers_(workers),
        tables_(tables),
        families_(families),
        counters_(counters),
        options_(options),
        pace_{options.memtable_bytes, options.immutable_memtables} {}
  /// Before the first write.
  void set_flusher(Flusher& flusher) { flusher_ = &flusher; }

  rocksdb::Status write(rocksdb::WriteOptions const& options, rocksdb::WriteBatch* batch);
  /// Asks `check` once its turn has come, and writes where that says OK; no write of anybody else
  /// comes in between.
  rocksdb::Status write_if(rocksdb::WriteOptions const& options, rocksdb::WriteBatch* batch,
                           std::function<rocksdb::Status()> const& check);
  /// The options by which RocksDB writes for a caller with these.
  [[nodiscard]] rocksdb::WriteOptions durable(rocksdb::WriteOptions options) const {
    options.sync |= options_.power && !options.disableWAL;
    return options;
  }
  /// One operation: `direct` is RocksDB's own call of it, `fill` puts it into a batch.
  template <class Direct, class Fill>
  rocksdb::Status write_one(rocksdb::WriteOptions const& options, Direct direct, Fill fill) {
    if (options_.read_only) return direct(options);
    {
      Waits const waits(operations_waiting_, 1);
      if (waits.with_others < options_.threshold) {
        exec::SharedHold const hold(gate_);
        if (!tables_.any()) return direct(durable(options));
      }
    }
    rocksdb::WriteBatch batch;
    if (rocksdb::Status s = fill(batch); !s.ok()) return s;
    return write(options, &batch);
  }

  /// Columns of one family, to the memtables however few there are; those of several threads that
  /// wait are written together, each with its own requests. What is written has the
  /// requests first + `requests`[i], of a range of `all_requests`; `first` and `seen` (the first
  /// view that has it) are answers.
  struct Columns {
    std::uint32_t family = 0;
    wal::BatchOps ops;  // `update` is a merge
    // What the first key and the first value begin with, where a device has them (see Entries).
    std::byte const* device_keys = nullptr;
    std::byte const* device_values = nullptr;
    std::span<RequestId const> requests = {};  // empty: 0, 1, ...
    std::uint64_t all_requests = 0;
    RequestId first = 0;
    ViewPtr seen;
  };
  rocksdb::Status write_columns(rocksdb::WriteOptions const& options, Columns& columns);
  [[nodiscard]] std::uint64_t threshold() const { return options_.threshold; }
  /// Writes that wait behind the one whose turn it is.
  [[nodiscard]] std::size_t waiting() {
    MutexLock lock(queue_mutex_);
    return queue_.size();
  }

  /// Runs `call`, which writes to RocksDB, after every memtable is flushed and with no other write
  /// beside it.
  rocksdb::Status alone(std::function<rocksdb::Status()> const& call);
  /// The same, with the options by which RocksDB writes for a caller with these.
  template <class Call>
  rocksdb::Status write_alone(rocksdb::WriteOptions const& options, Call const& call) {
    return alone([&] { return call(durable(options)); });
  }
  /// As long as the answer stands, alone() calls nothing.
  [[nodiscard]] exec::SharedHold<> hold_rocksdb() { return exec::SharedHold(gate_); }
  /// All that was written before is RocksDB's when this returns.
  rocksdb::Status flush();
  /// For the flusher. Hands the memtables over to RocksDB, once there has been no large batch, and
  /// few reads of them, for a while: seals them, and while they are flushed writes go on, into new
  /// ones, which the next call seals. The last round is little: then the answer holds the gate, and
  /// with it the few writes that come, until RocksDB has got what was sealed by one write. No write
  /// waits for a flush.
  [[nodiscard]] std::shared_ptr<void> seal_idle();

 private:
  struct Waiting;  // a write that waits for its turn
  /// Counts operations among those that wait, as long as it stands.
  struct Waits {
    Waits(std::atomic<std::uint64_t>& all_waiting, std::uint64_t n)
        : all(all_waiting), mine(n), with_others(all.fetch_add(n) + n) {}
    Waits(Waits const&) = delete;
    Waits& operator=(Waits const&) = delete;
    ~Waits() { all -= mine; }
    std::atomic<std::uint64_t>& all;
    std::uint64_t const mine, with_others;
  };
  using Clock = std::chrono::steady_clock;

  static rocksdb::Status refusal(rocksdb::WriteOptions const& options);
  static bool is_for_tables(Waiting const& waiting);
  bool knows_families(Waiting const& waiting) const;
  /// With the gate held either way.
  rocksdb::Status write_rocks(rocksdb::WriteOptions const& options, rocksdb::WriteBatch* batch);
  /// Whether RocksDB serves so many operations that wait: requests wait in one queue (section 4.1),
  /// so where batches are written keys that are being read count too.
  [[nodiscard]] bool are_few(std::uint64_t operations) const;
  rocksdb::Status write_batch(rocksdb::WriteOptions const& options, rocksdb::WriteBatch* batch,
                              std::function<rocksdb::Status()> const* check);
  rocksdb::Status wait_for_turn(Waiting& mine);
  // With the gate held exclusively:
  void write_group(std::span<Waiting* const> group);
  rocksdb::Status write_by_rocksdb(Waiting& one);
  void append_together(std::span<Waiting* const> group);
  rocksdb::Status append(std::span<Waiting* const> group);
  rocksdb::Status append_batches(std::span<Waiting* const> group);
  rocksdb::Status append_columns(std::span<Waiting* const> group);
  /// How many of those that wait are written together with the first.
  [[nodiscard]] std::size_t together(std::span<Waiting* const> group) const;
  /// Writes the record to the room that it gets, sums it, and says what entries that is.
  using WriteRecord = std::function<std::vector<FamilyBatch>(std::span<std::byte> room,
                                                             RequestId first, GwalPayloadSum* sum)>;
  rocksdb::Status append(Tables::Written const& written, WriteRecord const& write, ViewPtr* seen);
  /// Whether a record of so many bytes has to wait for flushes.
  [[nodiscard]] bool would_wait(std::uint64_t bytes, bool logged);
  rocksdb::Status make_room(Tables::Written& written);
  /// Waits as the pace says, or until a memtable is free.
  void slow_down(std::uint64_t bytes);
  rocksdb::Status flush_sealing();
  bool may_begin_hand_over(Clock::time_point now);

  rocksdb::DB& base_;
  exec::Workers& workers_;
  Tables& tables_;
  Families const& families_;
  Counters& counters_;
  Options const options_;
  WritePace const pace_;
  Flusher* flusher_ = nullptr;

  exec::ReaderWriterLock gate_;  // shared: RocksDB's own writes; exclusive: everything else
  std::atomic<std::uint64_t> operations_waiting_ = 0;
  Reused<GroupEntries> entries_;
  // Under the gate.
  Clock::time_point last_batch_{};
  std::uint64_t hits_then_ = 0;  // Counters::table_hits when reads last kept the memtables
  std::deque<Clock::time_point> hand_overs_;  // of the last second
  bool handing_over_ = false;  // no large batch came since one began
  std::uint64_t left_over_ = 0;  // requests of its last round

  Mutex queue_mutex_;
  Condition turn_;
  std::vector<Waiting*> queue_ PERDURE_GUARDED_BY(queue_mutex_);
  bool has_leader_ PERDURE_GUARDED_BY(queue_mutex_) = false;
};

}  // namespace perdure::lsm
