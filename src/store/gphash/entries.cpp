#include "store/gphash/entries.hpp"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <optional>
#include <ranges>
#include <vector>

#include "base/assert.hpp"
#include "base/crc32c.hpp"
#include "base/hooks.hpp"
#include "pm/heap_headers.hpp"
#include "pm/host_verbs.hpp"
#include "pm/record.hpp"
#include "store/gphash/write.hpp"

namespace perdure {
namespace {

#if defined(PERDURE_EXPLORE)
constexpr std::uint64_t kFewBytes = 128;
constexpr std::uint64_t kReplayed = 6;  // so that entries meet a table that has some already
#else
constexpr std::uint64_t kFewBytes = 1u << 20;
constexpr std::uint64_t kReplayed = 1u << 21;  // operations put into the table at a time
#endif

constexpr std::size_t kChecked = 1u << 10;     // values that a worker looks at

}  // namespace

// ------------------------------------------------------------------------------------------------
// Writing

std::uint64_t Entries::few_cells() const { return kFewBytes / core_.entries.cell_bytes(); }

bool Entries::is_long() const {
  return core_.entries.used() > kLong * core_.counters.records() + few_cells();
}

/// It would make durable what the table has of a transaction that is open.
bool Entries::may_copy() const {
  return core_.entries.parts().empty() || mutated("copy_swallows_parts");
}

Status Entries::make_room(std::uint64_t operations) {
  PERDURE_ASSERT(core_.logged() && core_.is_exclusive());
  if (may_copy() && is_long()) {
    if (Status s = copy(); !s.ok()) return s;
  }
  // This batch, the commit of its transaction with its entry, and a copy of all keys that there are
  // then.
  std::uint64_t const cells =
      operations + 3 * core_.entries.head_cells() + 1 + core_.counters.records() + operations;
  Status s = core_.entries.room() >= cells ? Status{} : core_.entries.reserve(cells);
  core_.pool_may_have_grown();
  bool const shortens = core_.entries.used() > core_.counters.records() + few_cells();
  if (s.code() == Code::no_space && shortens && may_copy()) {
    if (Status copied = copy(); !copied.ok()) return copied;
    s = core_.entries.reserve(cells);
  }
  if (s.ok() && core_.fixed_stride() == 0) claim_share();
  if (s.ok()) return s;
  return {s.code(), "the log of its entries: " + s.message()};
}

/// Of a pool whose heap does not know how large records will be, and so would take all of it: then
/// no log could be made short, and what erasures make free would be of no use. Segments go as a
/// whole, and a copy begins in the last one. As many as there are to be had.
void Entries::claim_share() {
  wal::EntryLog& log = core_.entries;
  std::uint64_t const share = kCellsARecord * core_.counters.records() + 2 * log.cells_each();
  while (log.used() + log.room() < share && log.reserve(log.room()).ok()) {
  }
  core_.pool_may_have_grown();
}

void Entries::show_room(WriteBatch const& batch, Reservation& reservation) const {
  reservation.undoable = batch.undoable;
  reservation.segments =
      core_.entries.segments_for(batch.call.keys.count * (batch.undoable ? 2 : 1));
  reservation.entries = core_.entries.next();
}

void Entries::seal(WriteBatch const& batch, wal::ExtentKind kind) {
  PERDURE_ASSERT(batch.sequence == core_.sequence);
  std::uint64_t const n = batch.call.keys.count;
  core_.entries.seal(batch.sequence, kind == wal::ExtentKind::part ? 2 * n : n, kind,
                     batch.done[BatchCounts::entry_sum]);
}

/// All parts have been ordered.
void Entries::commit(std::uint64_t undo_number) {
  core_.entries.commit(core_.next_sequence(), undo_number, core_.workers);
  if (!mutated("no_order_after_commit")) pm::order();
}

/// Writes an entry for each key anew; all that was there before goes.
Status Entries::copy() {
  wal::EntryLog& log = core_.entries;
  std::uint64_t const records = core_.counters.records();
  // Where nothing is left to write, there is still a segment in which that would be.
  if (Status s = log.reserve(std::max<std::uint64_t>(records, 1)); !s.ok()) return s;
  wal::EntryLog::Mark const mark = log.mark();
  auto copied = core_.engine->copy_entries(log.segments_for(records), log.next());
  if (!copied) return core_.health.fail(copied.status());
  PERDURE_ASSERT((*copied)[BatchCounts::entries] == records);
  log.seal(core_.next_sequence(), records, wal::ExtentKind::copy,
           (*copied)[BatchCounts::entry_sum]);
  log.release_before(mark);  // which orders the copy first
  core_.counters.add(*copied);
  return {};
}

// ------------------------------------------------------------------------------------------------
// Opening

Status Entries::named(Status const& s) const {
  return s.ok() ? s : Status{s.code(), "pool " + core_.path + ": " + s.message()};
}

/// Of a record that lies whole. Its checksum covers its lengths and its number, and the entry has a
/// part of that; so a record that was there before is not taken for it, however whole.
bool Entries::record_whole(wal::LogEntry const& entry) const {
  Offset const at = wal::record_of(entry.what);
  std::uint64_t const room = pm::HeapHeaders(core_.pool).room(at);
  if (room == 0) return false;
  pm::RecordView const r = pm::view_whole(core_.pool.base() + at.bytes, room);
  auto const sum = [](std::uint32_t crc, std::byte const* data, std::size_t bytes) {
    return crc32c(crc, data, bytes);
  };
  bool const hashes = core_.pool.header().logs_hashes();
  bool const its_key = !hashes || hash_bytes(r.key, r.header.key_bytes) == entry.key;
  bool const its = its_key && pm::short_sum(r.header.crc) == wal::value_sum_of(entry.what);
  bool const whole = pm::record_sum(r, r.value, sum) == r.header.crc;
  return (its || mutated("last_records_may_be_older")) &&
         (whole || mutated("last_records_known_by_their_heads"));
}

bool Entries::value_whole(wal::LogEntry const& entry) const {
  if (!pm::RecordShape(core_.pool.header()).bare()) return record_whole(entry);
  Offset const at = wal::record_of(entry.what);
  // The header of a superblock that was taken for it may be what is missing.
  if (!pm::HeapHeaders(core_.pool).has_record(at, core_.fixed_stride())) return false;
  std::byte const* const value = core_.pool.base() + at.bytes;
  std::uint32_t const bytes = core_.pool.header().value_bytes;
  pm::will_read(value, bytes);
  return pm::short_sum(crc32c(0, value, bytes)) == wal::value_sum_of(entry.what);
}

/// What one ordering point leaves of a batch may be its entries without all of its values.
bool Entries::values_whole(Extent const& extent) const {
  if (extent.kind != wal::ExtentKind::batch || mutated("last_records_not_checked")) return true;
  std::uint64_t const each = core_.entries.cell_bytes();
  std::vector<std::byte> entries(extent.entries * each);
  core_.entries.copy(extent, 0, entries);
  std::atomic<bool> whole{true};
  core_.workers.for_chunks(extent.entries, kChecked, [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) {
      wal::LogEntry entry;
      std::memcpy(&entry, &entries[i * each], sizeof entry);
      if (wal::says_put(entry.what) && !value_whole(entry)) whole = false;
    }
  });
  return whole;
}

namespace {

/// Collects cells of the log, extent by extent, and puts them into the table, many at a time.
class Replay {
 public:
  Replay(Core& core, BatchWriter& writer)
      : core_(core),
        writer_(writer),
        many_(kReplayed / (core.pool.header().logs_hashes() ? 2 : 1)) {}  // two operations each

  Status add(wal::EntryLog::Extent const& extent) {
    for (std::uint64_t done = 0; done < extent.entries;) {
      go_to(extent.first + done);
      std::uint64_t const n =
          std::min(many_ - std::min(many_, end_ - begin_), extent.entries - done);
      end_ += n;
      done += n;
      if (end_ - begin_ < many_) continue;
      if (Status s = put_into_table(); !s.ok()) return s;
    }
    return {};
  }

  Status put_into_table() {
    if (begin_ == end_) return {};
    wal::EntryLog const& log = core_.entries;
    CellsToReplay const cells{log.segments_of(begin_, end_), log.region_at(begin_), end_ - begin_,
                              heads_, log.id()};
    Status done = writer_.replay(cells);
    heads_.clear();
    begin_ = end_;
    return done;
  }

 private:
  /// Between there and what has been collected are the heads of extents, and what undoes parts: it
  /// is passed over as if it were heads, the last of which may overlap.
  void go_to(std::uint64_t position) {
    if (begin_ == end_) begin_ = end_ = position;
    std::uint64_t const cells = core_.entries.head_cells();
    PERDURE_ASSERT(end_ == position || end_ + cells <= position);
    while (end_ < position) {
      std::uint64_t const head = std::min(end_, position - cells);
      heads_.push_back(static_cast<std::uint32_t>(head - begin_));
      end_ = head + cells;
    }
  }

  Core& core_;
  BatchWriter& writer_;
  std::uint64_t const many_;  // cells
  std::uint64_t begin_ = 0, end_ = 0;  // cells that wait
  std::vector<std::uint32_t> heads_;  // among them
};

}  // namespace

Status Entries::replay(BatchWriter& writer) {
  wal::EntryLog& log = core_.entries;
  Replay replay(core_, writer);
  std::optional<Extent> last;
  Status const read = log.read(core_.workers, [&](Extent const& extent) -> Status {
    Status const s = last ? replay.add(*last) : Status{};
    last = extent;
    return s;
  });
  if (!read.ok()) return named(read);
  // What a transaction follows was ordered before.
  bool const is_last = log.parts().empty();
  for (Extent const& part : log.parts()) core_.recovery.undone += part.entries / 2;
  // An orderly close ordered all of them: one that is not whole has been damaged since.
  bool const closed = core_.pool.root().clean == 1;
  bool const ordered = closed || log.last_was_ordered();
  if (last && is_last && !ordered && !values_whole(*last)) {
    log.drop_last();
    ++core_.recovery.dropped;
    core_.recovery.why_dropped = "the last batch was half written";
  } else if (last && !(log.in_session() && mutated("session_needs_its_end"))) {
    if (Status s = replay.add(*last); !s.ok()) return named(s);
  }
  return named(replay.put_into_table());
}

Status Entries::undo_batch(BatchWriter& writer, std::uint64_t operations) {
  wal::EntryLog const& log = core_.entries;
  std::uint64_t const at = log.mark().position + log.head_cells() + operations;
  return writer.replay(
      {log.segments_of(at, at + operations), log.region_at(at), operations, {}, log.id()});
}

Status Entries::undo_parts(BatchWriter& writer) {
  wal::EntryLog const& log = core_.entries;
  for (Extent const& part : log.parts() | std::views::reverse) {
    std::uint64_t const n = part.entries / 2, at = part.first + n;
    Status const s =
        writer.replay({log.segments_of(at, at + n), log.region_at(at), n, {}, log.id()});
    if (!s.ok()) return s;
  }
  return {};
}

}  // namespace perdure
