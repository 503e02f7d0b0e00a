#include "pm/value_log/writer.hpp"

#include <algorithm>
#include <utility>

#include "base/assert.hpp"
#include "base/hooks.hpp"

namespace perdure::pm {
namespace {

std::uint64_t most_bytes(LogOperation const& operation) {
  if (operation.kind == OpKind::get) return 0;
  return log_bytes(operation.key.size(),
                   operation.kind == OpKind::erase ? 0 : operation.operand.size());
}

}  // namespace

/// Whether the piece has no such hash yet; now it has.
bool LogWriter::is_new(std::uint64_t hash) {
  if (seen_.empty()) seen_.resize(2 * kPiece);
  std::size_t at = hash % seen_.size();
  while (seen_[at].round == round_ && seen_[at].hash != hash) at = (at + 1) % seen_.size();
  if (seen_[at].round == round_) return false;
  seen_[at] = {hash, round_};
  return true;
}

/// As many operations as have keys that differ, and fit.
LogWriter::Piece LogWriter::next_piece(std::span<LogOperation const> rest) {
  Piece piece;
  ++round_;
  while (piece.operations < std::min(rest.size(), kPiece)) {
    LogOperation const& operation = rest[piece.operations];
    std::uint64_t const bytes = most_bytes(operation);
    if (piece.operations > 0 && piece.bytes + bytes > appender_.most()) break;
    if (rest.size() > 1 && !is_new(operation.hash)) break;
    piece.bytes += bytes;
    ++piece.operations;
    if (bytes != 0 && operation.kind != OpKind::erase) piece.what = LogSegments::For::puts;
  }
  PERDURE_ASSERT(piece.operations > 0);
  return piece;
}

void LogWriter::run(std::span<LogOperation const> operations) {
  for (std::size_t at = 0; at < operations.size();) {
    index_->host().enters(Part::space);
    log_->segments().admit();
    auto const rest = operations.subspan(at);
    Piece piece = next_piece(rest);
    Status room = piece.bytes == 0 ? Status{} : appender_.reserve(piece.bytes, piece.what);
    if (!room.ok() && piece.operations > 1) {  // there may be room for some of them
      piece = next_piece(rest.first(1));
      room = piece.bytes == 0 ? Status{} : appender_.reserve(piece.bytes, piece.what);
    }
    if (room.ok())
      write(at, rest.first(piece.operations));
    else
      answers_->refused(at, std::move(room));
    at += piece.operations;
  }
}

void LogWriter::write(std::size_t first, std::span<LogOperation const> piece) {
  std::size_t const n = piece.size();
  LogHost& host = index_->host();
  host.enters(Part::index);
  keys_.clear();
  locked_.clear();
  for (LogOperation const& each : piece) {
    keys_.push_back(each.key);
    if (each.kind != OpKind::get) locked_.add(each.hash);
  }
  addresses_.assign(n, 0);
  pending_.assign(n, {});
  {
    KeysLocked const locked(log_->locks(), locked_);
    exec::EpochGuard const guard(index_->epochs());
    index_->find(keys_, addresses_);
    bring_near(piece);
    host.enters(Part::value);
    for (std::size_t i = 0; i < n; ++i) append(first + i, piece[i], addresses_[i], pending_[i]);
    appender_.order();
    host.enters(Part::index);
    for (std::size_t i = 0; i < n; ++i)
      if (pending_[i].record) publish(first + i, piece[i], pending_[i]);
    host.enters(Part::space);
    for (Pending const& each : pending_)
      if (each.before != 0) note_replaced(each);
  }
  appender_.settle();
}

/// The items that will be read: what gets and updates ask for, and how long the others were.
void LogWriter::bring_near(std::span<LogOperation const> piece) {
  bool const lengths = log_->segments().item_bytes() == 0;
  for (std::size_t i = 0; i < piece.size(); ++i) {
    if ((piece[i].reads() || lengths) && addresses_[i] != 0)
      index_->host().prefetch(log_->segments().base() + addresses_[i]);
  }
}

/// The item that the index has there, of which the header is read. False: none can lie there.
bool LogWriter::view(std::uint64_t address, LogRecord& item) {
  LogSegments& segments = log_->segments();
  if (!view_log_record(segments.base(), segments.pool_bytes(), Offset{address}, item)) return false;
  index_->host().read(segments.base() + address, sizeof(RecordHeader));
  return true;
}

void LogWriter::append(std::size_t i, LogOperation const& operation, std::uint64_t address,
                       Pending& pending) {
  bool const there = address != 0;
  if (!there && operation.kind != OpKind::put)
    return answers_->done(i, KeyStatus::not_found, false);
  LogSegments& segments = log_->segments();
  std::span<std::byte const> value = operation.operand;
  LogRecord item;
  if (operation.reads()) {
    if (!view(address, item)) return answers_->done(i, KeyStatus::corrupt, true);
    index_->host().read(segments.base() + address, item.bytes());
    KeyStatus const status =
        operation.kind == OpKind::get ? answers_->found(i, item) : answers_->update(i, item, value);
    if (operation.kind == OpKind::get || status != KeyStatus::ok)
      return answers_->done(i, status, true);
  }
  bool const tombstone = operation.kind == OpKind::erase;
  if (tombstone) value = {};
  pending.sequence = log_->next_sequence();
  // Only the index is told. The address is that of what the key had.
  if (tombstone && mutated("vlog_tombstone_left_out")) {
    pending.record = Offset{address};
    return;
  }
  pending.bytes = log_bytes(operation.key.size(), value.size());
  pending.record = appender_.append(operation.key, value, pending.sequence, tombstone);
}

void LogWriter::publish(std::size_t i, LogOperation const& operation, Pending& pending) {
  std::uint64_t& before = pending.before;
  if (operation.kind == OpKind::erase) {
    before = index_->erase(operation.key);
  } else if (Status put = index_->put(operation.key, pending.record.bytes, before); !put.ok()) {
    appender_.cancel(pending.record, pending.bytes);
    return answers_->refused(i, std::move(put));
  }
  answers_->done(i, KeyStatus::ok, before != 0);
}

void LogWriter::note_replaced(Pending const& pending) {
  LogSegments& segments = log_->segments();
  std::uint64_t bytes = segments.item_bytes();
  if (bytes == 0) {
    LogRecord item;
    if (!view(pending.before, item)) return;
    bytes = item.bytes();
  }
  segments.note_outdated(Offset{pending.before}, bytes, pending.sequence);
}

}  // namespace perdure::pm
