// What a Dash store does beside its batches (dash_batches.cpp): looking around, snapshots, closing.
// Invariant: a pool is marked clean only with a count of its records, and when all its segments are
// sound.
#include "store/dash/dash_store.hpp"

#include <algorithm>

#include "base/assert.hpp"
#include "base/caught.hpp"
#include "batch/pieces.hpp"
#include "store/checks.hpp"
#include "store/repair_reports.hpp"
#include "store/threads/look.hpp"
#include "wal/snapshot_file.hpp"

namespace perdure {

bool DashStore::count_if_unknown() {
  if (core_.counters.counted()) return true;
  exec::ExclusiveHold const exclusive(core_.changing);
  return core_.counters.counted() || core_.count_records();
}

Result<ScanPage> DashStore::scan(ScanCursor const& from, std::size_t limit,
                                 std::atomic<bool> const* stop) {
  exec::SharedHold const open(core_.open);
  exec::SharedHold const changing(core_.changing);
  if (Status s = core_.check_open(false); !s.ok()) return s;
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
    DashPage const seen = core_.engine->page(page.next.slot, std::min(left, kPieceOperations),
                                             [&](auto key, auto value) {
                                               append(page.keys, key);
                                               append(page.values, value);
                                             });
    if (seen.damaged)
      return core_.corrupt(
          "the scan met damage (" +
          (seen.record.empty() ? core_.engine->why_damaged().message() : seen.record) + ")");
    PERDURE_ASSERT(page.keys.offsets.size() == page.values.offsets.size());
    page.next = {seen.next, 1, seen.next == 0};
    left = limit - std::min(limit, page.keys.offsets.size() - 1);
  } while (left > 0 && !page.next.done);
  return page;
}

/// Writers wait, so that every key is where it belongs when it is looked for.
Result<VerifyReport> DashStore::verify(std::atomic<bool> const* stop) {
  exec::SharedHold const open(core_.open);
  if (Status s = core_.check_open(false); !s.ok()) return s;
  exec::ExclusiveHold const exclusive(core_.changing);
  constexpr std::size_t kSegments = 64;  // that a worker takes at a time
  VerifyReport report;
  report.dropped = recovery.dropped;
  threads::Faults of_index;
  std::vector<std::uint64_t> const positions = core_.engine->positions(of_index);
  threads::look_at_all(core_.workers, positions.size(), kSegments, stop, report,
                       [&](std::size_t begin, std::size_t end, threads::Faults& faults) {
                         auto const mine = std::span(positions).subspan(begin, end - begin);
                         core_.engine->check(mine, faults);
                       });
  if (stopped(stop)) return look_stopped(path, "verify");
  PERDURE_ASSERT(of_index.first.size() <= of_index.count);
  report.fault_count += of_index.count;
  report.faults.insert(report.faults.begin(), of_index.first.begin(), of_index.first.end());
  if (core_.counters.counted())
    threads::expect_count(report.records, core_.counters.records(), "records", report);
  if (report.faults.size() > threads::Faults::kMost) report.faults.resize(threads::Faults::kMost);
  add_unacknowledged(core_.repairs.waiting(), report);
  return report;
}

Stats DashStore::stats_open() {
  Stats s;
  pm::PoolHeader const& h = core_.pool.header();
  DashShape const shape = core_.engine->shape();
  core_.counters.tell(s);
  s.slots = shape.slots;
  s.load_factor = static_cast<double>(s.records) / static_cast<double>(s.slots);
  s.growths = shape.splits;
  s.key_bytes = h.key_bytes;
  s.value_bytes = h.value_bytes;
  s.value_type = value_type;
  s.max_key_bytes = h.max_key_bytes;
  s.max_value_bytes = h.max_value_bytes;
  s.top_level = core_.engine->depth();
  s.index = core_.index();
  s.segments = shape.segments;
  s.medium = core_.pool.medium();
  s.machine = "cpu x" + std::to_string(core_.workers.threads());
  std::lock_guard const lock(core_.memory);
  s.space.pool_bytes = core_.pool.bytes();
  s.space.used_bytes = core_.pool.superblocks_in_use() * core_.pool.superblock_bytes();
  return s;
}

Stats DashStore::stats() {
  exec::SharedHold const open(core_.open);
  if (core_.closed || core_.health.given_up()) return last_;
  bool const whole = count_if_unknown();
  Stats s = stats_open();
  if (!whole) s.damage = core_.engine->why_damaged().message();
  return s;
}

Status DashStore::close() {
  exec::ExclusiveHold const exclusive(core_.open);
  if (core_.closed) return {};
  sweeper_.stop();
  core_.closed = true;
  // Whatever fails in here, the pool is released, and was not closed in order.
  Status const done = core_.health.given_up() ? Status{} : caught([this]() -> Status {
    bool const counted = core_.counters.counted() || core_.count_records();
    last_ = stats_open();
    if (!counted) last_.damage = core_.engine->why_damaged().message();
    if (core_.pool.read_only()) return {};
    if (!counted)
      return core_.corrupt("it was not closed in order, for it is damaged (" + last_.damage + ")");
    core_.engine->note_count(core_.counters.records());
    auto const note = recovery_.closing_note();
    core_.pool.publish_clean(note);
    return note ? Status{}
                : core_.corrupt("it is damaged (" + core_.engine->why_damaged().message() + ")");
  });
  core_.engine.reset();
  core_.pool.close();
  return done;
}

/// Nothing is written meanwhile, and nothing is locked: scans wait as well. Counting goes through
/// all segments, so that none is left whom a get would make sound, or split off.
Status DashStore::snapshot(std::string const& to, SnapshotOptions const& how) {
  exec::SharedHold const open(core_.open);
  if (Status s = core_.check_open(false); !s.ok()) return s;
  sweeper_.wait();
  exec::ExclusiveHold const exclusive(core_.changing);
  if (!core_.count_records())
    return core_.corrupt("no snapshot of a damaged pool is made (" +
                         core_.engine->why_damaged().message() + ")");
  if (!core_.pool.read_only()) core_.engine->note_count(core_.counters.records());
  wal::ImageInfo info;
  info.pool_id = core_.pool.header().pool_id;
  return wal::write_snapshot(to, make_options(how), info, {core_.pool.base(), core_.pool.bytes()},
                             core_.pool.closed_head(recovery_.closing_note()));
}

}  // namespace perdure
