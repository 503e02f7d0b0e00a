// What a store of a B+-tree does beside its batches: looking around, snapshots, closing.
#include "store/btree/btree_store.hpp"

#include <algorithm>
#include <mutex>

#include "base/assert.hpp"
#include "base/caught.hpp"
#include "batch/pieces.hpp"
#include "store/checks.hpp"
#include "store/repair_reports.hpp"
#include "store/threads/look.hpp"
#include "wal/snapshot_file.hpp"

namespace perdure {
namespace {

constexpr std::size_t kRangeStep = 4096;  // records between two looks at `stop`

void append(VariableValues& to, std::span<std::byte const> bytes) {
  to.data.insert(to.data.end(), bytes.begin(), bytes.end());
  to.offsets.push_back(static_cast<std::int64_t>(to.data.size()));
}
std::span<std::byte const> last_of(VariableValues const& values) {
  auto const from = static_cast<std::size_t>(values.offsets[values.offsets.size() - 2]);
  return std::span(values.data).subspan(from);
}

}  // namespace

Result<ScanPage> BtreeStore::scan(ScanCursor const& from, std::size_t limit,
                                  std::atomic<bool> const* stop) {
  exec::SharedHold const open(core_.open);
  threads::CommittedHold const committed(core_);
  if (Status s = core_.check_open(false); !s.ok()) return s;
  ScanPage page;
  page.keys.offsets.push_back(0);
  page.values.offsets.push_back(0);
  page.next = from;
  if (limit == 0 || from.done) return page;
  BtreeRange range;
  if (from.generation != 0) range = {.start = from.key, .after_start = true};
  for (std::size_t left = limit;;) {
    if (stopped(stop)) return look_stopped(path, "scan");
    BtreePage const seen = core_.engine->range(range, std::min(left, kRangeStep), kPieceBytes,
                                               [&](auto key, auto value) {
                                                 append(page.keys, key);
                                                 append(page.values, value);
                                               });
    if (!seen.fault.empty()) return core_.corrupt("the scan met damage (" + seen.fault + ")");
    if (seen.records > 0) {
      auto const last = last_of(page.keys);
      page.next = {0, 1, false, {last.begin(), last.end()}};
      range = {.start = page.next.key, .after_start = true};
    }
    page.next.done = !seen.more;
    left -= seen.records;
    if (left == 0 || page.next.done) return page;
  }
}

Status BtreeStore::check_bounds(RangeQuery const& query) const {
  auto const check = [&](std::optional<std::vector<std::byte>> const& bound,
                         char const* what) -> Status {
    if (!bound || key_bytes == 0) return {};
    bool const number = key_order != KeyOrder::bytes;
    if (bound->size() == key_bytes || (!number && bound->size() < key_bytes)) return {};
    return {Code::invalid_argument, "pool " + path + ": " + what + " has " +
                                        std::to_string(bound->size()) + " bytes, and " +
                                        (number ? "integer keys have " : "keys have at most ") +
                                        std::to_string(key_bytes)};
  };
  if (Status s = check(query.start, "start"); !s.ok()) return s;
  return check(query.end, "end");
}

namespace {

/// `key_bytes`: of each key; 0 = of any length.
BtreeRange range_of(RangeQuery const& query, std::uint32_t key_bytes) {
  BtreeRange range;
  if (query.start) range.start = *query.start;
  if (query.end) range.end = *query.end;
  // No key is a shorter bound itself.
  bool const a_key = query.start && (key_bytes == 0 || query.start->size() == key_bytes);
  range.after_start = a_key && query.after_start;
  range.reverse = query.reverse;
  return range;
}

}  // namespace

Result<RangePage> BtreeStore::range(RangeQuery const& query, std::atomic<bool> const* stop) {
  exec::SharedHold const open(core_.open);
  threads::CommittedHold const committed(core_);
  if (Status s = core_.check_open(false); !s.ok()) return s;
  if (Status s = check_bounds(query); !s.ok()) return s;
  RangePage page;
  page.keys.offsets.push_back(0);
  page.values.offsets.push_back(0);
  page.next = query;
  for (std::size_t left = query.limit; left > 0 && page.next;) {
    if (stopped(stop)) return look_stopped(path, "range");
    BtreePage const seen =
        core_.engine->range(range_of(*page.next, key_bytes), std::min(left, kRangeStep),
                            kPieceBytes, [&](auto key, auto value) {
                              append(page.keys, key);
                              append(page.values, value);
                            });
    if (!seen.fault.empty()) return core_.corrupt("the range met damage (" + seen.fault + ")");
    left -= seen.records;
    if (!seen.more) {
      page.next.reset();
    } else if (seen.records > 0) {
      auto const last = last_of(page.keys);
      auto& bound = query.reverse ? page.next->end : page.next->start;
      bound.emplace(last.begin(), last.end());
      if (!query.reverse) page.next->after_start = true;
    }
    if (page.keys.data.size() + page.values.data.size() >= kPieceBytes) break;
  }
  return page;
}

Result<std::uint64_t> BtreeStore::count_range(RangeQuery const& query) {
  exec::SharedHold const open(core_.open);
  threads::CommittedHold const committed(core_);
  if (Status s = core_.check_open(false); !s.ok()) return s;
  if (Status s = check_bounds(query); !s.ok()) return s;
  return core_.engine->count(range_of(query, key_bytes));
}

/// Writers wait, so that what is looked up is what the records say.
Result<VerifyReport> BtreeStore::verify(std::atomic<bool> const* stop) {
  exec::SharedHold const open(core_.open);
  if (Status s = core_.check_open(false); !s.ok()) return s;
  exec::ExclusiveHold const exclusive(core_.changing);
  VerifyReport report;
  report.dropped = recovery.dropped;
  if (!core_.pool.header().records_alone() || core_.engine->log() != nullptr)
    return verify_by_tree(std::move(report), stop);
  auto const superblocks = core_.space.superblocks();
  threads::look_at_all(core_.workers, superblocks.size(), 1, stop, report,
                       [&](std::size_t first, std::size_t end, threads::Faults& faults) {
                         auto const mine = std::span(superblocks).subspan(first, end - first);
                         core_.engine->check(mine, faults);
                       });
  if (stopped(stop)) return look_stopped(path, "verify");
  compare_counts(report);
  return report;
}

/// Where what counts is what the tree leads to; a range looks at each record.
Result<VerifyReport> BtreeStore::verify_by_tree(VerifyReport report,
                                                std::atomic<bool> const* stop) {
  if (core_.has_transactions()) {
    threads::Faults faults;
    core_.engine->check_tree(faults);
    if (faults.count != 0) {  // where a damaged word leads is anywhere
      threads::add_faults(std::move(faults), report);
      return report;
    }
  }
  std::vector<std::byte> last;
  BtreeRange range;
  for (BtreePage page{0, true, {}}; page.more;) {
    if (stopped(stop)) return look_stopped(path, "verify");
    page = core_.engine->range(range, kPieceOperations, kPieceBytes, [&](auto key, auto) {
      last.assign(key.begin(), key.end());
      ++report.records;
    });
    if (!page.fault.empty()) {
      ++report.fault_count;
      report.faults.push_back(page.fault);
    }
    range = {.start = last, .after_start = true};
  }
  if (core_.engine->leaves() != nullptr) {
    btree::ChainFound const chain = core_.engine->leaves()->sum(core_.workers);
    report.fault_count += chain.faults;
    report.faults.insert(report.faults.end(), chain.wrong.begin(), chain.wrong.end());
  }
  compare_counts(report);
  return report;
}

void BtreeStore::compare_counts(VerifyReport& report) {
  std::uint64_t const counted = core_.counters.records();
  threads::expect_count(report.records, counted, "records", report);
  threads::expect_count(core_.engine->count({}), counted, "keys in the tree", report);
  if (report.faults.size() > threads::Faults::kMost) report.faults.resize(threads::Faults::kMost);
  add_unacknowledged(core_.repairs.waiting(), report);
}

void BtreeStore::tell_log(Stats& s) {
  if (core_.engine->log() == nullptr) return;
  pm::ValueLog::Counters const c = core_.engine->log()->counters();
  s.values = Values::log;
  s.value_log = {c.segments.segments,   c.segments.free,           c.segments.queued,
                 c.segments.used_bytes, c.segments.outdated_bytes, c.segments.tombstone_bytes,
                 c.appended_bytes,      c.collector.moved_bytes,   c.collector.collections,
                 c.collector.failed,    c.segments.waits,          c.segments.longest_wait_ns};
}

Stats BtreeStore::stats_open() {
  Stats s;
  pm::PoolHeader const& h = core_.pool.header();
  BtreeShape const shape = core_.engine->shape();
  core_.counters.tell(s);
  s.slots = shape.slots;
  s.load_factor = static_cast<double>(s.records) / static_cast<double>(s.slots);
  s.key_bytes = h.key_bytes;
  s.value_bytes = h.value_bytes;
  s.value_type = value_type;
  s.max_key_bytes = h.max_key_bytes;
  s.max_value_bytes = h.max_value_bytes;
  s.top_level = static_cast<std::uint32_t>(shape.depth);
  s.index = core_.index();
  s.key_order = core_.key_order();
  s.persist = core_.persist();
  s.segments = shape.leaves;
  s.index_bytes = shape.bytes;
  s.medium = core_.pool.medium();
  s.machine = "cpu x" + std::to_string(core_.workers.threads());
  tell_log(s);
  std::lock_guard const lock(core_.memory);
  s.space.pool_bytes = core_.pool.bytes();
  s.space.used_bytes = core_.pool.superblocks_in_use() * core_.pool.superblock_bytes() -
                       s.value_log.free_segments * core_.pool.superblock_bytes();
  return s;
}

Stats BtreeStore::stats() {
  exec::SharedHold const open(core_.open);
  if (core_.closed || core_.health.given_up()) return last_;
  return stats_open();
}

Status BtreeStore::close() {
  exec::ExclusiveHold const exclusive(core_.open);
  if (core_.closed) return {};
  core_.closed = true;
  // Whatever fails in here, the pool is released, and was not closed in order.
  Status const done = core_.health.given_up() ? Status{} : caught([this]() -> Status {
    last_ = stats_open();
    if (core_.engine->log() != nullptr && !core_.pool.read_only()) core_.engine->log()->close();
    if (!core_.pool.read_only()) core_.pool.publish_clean(core_.closing_note());
    return {};
  });
  core_.engine.reset();
  core_.pool.close();
  return done;
}

/// Nothing is written meanwhile.
Status BtreeStore::snapshot(std::string const& to, SnapshotOptions const& how) {
  exec::SharedHold const open(core_.open);
  if (Status s = core_.check_open(false); !s.ok()) return s;
  exec::ExclusiveHold const exclusive(core_.changing);
  if (core_.engine->log() == nullptr) return write_image(to, how);
  exec::ExclusiveHold const at_rest(core_.engine->log()->collector().rest());
  return write_image(to, how);
}

Status BtreeStore::write_image(std::string const& to, SnapshotOptions const& how) {
  wal::ImageInfo info;
  info.pool_id = core_.pool.header().pool_id;
  return wal::write_snapshot(to, make_options(how), info, {core_.pool.base(), core_.pool.bytes()},
                             core_.pool.closed_head(core_.closing_note()));
}

}  // namespace perdure
