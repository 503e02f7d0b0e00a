// One thread's operations on an index whose items lie in a value log, in pieces. A piece locks its
// keys, looks them up, appends what the operations write, makes all of it durable by one fence, and
// then publishes it. Invariants: whatever an index shows, and whatever has been answered, is
// durable before; a record is appended only if its operation takes effect; a tombstone is durable
// before its key's entry goes; no piece has a key twice.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "perdure/batch.h"
#include "perdure/status.h"
#include "pm/value_log/appender.hpp"
#include "pm/value_log/value_log.hpp"

namespace perdure::pm {

struct LogOperation {
  OpKind kind = OpKind::get;
  LogKey key;
  std::span<std::byte const> operand;  // put: the value; update: its operand
  std::uint64_t hash = 0;  // of the key
  bool computes = true;  // an update's new value, from the old one; else it is the operand

  [[nodiscard]] bool reads() const {
    return kind == OpKind::get || (kind == OpKind::update && computes);
  }
};

/// Who asked. Each operation is answered once.
class LogAnswers {
 public:
  LogAnswers() = default;
  LogAnswers(LogAnswers const&) = delete;
  LogAnswers& operator=(LogAnswers const&) = delete;
  virtual ~LogAnswers() = default;

  /// Of an operation that has taken effect, whether the key was there before.
  virtual void done(std::size_t i, KeyStatus status, bool was_there) = 0;
  virtual void refused(std::size_t i, Status why) = 0;
  /// A get found this; how it is answered.
  virtual KeyStatus found(std::size_t i, LogRecord const& item) = 0;
  /// An update's new value, in `value`, which has the operand already; anything but ok: it changes
  /// nothing, and that is the answer.
  virtual KeyStatus update(std::size_t i, LogRecord const& item,
                           std::span<std::byte const>& value) = 0;
};

class LogWriter {
 public:
  /// `index` is this thread's.
  LogWriter(ValueLog& log, LogIndex& index, LogAnswers& answers)
      : log_(&log), index_(&index), answers_(&answers), appender_(log.segments(), index.host()) {}
  LogWriter(LogWriter const&) = delete;
  LogWriter& operator=(LogWriter const&) = delete;
  ~LogWriter() { log_->note_appended(appender_.appended_bytes()); }

  /// In order. The caller holds no EpochGuard.
  void run(std::span<LogOperation const> operations);

 private:
  static constexpr std::size_t kPiece = PieceKeys::kMost;  // operations between two fences
  struct Pending {
    Offset record;  // 0: it writes nothing
    std::uint64_t bytes = 0;
    std::uint64_t sequence = 0;
    std::uint64_t before = 0;  // the item that it replaced
  };
  struct Piece {
    std::size_t operations = 0;
    std::uint64_t bytes = 0;
    LogSegments::For what = LogSegments::For::tombstones;
  };

  bool is_new(std::uint64_t hash);
  void bring_near(std::span<LogOperation const> piece);
  bool view(std::uint64_t address, LogRecord& item);
  Piece next_piece(std::span<LogOperation const> rest);
  void write(std::size_t first, std::span<LogOperation const> piece);
  void append(std::size_t i, LogOperation const& operation, std::uint64_t address,
              Pending& pending);
  void publish(std::size_t i, LogOperation const& operation, Pending& pending);
  void note_replaced(Pending const& pending);

  ValueLog* log_;
  LogIndex* index_;
  LogAnswers* answers_;
  LogAppender appender_;
  // The hashes of a piece, in a table that a new round empties; never more than half full.
  struct Seen {
    std::uint64_t hash = 0;
    std::uint64_t round = 0;
  };
  std::vector<Seen> seen_;  // none until a piece has two operations
  std::uint64_t round_ = 0;
  // Of a piece, for their memory.
  PieceKeys locked_;
  std::vector<LogKey> keys_;
  std::vector<std::uint64_t> addresses_;
  std::vector<Pending> pending_;
};

}  // namespace perdure::pm
