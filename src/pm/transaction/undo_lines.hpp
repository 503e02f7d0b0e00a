// The undo log of batches that are transactions: before the transaction first stores to a word that
// was there, the log has what it held. So recovery puts back each word once, in any order. One
// transaction at a time, several threads of it at once, each with chunks of its own. (wal/undo_log
// is for kernels: slots of a number known before, one log word an operation. gpm's logs are the
// user's.)
//
// What a small batch costs is lines that are flushed. So an entry is one line, and has the words
// that change rather than the lines that they lie in: of one line, or of several where it is known
// that all of them change.
//
// Invariants: an entry is flushed and fenced before its words are stored to; the number of the last
// transaction that ended (pool_format.hpp) rises only when all that it stored is in memory; entries
// of another number are nothing. Who has an entry's words has their lock, or is alone.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
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
  /// Puts back what the transaction that has not ended stored to, and ends it: how many pieces of
  /// lines. The log keeps kMostKept superblocks at most.
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
    PERDURE_ASSERT(state_ != nullptr);
    return state_;
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
  /// What words of a line hold now: a piece of an entry, from `at` on; where the next one begins.
  std::uint64_t* append_piece(std::uint64_t* at, UndoPiece const& piece) const;
  void seal(UndoEntry& entry) const;

 private:
  Status add_superblock() PERDURE_REQUIRES(mutex_);
  void keep_superblock(std::uint64_t at);
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
                               UndoEntry& entry) const;
  /// Puts back what a chunk's live entries say, or one of them does.
  Status undo_chunk(std::byte const* at, std::uint64_t transaction, std::uint64_t& pieces);
  Status undo_entry(UndoEntry const& entry, std::uint64_t& pieces);
  void end(std::uint64_t transaction);

  Pool* pool_;
  Mutex* memory_;
  std::byte* base_;
  DurableRange range_;
  LineStamps stamps_;
  std::uint64_t open_ = 0;
  std::uint64_t* state_ = nullptr;  // in the first superblock, which stays; read without mutex_
  std::vector<std::uint64_t> superblocks_;  // changes under mutex_
  Mutex mutex_;
  std::uint64_t next_chunk_ PERDURE_GUARDED_BY(mutex_) = 0;
  std::vector<Cursor> cursors_ PERDURE_GUARDED_BY(mutex_);  // of chunks that have room
};

/// What one thread of a transaction logs. Pieces gather in an entry until it is full, or finish()
/// writes it.
class UndoWriter {
 public:
  explicit UndoWriter(UndoLines& log)
      : log_(&log), transaction_(log.transaction()), cursor_(log.take_cursor()) {}
  UndoWriter(UndoWriter const& other) : UndoWriter(*other.log_) {}
  UndoWriter& operator=(UndoWriter const&) = delete;
  ~UndoWriter() {
    bool const ended = log_->transaction() != transaction_;  // another begins at other entries
    for (UndoLines::Cursor const cursor : {cursor_, spare_})
      if (cursor.at != cursor.end && !ended) log_->give_cursor(cursor);
  }

  /// The word at `at` is about to be stored to; whether there is an entry to be fenced before. The
  /// pairs behind it, for which the entry has room, are likely to be next.
  template <class Host>
  bool note(Host& host, void const* at) {
    std::uint64_t const offset = log_->offset_of(at), line = offset / kCacheLine * kCacheLine;
    unsigned const open = log_->stamps().open(line, log_->transaction());
    auto const pair = static_cast<unsigned>(offset % kCacheLine / LineStamps::kPair);
    if ((open >> pair & 1) == 0) return false;
    PERDURE_ASSERT(!pending());
    unsigned pairs = 0;
    for (unsigned i = 0; i < kPairsAtOnce; ++i) pairs |= 1u << (pair + i) % LineStamps::kPairs;
    add_pairs(host, line, pairs & open);
    return finish(host);
  }
  /// Of all that lies there, the pairs that the transaction has not logged.
  template <class Host>
  void add(Host& host, void const* at, std::size_t bytes) {
    if (bytes == 0) return;
    std::uint64_t const from = log_->offset_of(at), to = from + bytes;
    for (std::uint64_t line = from / kCacheLine * kCacheLine; line < to; line += kCacheLine) {
      unsigned pairs = 0;
      for (unsigned i = 0; i < LineStamps::kPairs; ++i) {
        std::uint64_t const pair = line + i * LineStamps::kPair;
        if (pair + LineStamps::kPair > from && pair < to) pairs |= 1u << i;
      }
      add_pairs(host, line, pairs & log_->stamps().open(line, log_->transaction()));
    }
  }
  /// Of words that the transaction has not logged.
  template <class Host>
  void add_words(Host& host, UndoPiece rest) {
    PERDURE_ASSERT(log_->transaction() == transaction_);
    make_room(host);
    while (rest.words != 0) {
      if (room() < 2) write(host);  // a head, and a word at least
      UndoPiece piece{rest.line, 0};
      for (; rest.words != 0 && piece.count() + 1 < room(); rest.words &= rest.words - 1)
        piece.words |= rest.words & ~(rest.words - 1);
      end_ = log_->append_piece(end_, piece);
    }
  }
  /// Whether anything was logged since the last time, which is to be fenced.
  template <class Host>
  bool finish(Host& host) {
    if (pending()) write(host);
    return std::exchange(written_, false);
  }

 private:
  static constexpr unsigned kPairsAtOnce = (UndoEntry::kRoom - 1) / 2;
  // Entries for eight words: the rest of one, one of six words, and another.
  static constexpr std::ptrdiff_t kMostOfALine = 3;

  [[nodiscard]] bool pending() const { return end_ != entry_.pieces.data(); }
  [[nodiscard]] unsigned room() const {
    return static_cast<unsigned>(entry_.pieces.data() + UndoEntry::kRoom - end_);
  }
  template <class Host>
  void add_pairs(Host& host, std::uint64_t line, unsigned pairs) {
    if (pairs == 0) return;
    if (!mutated("undo_line_closed_without_room")) make_room(host);
    log_->stamps().close(line, pairs, log_->transaction());
    unsigned words = 0;
    for (unsigned i = 0; i < LineStamps::kPairs; ++i) words |= (pairs >> i & 1) * (3u << 2 * i);
    if (!mutated("undo_line_not_logged")) add_words(host, {line, words});
  }
  /// For what a line may take, before any of it counts as logged. Who finds no room lets its locks
  /// go, and others come upon these lines: so what counts is in the log by then.
  template <class Host>
  void make_room(Host& host) {
    if (entries_left(cursor_) + entries_left(spare_) >= kMostOfALine) return;
    try {
      spare_ = log_->next_chunk();
    } catch (...) {
      if (finish(host)) host.fence();
      throw;
    }
  }
  static std::ptrdiff_t entries_left(UndoLines::Cursor const& cursor) {
    return (cursor.end - cursor.at) / static_cast<std::ptrdiff_t>(sizeof(UndoEntry));
  }
  template <class Host>
  void write(Host& host) {
    if (cursor_.at == cursor_.end) cursor_ = std::exchange(spare_, {});
    PERDURE_ASSERT(cursor_.at != cursor_.end);  // make_room() has seen to it
    std::fill(end_, entry_.pieces.data() + UndoEntry::kRoom, 0);
    log_->seal(entry_);
    write_bytes(cursor_.at, &entry_, sizeof entry_);
    host.flush(cursor_.at, sizeof entry_);
    cursor_.at += sizeof entry_;
    end_ = entry_.pieces.data();
    written_ = true;
  }

  UndoLines* log_;
  std::uint64_t transaction_;
  UndoLines::Cursor cursor_, spare_;  // what is written to, and what comes then
  UndoEntry entry_{};
  std::uint64_t* end_ = entry_.pieces.data();  // of its pieces
  bool written_ = false;  // an entry, since the last finish()
};

}  // namespace perdure::pm
