// The undo log of batches that are transactions: before the transaction first stores to a line that
// was there, the log has what it held. So recovery puts back each line once, in any order. One
// transaction at a time, several threads of it at once, each with chunks of its own. (wal/undo_log
// is for kernels: slots of a number known before, one log word an operation. gpm's logs are the
// user's.)
//
// Invariants: an entry is flushed and fenced before its line is stored to; the number of the last
// transaction that ended (pool_format.hpp) rises only when all that it stored is in memory; entries
// of another number are nothing. Who has an entry's line has its lock, or is alone.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/assert.hpp"
#include "base/mutex.hpp"
#include "base/offset.hpp"
#include "perdure/status.h"
#include "pm/host_verbs.hpp"
#include "pm/lines.hpp"
#include "pm/pool.hpp"
#include "pm/transaction/format.hpp"
#include "pm/transaction/line_stamps.hpp"

namespace perdure::pm {

class UndoLines {
 public:
  /// `memory` guards the pool, and whatever else takes from it.
  UndoLines(Pool& pool, Mutex& memory);
  UndoLines(UndoLines const&) = delete;
  UndoLines& operator=(UndoLines const&) = delete;

  /// Of a new pool; the root names it afterwards.
  Status create();
  /// Of a pool that is opened: claims the superblocks that the root leads to.
  Status attach();
  /// Before that, where it is damaged: puts headers right, durably, and finds again what a link
  /// lost. What was done, a line each.
  std::vector<std::string> mend();
  /// Whether a pool has one.
  [[nodiscard]] static bool is_in(Pool const& pool) {
    return pool.root().find(kUndoLines) != nullptr;
  }

  /// Number of the last transaction that ended.
  [[nodiscard]] std::uint64_t ended() const;
  /// Puts back what the transaction that has not ended stored to, and ends it: how many lines. The
  /// log keeps kMostKept superblocks at most.
  Result<std::uint64_t> undo();
  static constexpr std::uint64_t kMostKept = 4;

  /// Nobody else is in one.
  void begin() { open_ = ended() + 1; }
  /// What it stored stays. All threads of it are done, and what they stored has been flushed.
  void commit();
  [[nodiscard]] std::uint64_t transaction() const { return open_; }

  [[nodiscard]] LineStamps const& stamps() const { return stamps_; }
  [[nodiscard]] DurableRange const& pool() const { return range_; }
  [[nodiscard]] std::uint64_t offset_of(void const* at) const {
    return static_cast<std::uint64_t>(static_cast<std::byte const*>(at) - base_);
  }
  /// A line that belongs to whoever the transactions are of.
  [[nodiscard]] std::uint64_t* state() const {
    return reinterpret_cast<std::uint64_t*>(base_ + superblocks_.front() + kUndoState);
  }
  /// Of the log itself.
  [[nodiscard]] std::uint64_t superblocks() const { return superblocks_.size(); }

  /// Where a thread writes its next entry.
  struct Cursor {
    std::byte* at = nullptr;
    std::byte* end = nullptr;
  };
  /// One that another thread of the transaction left, or none yet.
  [[nodiscard]] Cursor take_cursor();
  void give_cursor(Cursor cursor);
  /// The beginning of a chunk that nobody writes. Throws NoRoom where the pool has none: then
  /// the transaction has to be undone.
  [[nodiscard]] Cursor next_chunk();
  [[nodiscard]] UndoLine entry_of(std::uint64_t line) const;

 private:
  Status add_superblock() PERDURE_REQUIRES(mutex_);
  [[nodiscard]] UndoRoomHeader header_at(std::uint64_t at) const;
  /// Whether a link may lead there: to a superblock of the log, if perhaps one of a damaged header.
  [[nodiscard]] bool may_follow(std::uint64_t at, std::vector<std::uint64_t> const& chain) const;
  void store_next(std::uint64_t at, std::uint64_t next);
  void shrink();
  [[nodiscard]] std::uint64_t chunks_each() const {
    return (pool_->superblock_bytes() - kFirstChunk) / kChunkBytes;
  }
  [[nodiscard]] std::byte* chunk(std::uint64_t number) const;
  [[nodiscard]] bool read_live(std::byte const* at, std::uint64_t transaction,
                               UndoLine& entry) const;
  /// Puts back what a chunk's live entries say.
  Status undo_chunk(std::byte const* at, std::uint64_t transaction, std::uint64_t& lines);
  void end(std::uint64_t transaction);

  Pool* pool_;
  Mutex* memory_;
  std::byte* base_;
  DurableRange range_;
  LineStamps stamps_;
  std::uint64_t open_ = 0;
  std::vector<std::uint64_t> superblocks_;  // changes under mutex_
  Mutex mutex_;
  std::uint64_t next_chunk_ PERDURE_GUARDED_BY(mutex_) = 0;
  std::vector<Cursor> cursors_ PERDURE_GUARDED_BY(mutex_);  // of chunks that have room
};

/// What one thread of a transaction logs.
class UndoWriter {
 public:
  explicit UndoWriter(UndoLines& log)
      : log_(&log), transaction_(log.transaction()), cursor_(log.take_cursor()) {}
  UndoWriter(UndoWriter const& other) : UndoWriter(*other.log_) {}
  UndoWriter& operator=(UndoWriter const&) = delete;
  ~UndoWriter() {
    bool const ended = log_->transaction() != transaction_;  // another begins at other entries
    if (cursor_.at != cursor_.end && !ended) log_->give_cursor(cursor_);
  }

  /// The line at `at` is about to be stored to; whether there is an entry to be fenced before.
  template <class Host>
  bool note(Host& host, void const* at) {
    std::uint64_t const line = log_->offset_of(at) / kCacheLine * kCacheLine;
    if (!log_->stamps().first(line, log_->transaction())) return false;
    if (mutated("undo_line_not_logged")) return false;
    log(host, line);
    return true;
  }
  /// Of a line that the transaction has not logged.
  template <class Host>
  void log(Host& host, std::uint64_t line) {
    PERDURE_ASSERT(log_->transaction() == transaction_);
    if (cursor_.at == cursor_.end) cursor_ = log_->next_chunk();
    UndoLine const entry = log_->entry_of(line);
    write_bytes(cursor_.at, &entry, sizeof entry);
    host.flush(cursor_.at, sizeof entry);
    cursor_.at += sizeof entry;
  }

 private:
  UndoLines* log_;
  std::uint64_t transaction_;
  UndoLines::Cursor cursor_;
};

}  // namespace perdure::pm
