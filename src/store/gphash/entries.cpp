#include "store/gphash/entries.hpp"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <optional>
#include <vector>

#include "base/assert.hpp"
#include "base/crc32c.hpp"
#include "base/hooks.hpp"
#include "pm/heap_headers.hpp"
#include "store/gphash/write.hpp"

namespace perdure {
namespace {

// A log is long when it has so many cells for each that its keys need, and some more: then they are
// written anew, and the rest goes.
#if defined(PERDURE_EXPLORE)
constexpr std::uint64_t kLong = 1, kFewCells = 8;  // so that runs of a few batches come to it
#else
constexpr std::uint64_t kLong = 3, kFewCells = 1u << 16;
#endif

constexpr std::uint64_t kReplayed = 1u << 20;  // entries put into the table at a time

}  // namespace

// ------------------------------------------------------------------------------------------------
// Writing

bool Entries::is_long() const {
  return core_.entries.used() > kLong * core_.counters.records() + kFewCells;
}

Status Entries::make_room(std::uint64_t operations) {
  PERDURE_ASSERT(core_.logged() && core_.is_exclusive());
  if (is_long()) {
    if (Status s = copy(); !s.ok()) return s;
  }
  // This batch, and a copy of all keys that there are then.
  std::uint64_t const cells =
      operations + 2 * wal::kHeadCells + core_.counters.records() + operations;
  if (core_.entries.room() >= cells) return {};
  Status s = core_.entries.reserve(cells);
  core_.pool_may_have_grown();
  if (s.code() == Code::no_space && core_.entries.used() > core_.counters.records() + kFewCells) {
    if (Status copied = copy(); !copied.ok()) return copied;
    s = core_.entries.reserve(cells);
  }
  if (s.ok()) return s;
  return {s.code(), "the log of its entries: " + s.message()};
}

void Entries::show_room(std::uint64_t operations, Reservation& reservation) const {
  reservation.segments = core_.entries.segments_for(operations);
  reservation.entries = core_.entries.next();
}

void Entries::seal(WriteBatch const& batch) {
  PERDURE_ASSERT(batch.sequence == core_.sequence);
  core_.entries.seal(batch.sequence, batch.call.keys.count, wal::ExtentKind::batch,
                     batch.done[BatchCounts::entry_sum]);
}

/// Writes an entry for each key anew; all that was there before goes.
Status Entries::copy() {
  wal::EntryLog& log = core_.entries;
  std::uint64_t const records = core_.counters.records();
  if (Status s = log.reserve(records); !s.ok()) return s;
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

Status Entries::make_table() {
  PERDURE_ASSERT(core_.logged() && core_.table.slots() == 0);
  // What the log holds at most; it may be a third of that.
  std::uint64_t const segments = core_.entries.segments();
  std::uint64_t const keys = segments * core_.entries.cells_each() / kLong;
  pm::PoolHeader const& h = core_.pool.header();
  std::uint32_t const top = gphash::top_level_for({h.levels, h.hashes, h.slots}, keys, 1.0);
  return core_.table.create(top, core_.workers);
}

bool Entries::record_whole(wal::LogEntry const& entry, std::uint64_t number) const {
  Offset const at = wal::record_of(entry);
  gphash::TableView const& view = core_.table.view();
  // The header of a superblock that was taken for it may be what is missing.
  if (!pm::HeapHeaders(core_.pool).has_record(at, core_.fixed_stride())) return false;
  pm::RecordView const r = pm::view_record(core_.pool.base(), view.records, at, view.room(at));
  auto const sum = [](std::uint32_t crc, std::byte const* data, std::size_t bytes) {
    return crc32c(crc, data, bytes);
  };
  return static_cast<std::uint32_t>(r.header.sequence) == static_cast<std::uint32_t>(number) &&
         r.header.key_bytes == view.key_bytes &&
         hash_detail::load_tail(r.key, view.key_bytes) == entry.key &&
         pm::record_sum(r, r.value, sum) == r.header.crc;
}

/// What one ordering point leaves of a batch may be its entries without all of its records.
bool Entries::records_whole(Extent const& extent) const {
  if (extent.kind != wal::ExtentKind::batch || mutated("last_records_not_checked")) return true;
  std::vector<wal::LogEntry> entries(extent.entries);
  core_.entries.copy(extent, 0, entries);
  return std::ranges::all_of(entries, [&](wal::LogEntry const& entry) {
    bool const puts = entry.what != 0 && (entry.what & wal::kErases) == 0;
    return !puts || record_whole(entry, extent.number);
  });
}

namespace {

/// Of an operation that changed nothing.
bool says_nothing(wal::LogEntry const& entry) { return entry.what == 0; }

/// Collects entries of extents, and puts them into the table, many at a time.
class Replay {
 public:
  Replay(Core& core, BatchWriter& writer)
      : core_(core),
        writer_(writer),
        waiting_(std::min(kReplayed, core.entries.segments() * core.entries.cells_each())) {}

  Status add(wal::EntryLog::Extent const& extent) {
    for (std::uint64_t from = 0; from < extent.entries;) {
      std::uint64_t const n = std::min(waiting_.size() - count_, extent.entries - from);
      take(extent, from, n);
      from += n;
      if (count_ < waiting_.size()) continue;
      if (Status s = put_into_table(); !s.ok()) return s;
    }
    return {};
  }

  Status put_into_table() {
    auto const entries = std::span(waiting_).first(count_);
    if (mutated("entries_replayed_backwards")) std::ranges::reverse(entries);
    std::size_t n = count_;
    if (gaps_.exchange(false)) {
      n -= std::ranges::remove_if(entries, says_nothing).size();
    }
    count_ = 0;
    return n == 0 ? Status{} : writer_.replay(entries.first(n), arrays_);
  }

 private:
  void take(wal::EntryLog::Extent const& extent, std::uint64_t from, std::uint64_t n) {
    core_.workers.for_chunks(n, kChunk, [&](std::size_t begin, std::size_t end) {
      auto const to = std::span(waiting_).subspan(count_ + begin, end - begin);
      core_.entries.copy(extent, from + begin, to);
      if (std::ranges::any_of(to, says_nothing)) gaps_ = true;
    });
    count_ += n;
  }

  static constexpr std::size_t kChunk = 1u << 14;

  Core& core_;
  BatchWriter& writer_;
  std::vector<wal::LogEntry> waiting_;
  std::size_t count_ = 0;  // of them
  std::atomic<bool> gaps_{false};  // some of these say nothing
  ReplayArrays arrays_;
};

}  // namespace

Status Entries::replay(BatchWriter& writer) {
  wal::EntryLog& log = core_.entries;
  Replay replay(core_, writer);
  std::optional<Extent> last;
  auto const named = [&](Status const& s) {
    return s.ok() ? s : Status{s.code(), "pool " + core_.path + ": " + s.message()};
  };
  Status const read = log.read(core_.workers, [&](Extent const& extent) -> Status {
    Status const s = last ? replay.add(*last) : Status{};
    last = extent;
    return s;
  });
  if (!read.ok()) return named(read);
  if (last && !records_whole(*last)) {
    log.drop_last();
    ++core_.recovery.dropped;
    core_.recovery.why_dropped = "the last batch was half written";
  } else if (last) {
    if (Status s = replay.add(*last); !s.ok()) return named(s);
  }
  return named(replay.put_into_table());
}

}  // namespace perdure
