#include "lsm/rocks/writer.hpp"

#include <algorithm>
#include <cstring>
#include <new>
#include <optional>
#include <thread>
#include <utility>

#include "exec/range.hpp"
#include "lsm/rocks/column_entries.hpp"
#include "lsm/rocks/payload.hpp"
#include "lsm/rocks/single_deletes.hpp"
#include "lsm/rocks/status.hpp"

namespace perdure::lsm {

namespace {

/// What RocksDB gets as one write of its own, while other writers wait: that takes a few
/// milliseconds, and no flush.
constexpr std::uint64_t kHandedOverAtOnce = 2000;
constexpr std::uint64_t kBytesAtOnce = std::uint64_t{1} << 20;
/// Fewer operations are no batch, and RocksDB's own way is theirs whatever is read meanwhile.
constexpr std::uint64_t kCountReadsFrom = 256;
/// Keys that reads find in memtables before they are idle: these keep them as a large batch does.
constexpr std::uint64_t kManyHits = 10'000;

/// Bytes of columns from which they are written by themselves, by all workers.
constexpr std::uint64_t kAlone = 32u << 20;
/// Bytes of batches that a worker takes at once: fewer are not worth another thread.
constexpr std::uint64_t kTakenAtOnce = 32u << 10;

}  // namespace

/// A write that waits for its turn, in its own thread's frame: a WriteBatch or columns.
struct Writer::Waiting {
  rocksdb::WriteOptions const* options;
  rocksdb::WriteBatch* batch = nullptr;
  Columns* columns = nullptr;
  wal::EncodedBatch const* encoded = nullptr;  // of the columns
  std::function<rocksdb::Status()> const* check = nullptr;  // null: it is written in any case
  BatchEntries entries = {};
  bool for_tables = false;
  bool said = false;  // its status is what became of it
  bool done = false;
  rocksdb::Status status = {};

  [[nodiscard]] bool logged() const { return !options->disableWAL; }
  [[nodiscard]] std::uint64_t operations() const {
    return columns != nullptr ? columns->all_requests : batch->Count();
  }
  [[nodiscard]] std::uint64_t bytes() const {
    return columns != nullptr ? encoded->bytes() : batch->GetDataSize();
  }
};

rocksdb::Status Writer::write(rocksdb::WriteOptions const& options, rocksdb::WriteBatch* batch) {
  if (batch == nullptr || options_.read_only)
    return base_.Write(options, batch);  // which refuses it
  Waits const waits(operations_waiting_, batch->Count());
  if (are_few(waits.with_others)) {
    exec::SharedHold const hold(gate_);
    if (!tables_.any()) return write_rocks(options, batch);
  }
  if (auto s = refusal(options); !s.ok()) return s;
  return write_batch(options, batch, nullptr);
}

rocksdb::Status Writer::write_if(rocksdb::WriteOptions const& options, rocksdb::WriteBatch* batch,
                                 std::function<rocksdb::Status()> const& check) {
  if (options_.read_only) return refused_when_read_only();
  if (auto s = refusal(options); !s.ok()) return s;
  Waits const waits(operations_waiting_, batch->Count());
  return write_batch(options, batch, &check);
}

bool Writer::are_few(std::uint64_t operations) const {
  if (operations >= kCountReadsFrom) operations += counters_.keys_under_way;
  return operations < options_.threshold;
}

/// What RocksDB refuses, memtables refuse too.
rocksdb::Status Writer::refusal(rocksdb::WriteOptions const& options) {
  if (options.sync && options.disableWAL)
    return rocksdb::Status::InvalidArgument("Sync writes has to enable WAL.");
  if (options.rate_limiter_priority != rocksdb::Env::IO_TOTAL &&
      options.rate_limiter_priority != rocksdb::Env::IO_USER)
    return rocksdb::Status::InvalidArgument(
        "WriteOptions::rate_limiter_priority only allows Env::IO_TOTAL and Env::IO_USER due to "
        "implementation constraints");
  if (options.rate_limiter_priority != rocksdb::Env::IO_TOTAL && options.disableWAL)
    return rocksdb::Status::InvalidArgument(
        "WriteOptions::rate_limiter_priority currently only supports rate-limiting automatic WAL "
        "flush, which requires `WriteOptions::disableWAL` and `DBOptions::manual_wal_flush` both "
        "set to false");
  return rocksdb::Status::OK();
}

/// What can be said without looking at each operation.
bool Writer::is_for_tables(Waiting const& waiting) {
  rocksdb::WriteBatch const& batch = *waiting.batch;
  return batch.Count() > 0 && !batch.HasDeleteRange() && !batch.HasBeginPrepare() &&
         !batch.HasCommit() && !batch.HasRollback() && batch.GetWalTerminationPoint().is_cleared();
}

/// What else there is, RocksDB answers as it always does.
bool Writer::knows_families(Waiting const& waiting) const {
  return std::all_of(waiting.entries.families.begin(), waiting.entries.families.end(),
                     [&](auto const& one) {
                       FamilyPtr const family = families_.find(one.family);
                       return family != nullptr && family->has_tables() &&
                              (!one.merges || family->merge_operator != nullptr);
                     });
}

rocksdb::Status Writer::write_batch(rocksdb::WriteOptions const& options,
                                    rocksdb::WriteBatch* batch,
                                    std::function<rocksdb::Status()> const* check) {
  Waiting mine{.options = &options, .batch = batch, .check = check};
  mine.for_tables = is_for_tables(mine) && mine.entries.read(*batch) && knows_families(mine);
  return wait_for_turn(mine);
}

rocksdb::Status Writer::write_columns(rocksdb::WriteOptions const& options, Columns& columns) {
  if (options_.read_only) return refused_when_read_only();
  if (auto s = refusal(options); !s.ok()) return s;
  wal::EncodedBatch const encoded(columns.ops);
  Waiting mine{.options = &options, .columns = &columns, .encoded = &encoded, .for_tables = true};
  return wait_for_turn(mine);
}

/// The first who waits leads: it writes for all who wait by then.
rocksdb::Status Writer::wait_for_turn(Waiting& mine) {
  std::vector<Waiting*> group;
  {
    MutexLock lock(queue_mutex_);
    queue_.push_back(&mine);
    while (has_leader_ && !mine.done) turn_.wait(queue_mutex_);
    if (mine.done) return mine.status;
    has_leader_ = true;
    group.swap(queue_);
  }
  {
    exec::ExclusiveHold const hold(gate_);
    try {
      write_group(group);
    } catch (std::bad_alloc const&) {  // of whom nothing was said yet, nothing was written
      for (Waiting* const one : group)
        if (!one->said) one->status = rocksdb::Status::MemoryLimit("no memory to write a batch");
    }
  }
  MutexLock lock(queue_mutex_);
  for (Waiting* const one : group) one->done = true;
  has_leader_ = false;
  turn_.notify_all();
  return mine.status;
}

void Writer::write_group(std::span<Waiting* const> group) {
  std::uint64_t operations = 0;
  for (Waiting const* const one : group) operations += one->operations();
  bool const few = are_few(operations);
  while (!group.empty()) {
    Waiting& first = *group.front();
    std::size_t n = 1;
    if (first.check != nullptr) first.status = (*first.check)();
    if (!first.status.ok()) {
      // It is not written.
    } else if (few && !tables_.any() && first.batch != nullptr) {
      // the last memtable went while these waited
      first.status = write_rocks(*first.options, first.batch);
    } else if (!first.for_tables) {
      first.status = write_by_rocksdb(first);
    } else {
      n = together(group);
      append_together(group.first(n));
    }
    for (Waiting* const one : group.first(n)) one->said = true;
    group = group.subspan(n);
  }
}

std::size_t Writer::together(std::span<Waiting* const> group) const {
  Waiting const& first = *group.front();
  bool const are_columns = first.columns != nullptr;
  if (are_columns && first.bytes() > kAlone) return 1;
  // A record lies in one segment, and what does not fit begins the next.
  std::uint64_t const most = options_.memtable_bytes / 8;
  bool const in_parts = are_columns || pace_.is_slow(tables_.sealed_generations());
  std::uint64_t bytes = first.bytes();
  std::size_t n = 1;
  for (; n < group.size(); ++n) {
    Waiting const& one = *group[n];
    // Who asks first has to see what those before it wrote.
    if (!one.for_tables || one.check != nullptr || one.logged() != first.logged() ||
        !one.status.ok() || (one.columns != nullptr) != are_columns)
      break;
    bytes += one.bytes();
    if (in_parts && (bytes > most || (are_columns && one.bytes() > kAlone))) break;
  }
  return n;
}

rocksdb::Status Writer::write_by_rocksdb(Waiting& one) {
  // Without operations it changes nothing; with `sync` it asks for all that was written before.
  if (one.batch->Count() == 0 && !one.options->sync) return write_rocks(*one.options, one.batch);
  if (auto s = flush_sealing(); !s.ok()) return s;
  ++counters_.passed_through;
  return write_rocks(*one.options, one.batch);
}

rocksdb::Status Writer::write_rocks(rocksdb::WriteOptions const& options,
                                    rocksdb::WriteBatch* batch) {
  rocksdb::WriteBatch rewritten;
  bool const rewrite =
      batch->HasSingleDelete() && without_single_deletes(*batch, families_, rewritten);
  return base_.Write(durable(options), rewrite ? &rewritten : batch);
}

void Writer::append_together(std::span<Waiting* const> group) {
  std::vector<Waiting*> now;
  std::uint64_t bytes = 0;
  for (Waiting const* const one : group) bytes += one->bytes();
  bool const full = would_wait(bytes, group.front()->logged());
  for (Waiting* const one : group) {
    if (full && one->options->no_slowdown)
      one->status = rocksdb::Status::Incomplete("Write stall");
    else
      now.push_back(one);
  }
  if (now.empty()) return;
  bool const hurries = std::any_of(now.begin(), now.end(),
                                   [](Waiting const* one) { return one->options->no_slowdown; });
  if (!hurries) slow_down(bytes);
  rocksdb::Status const s = append(now);
  for (Waiting* const one : now) one->status = s;
  if (!s.IsInvalidArgument() || now.size() == 1) return;
  // One of them is what memtables do not take; the others need not suffer for it.
  for (Waiting* const& one : now) one->status = append({&one, 1});
}

rocksdb::Status Writer::append(std::span<Waiting* const> group) {
  return group.front()->columns != nullptr ? append_columns(group) : append_batches(group);
}

rocksdb::Status Writer::append_batches(std::span<Waiting* const> group) {
  std::vector<rocksdb::WriteBatch const*> batches;
  Tables::Written written;
  written.logged = group.front()->logged();
  for (Waiting const* const one : group) {
    batches.push_back(one->batch);
    written.requests += one->entries.requests;
    written.sync |= one->options->sync;
  }
  written.bytes = payload_bytes(batches);
  auto const loan = entries_.take();
  GroupEntries& entries = *loan;
  auto const write = [&](std::span<std::byte> room, RequestId first, GwalPayloadSum* sum) {
    entries.clear();
    PayloadLayout const layout = lay_out_payload(batches, room);
    copy_payload(workers_, layout.pieces, room, sum);
    for (std::size_t i = 0; i < group.size(); ++i) entries.add(group[i]->entries, layout.places[i]);
    entries.make_room();
    std::size_t const at_once =
        std::max<std::uint64_t>(1, kTakenAtOnce * group.size() / room.size());
    workers_.for_chunks(group.size(), at_once, [&](std::size_t begin, std::size_t end) {
      for (std::size_t i = begin; i < end; ++i) entries.put(i);
    });
    return entries.batches(first);
  };
  return append(written, write, nullptr);
}

/// What the log can never hold becomes durable by its flush, before the caller hears of it.
rocksdb::Status Writer::append(Tables::Written const& asked, WriteRecord const& write,
                               ViewPtr* seen) {
  exec::Range const range("rocks append");
  Tables::Written written = asked;
  if (auto s = make_room(written); !s.ok()) return s;
  written.sync |= options_.power && written.logged;
  bool const many = !are_few(written.requests);
  if (many) handing_over_ = false;
  auto room = tables_.reserve(written.bytes, written.logged, handing_over_);
  if (!room) return to_rocks(room.status());
  std::optional<GwalPayloadSum> sum;
  if (written.logged && !options_.power) sum.emplace(*room);
  written.sum = sum ? &*sum : nullptr;
  std::vector<FamilyBatch> const batch =
      write(*room, tables_.next_request(), sum ? &*sum : nullptr);
  bool const is_first = !tables_.any();
  if (Status s = tables_.append(batch, written, seen); !s.ok()) return to_rocks(s);
  if (is_first) flusher_->notice();
  if (many) last_batch_ = Clock::now();
  ++counters_.table_batches;
  counters_.table_operations += written.requests;
  if (tables_.is_full()) {
    tables_.seal();
    flusher_->notice();
  }
  return written.logged == asked.logged ? rocksdb::Status::OK() : flush_sealing();
}

rocksdb::Status Writer::append_columns(std::span<Waiting* const> group) {
  std::size_t const n = group.size();
  std::vector<ColumnsToWrite> columns;
  Tables::Written written;
  written.logged = group.front()->logged();
  for (Waiting const* const one : group) {
    columns.push_back({one->columns->family, &one->columns->ops, one->encoded});
    written.requests += one->columns->all_requests;
    written.sync |= one->options->sync;
  }
  written.bytes = payload_bytes(columns);
  std::vector<std::optional<WrittenColumns>> there(n);  // whose offsets the entries use
  std::vector<ColumnEntries> entries(n);
  auto const write = [&](std::span<std::byte> room, RequestId first, GwalPayloadSum* sum) {
    PayloadLayout const layout = lay_out_payload(columns, room);
    copy_payload(workers_, layout.pieces, room, sum);
    for (Waiting const* const one : group) {
      one->columns->first = first;
      first += one->columns->all_requests;
    }
    // Many go side by side, few one after the other, each by all workers.
    std::size_t const at_once = n < workers_.threads() / 2 ? n : 1;
    workers_.for_chunks(n, at_once, [&](std::size_t begin, std::size_t end) {
      for (std::size_t i = begin; i < end; ++i) {
        Columns const& one = *group[i]->columns;
        there[i].emplace(written_columns(columns[i], layout.places[i]));
        entries[i].read(workers_, there[i]->ops(), one.first, one.requests);
      }
    });
    std::vector<FamilyBatch> batch;
    for (std::size_t i = 0; i < n; ++i) {
      batch.push_back({columns[i].family, entries[i].entries(), entries[i].has_merges()});
      batch.back().entries.device_keys = group[i]->columns->device_keys;
      batch.back().entries.device_values = group[i]->columns->device_values;
    }
    return batch;
  };
  ViewPtr seen;
  rocksdb::Status const s = append(written, write, &seen);
  for (Waiting const* const one : group) one->columns->seen = seen;
  return s;
}

bool Writer::would_wait(std::uint64_t bytes, bool logged) {
  return tables_.sealed_generations() > options_.immutable_memtables ||
         (logged && tables_.log_room(bytes) == GwalRoom::after_retiring);
}

/// As many sealed memtables as may wait do, or the log has no room beside them: this write waits
/// for the oldest. What the newest alone fills the log with is sealed for that.
rocksdb::Status Writer::make_room(Tables::Written& written) {
  std::uint64_t most = options_.immutable_memtables;
  GwalRoom room = GwalRoom::there;
  for (;;) {
    if (written.logged) room = tables_.log_room(written.bytes);
    if (room == GwalRoom::after_retiring && tables_.sealed_generations() == 0) tables_.seal();
    std::uint64_t const sealed = tables_.sealed_generations();
    bool const log_is_full = written.logged && room == GwalRoom::after_retiring && sealed > 0;
    if (room != GwalRoom::there && !log_is_full) written.logged = false;
    if (!log_is_full && sealed <= most) return rocksdb::Status::OK();
    if (log_is_full) most = std::min(most, sealed - 1);
    ++counters_.writer_waits;
    auto const began = Clock::now();
    rocksdb::Status const s = flusher_->wait_until_sealed(most);
    auto const waited = std::chrono::duration_cast<std::chrono::microseconds>(Clock::now() - began);
    counters_.writer_wait_micros += static_cast<std::uint64_t>(waited.count());
    if (!s.ok()) return s;
  }
}

void Writer::slow_down(std::uint64_t bytes) {
  constexpr std::chrono::milliseconds kTurn(1);
  std::uint64_t const sealed = tables_.sealed_generations();
  auto const delay = pace_.delay(sealed, bytes, flusher_->a_flush());
  if (delay < kTurn) return;
  auto const began = Clock::now();
  while (Clock::now() - began < delay && tables_.sealed_generations() >= sealed)
    std::this_thread::sleep_for(kTurn);
  auto const waited = std::chrono::duration_cast<std::chrono::microseconds>(Clock::now() - began);
  counters_.writer_wait_micros += static_cast<std::uint64_t>(waited.count());
}

rocksdb::Status Writer::flush_sealing() {
  tables_.seal();
  return flusher_->wait_until_flushed(tables_.newest_sealed());
}

rocksdb::Status Writer::alone(std::function<rocksdb::Status()> const& call) {
  if (options_.read_only) return refused_when_read_only();
  exec::ExclusiveHold const hold(gate_);
  if (auto s = flush_sealing(); !s.ok()) return s;
  tables_.forget_flushed();  // it may change what no sequence number tells
  return call();
}

rocksdb::Status Writer::flush() {
  if (!tables_.any()) return rocksdb::Status::OK();
  if (options_.read_only) return refused_when_read_only();
  {
    exec::ExclusiveHold const hold(gate_);
    tables_.seal();
  }
  return flusher_->wait_until_flushed(tables_.newest_sealed());
}

std::shared_ptr<void> Writer::seal_idle() {
  // The flusher never waits for the gate: who has it may wait for a flush.
  if (!tables_.any() || !gate_.try_lock(exec::kSleepingThreads)) return nullptr;
  auto hold = std::make_shared<exec::ExclusiveHold<>>(gate_, std::adopt_lock);
  auto const now = Clock::now();
  if (std::uint64_t const hits = counters_.table_hits; hits - hits_then_ >= kManyHits) {
    hits_then_ = hits;
    last_batch_ = now;
  }
  if (now - last_batch_ < options_.idle) return nullptr;
  Tables::Load const load = tables_.load();
  // Rounds follow each other as long as less and less is written during each.
  bool const goes_on = handing_over_ && load.requests <= left_over_ / 2;
  if (!goes_on && !may_begin_hand_over(now)) return nullptr;
  handing_over_ = true;
  left_over_ = load.requests;
  tables_.seal();
  bool const is_little =
      load.generations == 1 && load.requests <= kHandedOverAtOnce && load.bytes <= kBytesAtOnce;
  return is_little ? hold : nullptr;
}

bool Writer::may_begin_hand_over(Clock::time_point now) {
  while (!hand_overs_.empty() && now - hand_overs_.front() >= std::chrono::seconds(1))
    hand_overs_.pop_front();
  if (hand_overs_.size() >= options_.hand_overs_a_second) return false;
  hand_overs_.push_back(now);
  ++counters_.hand_overs;
  return true;
}

}  // namespace perdure::lsm
