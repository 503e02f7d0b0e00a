#include "store/dash/dash_store.hpp"

#include <algorithm>
#include <cstring>

#include "base/assert.hpp"
#include "base/caught.hpp"
#include "base/hash.hpp"
#include "batch/hash_parts.hpp"
#include "batch/pieces.hpp"
#include "exec/counts.hpp"
#include "store/checks.hpp"
#include "store/repair_reports.hpp"

namespace perdure {
namespace {

constexpr std::size_t kChunk = 1024;  // operations of a batch of gets that a worker takes at a time
// smaller batches of writes are not split over workers
constexpr std::size_t kSplitFrom = 4 * kChunk;
constexpr std::uint64_t kLease = 1u << 20;  // batch numbers taken from the root at a time

Status bad(std::string message) { return {Code::invalid_argument, std::move(message)}; }

void copy_statuses(std::vector<std::uint8_t> const& from, std::span<KeyStatus> to) {
  PERDURE_ASSERT(to.size() <= from.size());
  // Each operation has been some worker's.
  PERDURE_ASSERT(!kCostlyAssertions || std::ranges::count(from, kPending) == 0);
  for (std::size_t i = 0; i < to.size(); ++i) to[i] = static_cast<KeyStatus>(from[i]);
}

}  // namespace

Status DashStore::check_open(bool writing) const {
  if (closed_) return {Code::closed, "pool " + path + ": this store is closed"};
  PERDURE_ASSERT(engine_ != nullptr);
  if (given_up_) {
    std::lock_guard const lock(failed_mutex_);
    return {Code::closed,
            "pool " + path + " was left in the middle of a change by an earlier failure (" +
                (failed_.ok() ? "out of memory" : failed_.message()) + "); close and reopen it"};
  }
  if (writing && pool_.read_only())
    return bad("pool " + path + " is open read-only; open it without read_only to write");
  return {};
}

template <class F>
Status DashStore::whole_or_failed(F f) {
  auto const fail = [this](Status why) {
    std::lock_guard const lock(failed_mutex_);
    if (failed_.ok()) failed_ = std::move(why);
    given_up_ = true;
  };
  try {
    return f();
  } catch (abi::__forced_unwind const&) {  // the thread is being cancelled
    fail({Code::closed, "cancelled"});
    throw;
  } catch (...) {
    Status why = status_of_exception();
    Code const code = why.code();
    fail(std::move(why));
    return {code, "out of memory"};
  }
}

Status DashStore::check_call(Call const& call, std::span<KeyStatus> statuses) const {
  if (Status s = check_batch(path, pool_.header(), call, statuses); !s.ok()) return s;
  bool const on_device = (call.keys.data != nullptr && call.keys.place == Place::device) ||
                         (call.values.data != nullptr && call.values.place == Place::device) ||
                         (call.out.data != nullptr && call.out.place == Place::device) ||
                         call.device_statuses != nullptr;
  if (!on_device) return {};
  return bad("pool " + path + ": index " + name(index()) +
             " is for threads of the host, and an array of this batch lies in device memory; bring "
             "a host array, or "
             "use a pool of index gphash");
}

// ------------------------------------------------------------------------------------------------
// Batches

Status DashStore::read(Call const& call, std::span<KeyStatus> statuses, CallOptions const& how) {
  exec::SharedHold const open(open_);
  if (Status s = check_open(false); !s.ok()) return s;
  if (how.transaction != nullptr)
    return lacks("transactions", "get without one, or use a pool of index gphash");
  if (Status s = check_call(call, statuses); !s.ok()) return s;
  if (pool_.header().value_bytes == 0)
    return bad("pool " + path + " has variable-length values; use get_variable");
  if (call.out.data == nullptr && call.keys.count > 0) return bad("the output array is null");
  return in_pieces(
      call, statuses, how.stop,
      [&](Call const& piece, auto of_piece) { return read_piece(piece, of_piece); },
      [](Status const& s) { return s.code() == Code::corrupt; });
}

Status DashStore::read_piece(Call const& call, std::span<KeyStatus> statuses) {
  if (call.keys.count == 0) return {};
  auto status = first_statuses(pool_.header(), call);
  if (!status) return status.status();
  DashBatch const batch{&call, status->data(), 0};
  std::atomic<std::uint64_t> damaged{0};
  workers_.for_chunks(call.keys.count, kChunk, [&](std::size_t begin, std::size_t end) {
    DashTally tally;
    engine_->get(batch, {nullptr, begin, end - begin}, tally);
    add(tally);
    damaged += tally.damaged;
  });
  copy_statuses(*status, statuses);
  ++batches_;
  return met(damaged, call.keys.count);
}

Result<VariableValues> DashStore::read_variable(Call const& call, std::span<KeyStatus> statuses,
                                                CallOptions const& how) {
  exec::SharedHold const open(open_);
  if (Status s = check_open(false); !s.ok()) return s;
  if (how.transaction != nullptr)
    return lacks("transactions", "get without one, or use a pool of index gphash");
  if (Status s = check_call(call, statuses); !s.ok()) return s;
  VariableValues all;
  Status const s = in_pieces(
      call, statuses, how.stop,
      [&](Call const& piece, auto of_piece) {
        auto some = read_variable_piece(piece, of_piece);
        if (some) append(all, std::move(*some));
        return some.status();
      },
      [](Status const&) { return false; });
  if (!s.ok()) return s;
  return all;
}

/// Each chunk's values are gathered by themselves, and then put one behind the other.
Result<VariableValues> DashStore::read_variable_piece(Call const& call,
                                                      std::span<KeyStatus> statuses) {
  std::size_t const n = call.keys.count;
  if (n == 0) return VariableValues{{0}, {}};
  auto status = first_statuses(pool_.header(), call);
  if (!status) return status.status();
  DashBatch const batch{&call, status->data(), 0};
  VariableValues values;
  values.offsets.resize(n + 1);
  std::vector<std::vector<std::byte>> chunks((n + kChunk - 1) / kChunk);
  std::atomic<std::uint64_t> damaged{0};
  workers_.for_chunks(chunks.size(), 1, [&](std::size_t first, std::size_t last) {
    for (std::size_t c = first; c < last; ++c) {
      std::size_t const begin = c * kChunk;
      DashTally tally;
      engine_->get_variable(batch, {nullptr, begin, std::min(kChunk, n - begin)}, chunks[c],
                            values.offsets.data(), tally);
      add(tally);
      damaged += tally.damaged;
    }
  });
  std::int64_t sum = 0;
  for (std::int64_t& offset : values.offsets) sum += std::exchange(offset, sum);
  values.data.reserve(static_cast<std::size_t>(values.offsets[n]));
  for (auto const& chunk : chunks)
    values.data.insert(values.data.end(), chunk.begin(), chunk.end());
  PERDURE_ASSERT(values.data.size() == static_cast<std::size_t>(values.offsets[n]));
  copy_statuses(*status, statuses);
  ++batches_;
  if (Status s = met(damaged, n); !s.ok()) return s;
  return values;
}

Status DashStore::write(Call call, std::span<KeyStatus> statuses, CallOptions const& how) {
  exec::SharedHold const open(open_);
  exec::SharedHold const changing(changing_);
  if (Status s = check_open(true); !s.ok()) return s;
  if (Status s = check_call(call, statuses); !s.ok()) return s;
  if (how.transaction != nullptr)
    return lacks("transactions", "write the batch without one, or use a pool of index gphash");
  if (how.atomic)
    return lacks("atomic batches", "write it without `atomic`, or use a pool of index gphash");
  if (call.keys.count == 0) return {};
  return in_pieces(
      call, statuses, how.stop,
      [&](Call const& piece, auto of_piece) { return write_open(piece, of_piece); },
      [&](Status const& s) {
        return !given_up_ && (s.code() == Code::no_space || s.code() == Code::corrupt);
      });
}

/// Operations on one key stay in array order: one worker has all of them, for the batch is split by
/// hash, stably.
Status DashStore::write_open(Call const& call, std::span<KeyStatus> statuses) {
  std::size_t const n = call.keys.count;
  auto status = first_statuses(pool_.header(), call);
  if (!status) return status.status();
  DashBatch batch{&call, status->data(), 0};
  if (Status s = next_sequence(batch.sequence); !s.ok()) return s;
  std::atomic<std::uint64_t> refused{0}, damaged{0};
  auto const run = [&](DashOps const& ops) {
    DashTally tally;
    engine_->write(batch, ops, tally);
    add(tally);
    refused += tally.refused;
    damaged += tally.damaged;
  };
  Status const ran = whole_or_failed([&]() -> Status {
    if (n < kSplitFrom || workers_.threads() == 1) {
      run({nullptr, 0, n});
      return {};
    }
    exec::ByteColumn const keys{call.keys.data, call.keys.offsets, call.keys.width};
    HashParts const parts(workers_, n,
                          [&](std::size_t i) { return hash_bytes(keys.at(i), keys.size(i)); });
    PERDURE_ASSERT(parts.begin(0) == 0 && parts.begin(parts.count()) == n);  // all of it, once
    workers_.for_chunks(parts.count(), 1, [&](std::size_t first, std::size_t last) {
      for (std::size_t p = first; p < last; ++p)
        run({parts.order(), parts.begin(p), parts.begin(p + 1) - parts.begin(p)});
    });
    return {};
  });
  if (!ran.ok()) return ran;
  copy_statuses(*status, statuses);
  ++batches_;
  if (Status s = met(damaged, n); !s.ok()) return s;
  PERDURE_ASSERT(refused <= n);
  if (refused == 0) return {};
  return {Code::no_space, "pool " + path + ": " + std::to_string(refused) + " of " +
                              std::to_string(n) + " operations found no room (" +
                              engine_->why_refused().message() +
                              ") and took no effect (see their statuses)"};
}

Status DashStore::corrupt(std::string const& what) const {
  return {Code::corrupt, "pool " + path + ": " + what +
                             "; run verify, which names all that is damaged, and restore a "
                             "snapshot or load an export"};
}

/// What a batch says of operations that met damage in the index.
Status DashStore::met(std::uint64_t damaged, std::size_t n) const {
  PERDURE_ASSERT(damaged <= n);
  if (damaged == 0) return {};
  return corrupt(std::to_string(damaged) + " of " + std::to_string(n) + " operations met damage (" +
                 engine_->why_damaged().message() + ") and took no effect (see their statuses)");
}

/// Records carry numbers below what the root leases, so that an opening goes on above them.
Status DashStore::next_sequence(std::uint64_t& sequence) {
  PERDURE_ASSERT(!pool_.read_only());
  sequence = ++sequence_;
  if (sequence <= lease_) return {};
  std::lock_guard const lock(memory_);
  if (sequence <= lease_) return {};
  pm::Root root = pool_.root();
  root.batch_lease = sequence + kLease;
  pool_.publish_root(root);
  PERDURE_ASSERT(lease_ < root.batch_lease);  // never again what it was
  lease_ = root.batch_lease;
  return {};
}

void DashStore::add(DashTally const& tally) {
  if (tally.inserted != tally.erased) records_ += tally.inserted - tally.erased;
  if (!options.count_accesses) return;
  reads_ += tally.reads;
  writes_ += tally.writes;
  orders_ += tally.orders;
}

// ------------------------------------------------------------------------------------------------
// Looking around

bool DashStore::count_records() {
  DashCount const count = engine_->count();
  records_ = count.records;
  counted_ = count.whole;
  return count.whole;
}

bool DashStore::count_if_unknown() {
  if (counted_) return true;
  exec::ExclusiveHold const exclusive(changing_);
  return counted_ || count_records();
}

Result<ScanPage> DashStore::scan(ScanCursor const& from, std::size_t limit,
                                 std::atomic<bool> const* stop) {
  exec::SharedHold const open(open_);
  exec::SharedHold const changing(changing_);
  if (Status s = check_open(false); !s.ok()) return s;
  ScanPage page;
  page.keys.offsets.push_back(0);
  page.values.offsets.push_back(0);
  page.next = {from.slot, 1, from.done};
  if (limit == 0 || from.done) return page;
  auto const append = [](VariableValues& to, std::span<std::byte const> bytes) {
    to.data.insert(to.data.end(), bytes.begin(), bytes.end());
    to.offsets.push_back(static_cast<std::int64_t>(to.data.size()));
  };
  std::size_t left = limit;
  do {
    if (stopped(stop)) return look_stopped(path, "scan");
    DashPage const seen =
        engine_->page(page.next.slot, std::min(left, kPieceOperations), [&](auto key, auto value) {
          append(page.keys, key);
          append(page.values, value);
        });
    if (seen.damaged)
      return corrupt("the scan met damage (" +
                     (seen.record.empty() ? engine_->why_damaged().message() : seen.record) + ")");
    PERDURE_ASSERT(page.keys.offsets.size() == page.values.offsets.size());
    page.next = {seen.next, 1, seen.next == 0};
    left = limit - std::min(limit, page.keys.offsets.size() - 1);
  } while (left > 0 && !page.next.done);
  return page;
}

/// Writers wait, so that every key is where it belongs when it is looked for.
Result<VerifyReport> DashStore::verify(std::atomic<bool> const* stop) {
  exec::SharedHold const open(open_);
  if (Status s = check_open(false); !s.ok()) return s;
  exec::ExclusiveHold const exclusive(changing_);
  constexpr std::size_t kSegments = 64;  // that a worker takes at a time
  VerifyReport report;
  report.dropped = recovery.dropped;
  DashFaults of_index;
  std::vector<std::uint64_t> const positions = engine_->positions(of_index);
  std::mutex mutex;
  workers_.for_chunks(positions.size(), kSegments, [&](std::size_t begin, std::size_t end) {
    if (stopped(stop)) return;
    DashFaults faults;
    engine_->check(std::span(positions).subspan(begin, end - begin), faults);
    std::lock_guard const lock(mutex);
    report.records += faults.good;
    report.fault_count += faults.count;
    report.faults.insert(report.faults.end(), faults.first.begin(), faults.first.end());
  });
  if (stopped(stop)) return look_stopped(path, "verify");
  std::sort(report.faults.begin(), report.faults.end());
  PERDURE_ASSERT(of_index.first.size() <= of_index.count);
  report.fault_count += of_index.count;
  report.faults.insert(report.faults.begin(), of_index.first.begin(), of_index.first.end());
  if (counted_ && report.fault_count == 0 && report.records != records_) {
    ++report.fault_count;
    report.faults.push_back("there are " + std::to_string(report.records) + " records, where " +
                            std::to_string(records_) + " were counted");
  }
  if (report.faults.size() > DashFaults::kMost) report.faults.resize(DashFaults::kMost);
  add_unacknowledged(repairs_.waiting(), report);
  return report;
}

Status DashStore::acknowledge_repair() {
  exec::SharedHold const open(open_);
  if (Status s = check_open(true); !s.ok()) return s;
  exec::ExclusiveHold const exclusive(changing_);
  repairs_.acknowledge();
  return {};
}

Stats DashStore::stats_open() {
  Stats s;
  pm::PoolHeader const& h = pool_.header();
  DashShape const shape = engine_->shape();
  s.records = records_;
  s.slots = shape.slots;
  s.load_factor = static_cast<double>(s.records) / static_cast<double>(s.slots);
  s.growths = shape.splits;
  s.batches = batches_;
  s.accesses = {reads_, writes_, orders_, 0};
  s.key_bytes = h.key_bytes;
  s.value_bytes = h.value_bytes;
  s.value_type = value_type;
  s.max_key_bytes = h.max_key_bytes;
  s.max_value_bytes = h.max_value_bytes;
  s.top_level = engine_->depth();
  s.index = index();
  s.segments = shape.segments;
  s.medium = pool_.medium();
  s.machine = "cpu x" + std::to_string(workers_.threads());
  std::lock_guard const lock(memory_);
  s.space.pool_bytes = pool_.bytes();
  s.space.used_bytes = pool_.superblocks_in_use() * pool_.superblock_bytes();
  return s;
}

Stats DashStore::stats() {
  exec::SharedHold const open(open_);
  if (closed_ || given_up_) return last_;
  bool const whole = count_if_unknown();
  Stats s = stats_open();
  if (!whole) s.damage = engine_->why_damaged().message();
  return s;
}

void DashStore::reset_counts() { reads_ = writes_ = orders_ = 0; }

Survival DashStore::survives() {
  exec::SharedHold const open(open_);
  return perdure::survives(pool_.medium());
}

}  // namespace perdure
