// The redo log: batches of bytes, in order, in a file of fixed size that is used as a ring.
//
// Invariants:
//  1. durable_lsn() never passes a group whose durable write, or that of any group before it, has
//     not completed; so what lies before it comes back from replay, in order.
//  2. No group is written over bytes of the ring that lie at or after the truncation point.
//  3. After the first failed write nothing further is written, and every waiter whose batch is not
//     durable, now and later, is told: what reached the disk is unknown until replay.
//
// Threads: append() and wait_durable() from any number; one committer thread of its own.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <thread>
#include <vector>

#include "base/mutex.hpp"
#include "perdure/status.h"
#include "pm/log_word.hpp"
#include "wal/disk/block_file.hpp"
#include "wal/log_format.hpp"

namespace perdure::wal {

struct LogOptions {
  std::uint64_t buffer_bytes = 4u << 20;   // memory between append() and the disk
  std::uint64_t group_bytes = 256u << 10;  // most bytes of a group, its header included
  std::uint64_t write_bytes = 256u << 10;  // adjacent groups are written together up to this
  std::uint32_t depth = 8;                 // writes in flight
};

/// Where the next batch goes, and its number: what replay ends with, and an image is tagged with.
struct LogPosition {
  Lsn lsn = 0;
  std::uint64_t next_batch = 1;
  bool operator==(LogPosition const&) const = default;
};

/// How full the ring is.
struct LogRoom {
  std::uint64_t ring_bytes = 0;
  std::uint64_t used_bytes = 0;
  Lsn end = 0;
};

/// What a log says of itself.
struct LogIdentity {
  PoolId pool_id{};
  std::uint64_t ring_bytes = 0;
  std::uint32_t epoch = 0;
  Lsn epoch_lsn = 0;
  /// Only one copy of the header is valid. The other one may have been of the next epoch, and
  /// groups of that epoch count.
  bool copy_damaged = false;
};

/// Writes zeros over the whole file, then a header: an empty log.
Status format_log(BlockFile& file, PoolId const& pool_id, std::uint64_t ring_bytes);
/// Reads and checks the header; refuses what it does not understand.
Result<LogIdentity> read_identity(BlockFile& file);

/// Copies from a list of pieces, as if they were one.
class PieceReader {
 public:
  explicit PieceReader(std::span<std::span<std::byte const> const> pieces) : pieces_(pieces) {}
  void copy(std::byte* to, std::uint64_t bytes);

 private:
  std::span<std::span<std::byte const> const> pieces_;
  std::uint64_t inside_ = 0;
};

class RedoLog {
 public:
  /// Goes on at `end`, where replay stopped; groups before `keep_from` may be written over.
  static Result<std::unique_ptr<RedoLog>> start(std::unique_ptr<BlockFile> file, LogPosition end,
                                                Lsn keep_from, LogOptions const& options = {});
  ~RedoLog();  // waits for what was appended
  RedoLog(RedoLog const&) = delete;
  RedoLog& operator=(RedoLog const&) = delete;

  /// Appends one batch, whose bytes are those of all pieces, and begins to write it. The place it
  /// returns is the batch's end. Code::no_space: the ring is full until a checkpoint truncates it.
  Result<Lsn> append(std::span<std::span<std::byte const> const> pieces);

  /// A batch whose last bytes are known later than the others, which are written meanwhile. Other
  /// batches wait for it. One that goes without end() ends the log: its place is taken.
  class Open;
  /// As append(). `pieces` and what they refer to stay.
  Result<std::unique_ptr<Open>> begin(std::span<std::span<std::byte const> const> pieces)
      PERDURE_NO_THREAD_SAFETY_ANALYSIS;
  /// Writes what lies within the first `known` bytes; from one thread at a time.
  Status write_known(Open& batch, std::uint64_t known);
  Result<Lsn> end(std::unique_ptr<Open> batch);
  /// Most bytes that a batch may have to be written at once.
  [[nodiscard]] std::uint64_t group_payload() const {
    return options_.group_bytes - sizeof(GroupHeader);
  }
  /// The next batch is not in the log, but in the checkpoint that follows: none that lacks it goes
  /// on with what comes.
  void skip_batch();
  /// Returns when everything before `lsn` is durable, or the log has failed.
  Status wait_durable(Lsn lsn);
  /// What lies before `lsn` is in a durable checkpoint. Never moves back.
  void truncate(Lsn lsn);
  /// From here on the pool says how far the log is durable, to the last whole batch; none: not any
  /// more, for it is about to be unmapped.
  void note_in(std::optional<pm::LogWord> word);

  [[nodiscard]] Lsn durable_lsn() const;
  [[nodiscard]] LogPosition position() const;
  [[nodiscard]] LogRoom room() const;
  /// So much of the ring takes a batch of `bytes` bytes, were it the next.
  [[nodiscard]] std::uint64_t room_for(std::uint64_t bytes) const;
  [[nodiscard]] Status failure() const;
  [[nodiscard]] IoMethod const& method() const { return file_->method(); }

 private:
  struct Extent {
    Lsn begin = 0, end = 0;
    Lsn batch_end = 0;  // of the last batch that ends in it; 0: none does
    bool done = false;
  };
  RedoLog(std::unique_ptr<BlockFile> file, LogIdentity const& identity, LogPosition end,
          Lsn keep_from, LogOptions const& options);
  Status begin_epoch();
  void let_go(bool whole) PERDURE_NO_THREAD_SAFETY_ANALYSIS;
  /// Where what lies at `lsn` stands; only what is not durable is needed.
  [[nodiscard]] std::byte* buffered(Lsn lsn) const {
    return buffer_.data() + lsn % options_.buffer_bytes;
  }
  std::uint64_t group_room(Lsn lsn) const;
  Lsn end_of(Lsn lsn, std::uint64_t bytes) const;
  Status check_room(std::uint64_t bytes, Lsn end) const PERDURE_REQUIRES(mutex_);
  Status wait_for_buffer(Lsn end);
  void seal(Lsn lsn, std::uint64_t payload, std::uint32_t part, bool last, std::uint64_t batch);
  void begin_writes() PERDURE_REQUIRES(mutex_);
  void complete(std::vector<Done> const& done) PERDURE_REQUIRES(mutex_);
  void note_whole() PERDURE_REQUIRES(mutex_);
  void fail(Status const& status) PERDURE_REQUIRES(mutex_);
  // A mutant alone looks at what the lock guards.
  void wake_waiters() PERDURE_NO_THREAD_SAFETY_ANALYSIS;
  void commit();

  // Constant after start().
  std::unique_ptr<BlockFile> const file_;
  LogIdentity identity_;
  LogOptions const options_;
  AlignedBuffer buffer_;  // of options_.buffer_bytes

  Mutex append_ PERDURE_ACQUIRED_BEFORE(mutex_);  // one append at a time; taken before mutex_

  mutable Mutex mutex_;  // guards the rest
  Condition changed_;
  LogPosition tail_ PERDURE_GUARDED_BY(mutex_);  // of the next batch
  Lsn keep_from_ PERDURE_GUARDED_BY(mutex_) = 0;
  Lsn durable_ PERDURE_GUARDED_BY(mutex_) = 0;
  Lsn whole_ PERDURE_GUARDED_BY(mutex_) =
      0;  // where the last batch ends that is durable as a whole
  std::optional<pm::LogWord> word_ PERDURE_GUARDED_BY(mutex_);  // that says so
  std::deque<Extent> sealed_ PERDURE_GUARDED_BY(mutex_);  // not yet being written, in order
  std::deque<Extent> flying_ PERDURE_GUARDED_BY(mutex_);  // being written, in order
  std::uint64_t first_flying_ PERDURE_GUARDED_BY(mutex_) = 0;  // tag of flying_.front()
  std::uint32_t in_flight_ PERDURE_GUARDED_BY(mutex_) = 0;  // flying_ but those done
  Status failed_ PERDURE_GUARDED_BY(mutex_);
  bool stopping_ PERDURE_GUARDED_BY(mutex_) = false;
  std::thread committer_;
};

/// Holds RedoLog::append_ from begin() to its end.
class RedoLog::Open {
 public:
  Open(RedoLog& log, std::span<std::span<std::byte const> const> pieces)
      : log_(&log), reader_(pieces) {}
  ~Open();  // by the thread that began it
  Open(Open const&) = delete;
  Open& operator=(Open const&) = delete;

 private:
  friend class RedoLog;
  RedoLog* log_;
  PieceReader reader_;
  LogPosition at_;
  Lsn end_ = 0;
  Lsn next_ = 0;  // group
  std::uint64_t written_ = 0;  // of its bytes
  std::uint64_t bytes_ = 0;
  std::uint32_t part_ = 0;
};

}  // namespace perdure::wal
