// The explorer's runner: the pool before a run, the run as a whole, and the judgement of what a
// crash left. What a run does to the store is in runner_batches.cpp and runner_steps.cpp.
// Invariant: a scenario's run follows from its seed and its schedule alone.
#include "explore/runner.hpp"

#include <algorithm>
#include <cstring>

#include "explore/judging.hpp"
#include "explore/pool_identity.hpp"
#include "index/gphash/candidates.hpp"
#include "pm/pool_format.hpp"
#include "store/gphash/engine/engine.hpp"

namespace perdure::explore {
namespace {

using exec::SimSchedule;
using exec::SimScheduler;

// of tables with about as many slots as keys: half of it, or a bit more
constexpr std::uint64_t kCacheBytes = 500;

OpenOptions open_options(bool grows = true) {
  OpenOptions o;
  o.threads = 1;
  o.grow = grows;
  o.memory.residency = machine.mirrored ? Residency::mirrored : Residency::pm;
  if (machine.cached) {
    o.memory.cache_bytes = kCacheBytes;
    o.memory.cache_policy = CachePolicy::random;  // loads evict, though nobody gets
  }
  return o;
}

/// Nobody is writing the root: both copies are whole, and one follows the other.
std::optional<std::string> check_roots(Arena const& a) {
  pm::Root copies[2];
  for (int i = 0; i < 2; ++i) {
    std::memcpy(&copies[i], a.data() + pm::kRootOffset[i], sizeof(pm::Root));
    bool const fits = copies[i].entries <= pm::kMaxRootEntries;
    if (!fits || copies[i].crc != copies[i].checksum()) return "a copy of the root is torn";
  }
  std::uint64_t const low = std::min(copies[0].sequence, copies[1].sequence);
  if (copies[0].sequence + copies[1].sequence != 2 * low + 1)
    return "a copy of the root is out of date";
  copies[0].sequence = copies[1].sequence = 0;
  copies[0].crc = copies[1].crc = 0;
  if (std::memcmp(&copies[0], &copies[1], copies[0].bytes()) != 0)
    return "the copies of the root differ";
  return std::nullopt;
}

}  // namespace

Runner::Runner(Options const& options, Totals& totals) : Crasher(options, totals, 8) {}

std::string Runner::describe(std::uint64_t scenario_seed) const {
  return make_scenario(scenario_seed, options_.layout, options_.bounds).describe();
}

std::uint64_t Runner::hash_of_oracle(std::size_t oracle) const {
  Oracle const& o = oracles_[oracle];
  auto const back = [](std::optional<Back> const& to) {
    return to ? mix(hash_of(to->contents), to->step.value_or(0)) : 0;
  };
  return mix(hash_of(o.old), hash_of(o.fresh)) +
         mix(o.old_step.value_or(0), o.fresh_step.value_or(0)) +
         mix(back(o.old_back), back(o.fresh_back)) + o.kept;
}

// ------------------------------------------------------------------------------------------------
// A run

/// A new pool, filled and closed: the state before the run.
bool Runner::set_up(std::uint64_t scenario_seed) {
  scenario_ = make_scenario(scenario_seed, options_.layout, options_.bounds);
  Scenario const& scenario = *scenario_;
  machine = scenario.machine;
  gphash::explored_window_bits = machine.window_bits;
  SimScheduler scheduler({});
  Simulated const simulated(scheduler, tracker_);
  CreateOptions create;
  create.key_bytes = scenario.key_bytes;
  create.value_bytes = scenario.value_bytes;
  create.expected_records = 1;
  create.layout = scenario.layout;
  create.shape = scenario.shape;
  create.max_bytes = scenario.superblocks * pm::kMinSuperblock;
  oracles_.assign(1, {{}, {}, false, true});
  tracker_.recorder.set_oracle(0);
  tracker_.recorder.record(options_.crashes && !progress_.quiet);
  auto store = Store::create(kArenaPath, create, open_options());
  tracker_.recorder.cut(false);
  tracker_.recorder.record(false);
  creation_ = tracker_.recorder.take_windows();
  if (!store || !store->close().ok()) return false;
  without_chance(arena_);
  store = Store::open(kArenaPath, open_options());
  if (!store) return false;
  filled_ = {};
  for (Batch const& batch : scenario.filling) {
    Columns columns(scenario, batch);
    Status const s = columns.apply(*store);
    if (!s.ok() && !(scenario.superblocks != 0 && s.code() == Code::no_space)) return false;
    apply_but(columns.refused(batch), batch, filled_);
  }
  if (scenario.roomy && !store->begin({2 * kKeys})) return false;  // and it aborts
  if (!store->close().ok()) return false;
  base_ = medium_.now();
  return true;
}

/// From here on a crash may leave this.
void Runner::expect(Oracle oracle) {
  oracles_.push_back(std::move(oracle));
  tracker_.recorder.set_oracle(oracles_.size() - 1);
}

Crasher::Forward Runner::run(SimSchedule const& schedule) {
  Scenario const& scenario = *scenario_;
  Forward forward;
  medium_.back_to(base_);
  Contents contents = filled_;
  oracles_.assign(1, {contents, contents});
  SimScheduler scheduler(schedule);
  Simulated const simulated(scheduler, tracker_);
  tracker_.recorder.record(true);
  tracker_.recorder.follow_volatile(scenario.writing == Writing::in_device_sessions);
  tracker_.recorder.set_oracle(0);
  sessions_ = 0;
  auto const whole = [&]() -> std::optional<std::string> {
    auto store = Store::open(kArenaPath, open_options(scenario.grows));
    if (!store) return "the pool does not open: " + store.status().message();
    if (scenario.writing == Writing::in_device_sessions) {
      for (Batch const& batch : scenario.batches)
        if (auto wrong = run_session(*store, batch, contents)) return wrong;
    } else if (scenario.writing == Writing::in_steps) {
      if (auto wrong = run_steps(*store, scenario, contents)) return wrong;
    } else if (scenario.writing == Writing::in_one_transaction ||
               scenario.writing == Writing::in_one_aborted) {
      bool const commits = scenario.writing == Writing::in_one_transaction;
      if (auto wrong = run_transaction(*store, scenario.batches, commits, contents)) return wrong;
    } else if (scenario.writing == Writing::after_an_abort) {
      auto const aborted = std::span(scenario.batches).first(scenario.batches.size() - 1);
      if (auto wrong = run_transaction(*store, aborted, false, contents)) return wrong;
      if (auto wrong = run_batch(*store, scenario.batches.back(), contents)) return wrong;
    } else if (auto wrong = run_batches(*store, scenario, contents)) {
      return wrong;
    }
    forward.taken = scheduler.taken();
    forward.others = scheduler.others();
    if (auto wrong = check_gets(*store, scenario, contents))
      return "after the last batch, " + *wrong;
    if (auto wrong = check_verify(*store, contents)) return "after the last batch, " + *wrong;
    if (auto wrong = check_counts(*store, contents)) return "after the last batch, " + *wrong;
    if (Totals* const t = progress_.counted()) {
      t->met.growths += store->stats().growths;
      t->met.displacements += store->stats().displacements;
    }
    if (Status const s = store->close(); !s.ok()) return "close: " + s.message();
    tracker_.recorder.cut(true);
    return std::nullopt;
  };
  forward.wrong = whole();
  end_run(forward, scheduler);
  if (!forward.wrong) forward.wrong = read_beside(forward.windows, contents);
  return forward;
}

/// Of a transaction, which may abort, a reader of layout `word` sees what was never there; of a
/// session's operations nobody noted each. In layout `log` both count as a whole.
std::optional<std::string> Runner::read_beside(std::vector<Window> const& windows,
                                               Contents const& end) {
  Writing const writing = scenario_->writing;
  bool const alone = writing == Writing::plainly || writing == Writing::atomically;
  bool const logged = scenario_->layout == Layout::log;
  if (!logged && (scenario_->layout != Layout::word || !alone)) return std::nullopt;
  medium_.back_to(base_);
  auto const held = [&](std::size_t k, std::optional<std::uint64_t> value) {
    return std::ranges::any_of(
        oracles_, [&](Oracle const& o) { return o.old[k] == value || o.fresh[k] == value; });
  };
  return reader_.check(arena_, windows, *scenario_, held, end);
}

// ------------------------------------------------------------------------------------------------
// Crashes

std::optional<std::string> Runner::judge_open(Store& store, Oracle const& oracle, Contents& found) {
  if (auto wrong = scan_contents(store, *scenario_, found)) return wrong;
  if (oracle.session) {
    if (auto wrong = explain(oracle, found)) return wrong;
  }
  for (std::size_t k = 0; k < kKeys && !oracle.session; ++k) {
    if (found[k] != oracle.old[k] && found[k] != oracle.fresh[k]) {
      return name_of(k) + " is " + shown(found[k]) + "; it was " + shown(oracle.old[k]) +
             " and may have become " + shown(oracle.fresh[k]);
    }
  }
  if (oracle.whole && found != oracle.old && found != oracle.fresh)
    return "an atomic batch took effect in part";
  RecoveryReport const& r = store.recovery();
  if (Totals* const t = progress_.counted()) {
    t->recovered.undone += r.undone > 0;
    t->recovered.resumed += r.resize_resumed;
    t->recovered.duplicates += r.duplicates > 0;
    t->recovered.half_inserted += r.dropped > 0;
  }
  if (r.records != count(found))
    return "recovery counts " + std::to_string(r.records) + " records of " +
           std::to_string(count(found));
  if (r.why_dropped.find("lead to no record") != std::string::npos)
    return "recovery: " + r.why_dropped;
  if (r.dropped != 0 && scenario_->layout == Layout::word)
    return "recovery dropped slots: " + r.why_dropped;
  bool const settled = oracle.old == oracle.fresh && oracle.old_step == oracle.fresh_step;
  if (r.clean && !settled) return "the pool says that it was closed in order";
  if (auto wrong = check_gets(store, *scenario_, found)) return wrong;
  return check_verify(store, found);
}

/// Opens what the crash left, looks at everything, writes to it, closes it, opens it once more.
std::optional<std::string> Runner::judge(std::size_t which, bool record_recovery,
                                         std::vector<Window>& recovery, std::uint64_t& logical) {
  Oracle const& oracle = oracles_[which];
  tracker_.recorder.record(record_recovery);
  auto store = Store::open(kArenaPath, open_options());
  if (record_recovery) tracker_.recorder.cut(false);
  tracker_.recorder.record(false);
  recovery = tracker_.recorder.take_windows();
  for (Window& w : recovery) w.oracle = which;
  if (!store && oracle.may_refuse && store.status().code() == Code::corrupt) {
    if (Totals* const t = progress_.counted()) ++t->recovered.refused;
    return std::nullopt;
  }
  if (!store) return "the pool does not open: " + store.status().message();
  Contents found;
  if (auto wrong = judge_open(*store, oracle, found)) return wrong;
  bool const steps = scenario_->writing == Writing::in_steps;
  std::optional<std::uint64_t> step;
  if (auto wrong = steps ? judge_step(*store, oracle, found, step) : std::nullopt) return wrong;
  logical = mix(hash_of(found), step ? *step + 1 : 0);
  if (auto wrong = check_roots(arena_)) return wrong;
  Batch const more = further_writes(found);
  Columns columns(*scenario_, more);
  bool const may_fill = scenario_->superblocks != 0;
  if (Status const s = columns.apply(*store); !s.ok() && !(may_fill && s.code() == Code::no_space))
    return "a write after recovery fails: " + s.message();
  auto const answers = apply_but(columns.refused(more), more, found);
  for (std::size_t i = 0; i < answers.size(); ++i)
    if (columns.statuses[i] != answers[i].status) return "a write after recovery answers wrongly";
  if (auto wrong = check_gets(*store, *scenario_, found)) return "after a further write, " + *wrong;
  if (auto wrong = check_counts(*store, found)) return "after a further write, " + *wrong;
  if (auto wrong = steps ? further_step(*store, step) : std::nullopt)
    return "after recovery, " + *wrong;
  if (tracker_.crashed.read_hash() % 8 == 0 && store->stats().units_left == 0) {
    // Killed now, with everything on the medium: recovery may not act on what an earlier one has
    // mended. (Of a growth it would take the rest away from the store that is still open here.)
    auto killed = Store::open(kArenaPath, open_options());
    if (!killed)
      return "killed after recovery, the pool does not open: " + killed.status().message();
    if (killed->recovery().undone != 0)
      return "killed after recovery, a transaction is undone once more";
    if (auto wrong = check_gets(*killed, *scenario_, found))
      return "killed after recovery, " + *wrong;
    if (auto wrong = steps ? check_step(*killed, step) : std::nullopt)
      return "killed after recovery, " + *wrong;
  }
  if (Status const s = store->close(); !s.ok()) return "close: " + s.message();
  auto again = Store::open(kArenaPath, open_options());
  if (!again) return "the pool does not open again: " + again.status().message();
  RecoveryReport const& r = again->recovery();
  // without room for it, close() leaves a growth as it is
  bool const resumed = r.resize_resumed && !may_fill;
  if (!r.clean || r.dropped != 0 || r.duplicates != 0 || resumed || r.records != count(found))
    return "a second open finds something to mend: closed in order " + std::to_string(r.clean) +
           ", growth resumed " + std::to_string(r.resize_resumed) + ", " +
           std::to_string(r.dropped) + " dropped, " + std::to_string(r.duplicates) +
           " duplicates, " + std::to_string(r.records) + " records of " +
           std::to_string(count(found));
  if (auto wrong = check_verify(*again, found)) return "after a second open, " + *wrong;
  if (auto wrong = steps ? check_step(*again, step) : std::nullopt)
    return "after a second open, " + *wrong;
  return std::nullopt;
}

/// Most recoveries write the root and nothing else, all in the same way: of those, some.
bool Runner::worth_crashing(std::vector<Window> const& recovery) const {
  std::uint64_t const root_ends = pm::kMinSuperblock / 8;
  for (Window const& w : recovery)
    for (Event const& e : w.events)
      if (e.word >= root_ends) return true;
  return tracker_.crashed.read_hash() % 16 == 0;
}

/// Crashes while the pool is being made.
void Runner::explore_creation() {
  if (!options_.crashes || scenario_->seed % 16 != 0)
    return;  // there are ten shapes, and it is always the same
  auto const made = arena_.snapshot_since(0);
  medium_.back_to({});
  if (auto finding = crash_everywhere(creation_, {})) {
    finding->what = "making the pool: " + finding->what;
    finding->description = scenario_->describe();
    progress_.report(std::move(*finding));
  }
  medium_.back_to({0, base_.file_bytes, 0});
  for (auto const& [word, value] : made) arena_.set(word, value);
  base_ = medium_.now();
}

}  // namespace perdure::explore
