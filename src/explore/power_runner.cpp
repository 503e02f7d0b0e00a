#include "explore/power_runner.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "explore/judging.hpp"
#include "index/gphash/candidates.hpp"
#include "wal/log_dir.hpp"

namespace perdure::explore {
namespace {

using exec::SimSchedule;
using exec::SimScheduler;

constexpr char const* kLog = "/log";
constexpr char const* kSnapshot = "/snapshot";
// A batch takes a block: four of them bring a checkpoint, and the two after them copy it.
constexpr std::uint64_t kRing = 6 * wal::kBlock;

OpenOptions open_options(char const* log_dir, Layout layout) {
  OpenOptions o;
  o.threads = 1;
  o.memory.residency = layout == Layout::log ? Residency::mirrored : Residency::pm;
  o.log_dir = log_dir;
  return o;
}

std::uint64_t hash_of_possible(std::optional<Contents> const& contents) {
  return contents ? hash_of(*contents) + 1 : 0;
}

bool damaged(RecoveryReport const& r) {
  return r.log_report.find("other image") != std::string::npos ||
         r.log_report.find("neither") != std::string::npos;
}

}  // namespace

PowerRunner::PowerRunner(Options const& options, Totals& totals) : DiskCrasher(options, totals) {
  wal::explored_least_log = kRing;
}

std::string PowerRunner::describe(std::uint64_t scenario_seed) const {
  return make_scenario(scenario_seed, options_.layout, options_.bounds).describe();
}

// ------------------------------------------------------------------------------------------------
// A run

/// What lay in memory is gone.
Result<Store> PowerRunner::open_store() {
  std::memset(arena_.data(), 0, arena_.file_bytes);
  return Store::open(kArenaPath, open_options(kLog, scenario_->layout));
}

/// A new pool, filled and closed: the state before the run.
bool PowerRunner::set_up(std::uint64_t scenario_seed) {
  scenario_ = make_scenario(scenario_seed, options_.layout, options_.bounds);
  judged_.clear();
  machine = scenario_->machine;
  gphash::explored_window_bits = machine.window_bits;
  SimScheduler scheduler({});
  Scheduled const scheduled(scheduler);
  CreateOptions create;
  create.key_bytes = scenario_->key_bytes;
  create.value_bytes = scenario_->value_bytes;
  create.expected_records = 1;
  create.layout = scenario_->layout;
  create.shape = scenario_->shape;
  create.durability = Durability::power;
  create.log.dir = kLog;
  create.log.bytes = kRing;
  std::memset(arena_.data(), 0, arena_.file_bytes);
  start_recording({});
  Expected half_made;
  half_made.may_refuse = half_made.half_made = true;
  expect(half_made);
  auto store = Store::create(kArenaPath, create, open_options("", scenario_->layout));
  expect({});
  creation_ = stop_recording();
  if (!store) return false;
  filled_ = {};
  for (Batch const& batch : scenario_->filling) {
    if (!Columns(*scenario_, batch).apply(*store).ok()) return false;
    apply(batch, filled_);
  }
  if (!store->close().ok()) return false;
  base_disk_ = disk_.now;
  return true;
}

PowerRunner::Wrong PowerRunner::write(Store& store, Batch const& batch, Contents& contents,
                                      Writing writing) {
  Expected expected = expected_.back();
  expected.old = expected.fresh = contents;
  auto const answers = apply(batch, expected.fresh);
  Columns columns(*scenario_, batch);
  CallOptions how;
  how.atomic = writing == Writing::atomically;
  expect(expected);
  if (Status const s = columns.apply(store, how); !s.ok()) return "a batch failed: " + s.message();
  contents = expected.old = expected.fresh;
  expect(std::move(expected));  // acknowledged
  return columns.check(batch, answers);
}

/// These batches as one.
PowerRunner::Wrong PowerRunner::transact(Store& store, std::span<Batch const> batches, bool commits,
                                         Contents& contents) {
  TransactionOptions options;
  options.max_operations = 0;
  for (Batch const& batch : batches) options.max_operations += batch.operations.size();
  Expected expected = expected_.back();
  expected.fresh = contents;
  auto transaction = store.begin(options);
  if (!transaction) return "begin: " + transaction.status().message();
  CallOptions how;
  how.transaction = &*transaction;
  for (Batch const& batch : batches) {
    auto const answers = apply(batch, expected.fresh);
    Columns columns(*scenario_, batch);
    if (Status const s = columns.apply(store, how); !s.ok())
      return "a batch of a transaction failed: " + s.message();
    if (auto wrong = columns.check(batch, answers)) return wrong;
  }
  if (!commits) {
    Status const s = transaction->abort();
    return s.ok() ? std::nullopt : Wrong("an abort: " + s.message());
  }
  expect(expected);
  if (Status const s = transaction->commit(); !s.ok()) return "a commit: " + s.message();
  contents = expected.old = expected.fresh;
  expect(std::move(expected));
  return std::nullopt;
}

PowerRunner::Wrong PowerRunner::snapshot(Store& store, Contents const& contents) {
  Expected expected = expected_.back();
  expected.fresh_snapshot = contents;
  expect(expected);
  if (Status const s = store.snapshot(kSnapshot, {.overwrite = true}); !s.ok())
    return "a snapshot: " + s.message();
  expected.snapshot = contents;
  expect(std::move(expected));
  return std::nullopt;
}

/// How many of them the log of entries has room for, as one: its segments have few cells here, and
/// the medium has few segments.
std::size_t PowerRunner::room_for_batches() const {
  constexpr std::size_t kOperations = 80;
  std::size_t batches = 0, operations = 0;
  for (Batch const& batch : scenario_->batches) {
    operations += batch.operations.size();
    if (operations > kOperations) break;
    ++batches;
  }
  return batches;
}

/// Batches, among them snapshots and openings, each of which begins with what a checkpoint has
/// left.
PowerRunner::Wrong PowerRunner::live(Contents& contents) {
  auto store = open_store();
  if (!store) return "the pool does not open: " + store.status().message();
  // How many batches are in a transaction; the others follow it.
  std::size_t const all = scenario_->batches.size();
  std::size_t in_one = scenario_->writing == Writing::in_one_transaction ||
                               scenario_->writing == Writing::in_one_aborted
                           ? all
                       : scenario_->writing == Writing::after_an_abort ? all - 1
                                                                       : 0;
  if (scenario_->layout == Layout::log) in_one = std::min(in_one, room_for_batches());
  if (in_one > 0) {
    bool const commits = scenario_->writing == Writing::in_one_transaction;
    if (auto wrong =
            transact(*store, std::span(scenario_->batches).first(in_one), commits, contents))
      return wrong;
  }
  for (std::size_t b = in_one; b < all; ++b) {
    if (auto wrong = write(*store, scenario_->batches[b], contents, scenario_->writing))
      return wrong;
    std::uint64_t const dice = mix(seed_, b) % 8;
    if (auto wrong = dice == 0 ? snapshot(*store, contents) : std::nullopt) return wrong;
    if (dice != 1) continue;
    if (Status const s = store->close(); !s.ok()) return "close: " + s.message();
    store = open_store();
    if (!store) return "the pool does not open again: " + store.status().message();
  }
  if (auto wrong = check_gets(*store, *scenario_, contents))
    return "after the last batch, " + *wrong;
  if (auto wrong = check_verify(*store, contents)) return "after the last batch, " + *wrong;
  if (Totals* const t = progress_.counted()) t->met.checkpoints += store->stats().log.checkpoints;
  if (Totals* const t = progress_.counted()) t->met.growths += store->stats().growths;
  Status const s = store->close();
  return s.ok() ? std::nullopt : Wrong("close: " + s.message());
}

Crasher::Forward PowerRunner::run(SimSchedule const& schedule) {
  Forward forward;
  SimScheduler scheduler(schedule);
  Scheduled const scheduled(scheduler);
  Contents contents = filled_;
  start_recording(base_disk_);
  expect({contents, contents});
  forward.wrong = live(contents);
  end_disk_run(forward, scheduler);
  return forward;
}

// ------------------------------------------------------------------------------------------------
// Power cuts

void PowerRunner::explore_creation() {
  if (!options_.crashes || scenario_->seed % 8 != 1) return;
  if (auto finding = crash_everywhere(creation_, {})) {
    finding->what = "making the pool: " + finding->what;
    finding->description = scenario_->describe();
    progress_.report(std::move(*finding));
  }
}

std::uint64_t ExpectedOfPower::hash() const {
  return mix(mix(hash_of(old), hash_of(fresh)),
             mix(mix(hash_of_possible(snapshot), hash_of_possible(fresh_snapshot)), may_refuse));
}

PowerRunner::Wrong PowerRunner::judge_cut(DiskImage const& disk, Expected const& expected,
                                          std::uint64_t chance, Recorded& recovery,
                                          std::uint64_t& logical) {
  auto wrong = judge_disk(disk, expected, chance, recovery, logical);
  return wrong ? wrong : judge_snapshot(disk, expected, chance);
}

/// Opens what the cut left, looks at everything, writes to it; closes it and opens it once more, or
/// cuts the power.
PowerRunner::Wrong PowerRunner::judge_disk(DiskImage const& disk, Expected const& expected,
                                           std::uint64_t chance, Recorded& recovery,
                                           std::uint64_t& logical) {
  start_recording(disk);
  expect(expected);
  auto store = open_store();
  if (!store && expected.may_refuse) {
    Code const code = store.status().code();
    bool const refused = code == Code::not_found || code == Code::corrupt;
    if (Totals* const t = progress_.counted()) t->recovered.refused += refused;
    recovery = stop_recording();
    return refused ? std::nullopt
                   : Wrong("what is half made is not refused: " + store.status().message());
  }
  if (!store) return "the pool does not open: " + store.status().message();
  RecoveryReport const& r = store->recovery();
  Contents found;
  if (auto wrong = scan_contents(*store, *scenario_, found)) return wrong;
  if (found != expected.old && found != expected.fresh)
    return differs(expected, found) + "; " + r.log_report;
  if (r.lost_acknowledged) return "acknowledged batches are said to be lost: " + r.log_report;
  if (r.records != count(found)) return "recovery counts " + std::to_string(r.records) + " records";
  if (!expected.half_made && damaged(r))
    return "a power cut has damaged what counts: " + r.log_report;
  if (Totals* const t = progress_.counted()) t->recovered.replayed += r.replayed;
  logical = hash_of(found);
  expected_[0].old = expected_[0].fresh = found;  // once it has been seen, it stays
  expected_[0].may_refuse = false;
  if (auto wrong = write(*store, further_writes(found), found, Writing::plainly))
    return "after recovery, " + *wrong;
  if (auto wrong = check_gets(*store, *scenario_, found)) return "after a further write, " + *wrong;
  if (auto wrong = check_verify(*store, found)) return "after a further write, " + *wrong;
  Status const closed = chance % 4 == 0 ? store->close() : Status{};
  if (!closed.ok()) return "close: " + closed.message();
  disk_.cut_power();
  store = Status{Code::closed, "no store"};  // gone
  recovery = stop_recording();
  if (chance % 4 != 0) return std::nullopt;
  start_recording(disk_.now);
  auto again = open_store();
  if (!again) return "the pool does not open again: " + again.status().message();
  if (!again->recovery().clean)
    return "a second open finds something to mend: " + again->recovery().log_report;
  auto wrong = check_gets(*again, *scenario_, found);
  disk_.cut_power();
  return wrong ? Wrong("after a second open, " + *wrong) : std::nullopt;
}

std::string PowerRunner::differs(Expected const& expected, Contents const& found) {
  for (std::size_t k = 0; k < kKeys; ++k) {
    if (found[k] != expected.old[k] && found[k] != expected.fresh[k])
      return name_of(k) + " is " + shown(found[k]) + "; it was " + shown(expected.old[k]) +
             " and may have become " + shown(expected.fresh[k]);
  }
  return "a batch took effect in part";
}

/// The snapshot is there whole, or not yet. Looked at where it may have changed, and now and then.
PowerRunner::Wrong PowerRunner::judge_snapshot(DiskImage const& disk, Expected const& expected,
                                               std::uint64_t chance) {
  if (expected.snapshot == expected.fresh_snapshot && chance % 16 != 0) return std::nullopt;
  start_recording(disk);
  std::memset(arena_.data(), 0, arena_.file_bytes);
  RestoreOptions o;
  o.durability = Durability::process;
  o.file.overwrite = true;
  auto restored = Store::restore(kSnapshot, kArenaPath, o, open_options("", scenario_->layout));
  if (!restored && restored.status().code() == Code::not_found && !expected.snapshot)
    return std::nullopt;
  if (!restored) return "a snapshot is lost: " + restored.status().message();
  Contents found;
  if (auto wrong = scan_contents(*restored, *scenario_, found)) return "a snapshot: " + *wrong;
  bool const right = found == expected.snapshot || found == expected.fresh_snapshot;
  return right ? std::nullopt : Wrong("a snapshot holds what it was not taken of");
}

}  // namespace perdure::explore
