#include "store/gphash/recovery.hpp"

#include <algorithm>
#include <chrono>
#include <mutex>

#include "base/assert.hpp"
#include "base/hooks.hpp"
#include "batch/pieces.hpp"
#include "index/gphash/root_levels.hpp"
#include "pm/record_numbers.hpp"
#include "pm/root.hpp"
#include "store/gphash/undoing.hpp"
#include "store/repair_reports.hpp"

namespace perdure {
namespace {

using Clock = std::chrono::steady_clock;

/// Of layout `log`, whose batches give each key a record of its own.
Status two_lead_there(std::string const& path, std::string const& slot) {
  return {Code::corrupt,
          "pool " + path + ": its log of entries leads two keys to one record (" + slot +
              "), so an entry is damaged; nothing was changed: restore a snapshot, or "
              "open it with repair (repair=True, perdure verify --repair), which "
              "mends what it can and says what it drops"};
}

}  // namespace

Status Recovery::attach() {
  begin_ = Clock::now();
  Status const known = pm::check_names(core_.path, core_.pool.root(), [](std::string_view name) {
    return gphash::is_level_name(name) || name == wal::kUndoRoom || name == pm::kDenseRoom ||
           name == pm::kRecordNumbers || name == wal::kEntrySegments ||
           name == wal::kEntryNumbers || name == wal::kEntrySessions || name == wal::kUndoReverts;
  });
  if (!known.ok()) return known;
  auto const named = [&](Status const& s) {
    return s.ok() ? s : Status{s.code(), "pool " + core_.path + ": " + s.message()};
  };
  if (Status s = core_.table.attach(); !s.ok()) return named(s);
  // A repair takes it over once it is mended: see repair_entries().
  bool const log = core_.logged() && !core_.options.repair;
  if (Status s = log ? core_.entries.attach() : Status{}; !s.ok()) return named(s);
  if (Status s = core_.undo.attach(); !s.ok()) return named(s);
  return named(core_.dense.attach());
}

EngineOptions Recovery::engine_options() const {
  pm::PoolHeader const& h = core_.pool.header();
  OpenOptions const& options = core_.options;
  EngineOptions e;
  e.base = core_.pool.base();
  e.in_place = core_.in_place();
  e.default_shape = h.levels == 2 && h.hashes == 2 && h.slots == 8;
  e.count_accesses = options.count_accesses;
  e.verify_reads = options.verify_reads;
  e.displacement = options.displacement;
  e.workers = &core_.workers;
  e.gather = options.memory.gather;
  e.memory_budget = options.memory.budget_bytes;
  e.cache_bytes = options.memory.cache_bytes;
  e.cache_policy = options.memory.cache_policy;
  e.logged = core_.logged();
  e.hashed = h.logs_hashes();
  e.mirrored = e.logged || options.memory.residency == Residency::mirrored ||
               (options.memory.residency == Residency::automatic &&
                options.device == Device::cuda && !e.in_place);
  return e;
}

Status Recovery::start_engine() {
  PERDURE_ASSERT(core_.engine == nullptr && core_.table.slots() > 0);
  EngineOptions const options = engine_options();
  if (options.in_place && options.mirrored)
    return {Code::invalid_argument,
            "pool " + core_.path +
                " has layout in_place, which is never mirrored; open it with residency pm"};
  core_.engine_options = options;
  if (core_.options.device == Device::cuda) {
    auto engine = make_cuda_engine(options);
    if (!engine) return engine.status();
    core_.engine = std::move(*engine);
  } else {
    core_.engine = make_cpu_engine(options);
  }
  Status const s = core_.show_table();
  if (s.code() != Code::no_space) return s;
  return {s.code(), "pool " + core_.path + ": its device has no memory for " + s.message() +
                        "; free some of it, or open the pool with device cpu"};
}

Status Recovery::run(BatchWriter& writer) {
  PERDURE_ASSERT(core_.engine != nullptr && !core_.lock.announced());
  RecoveryReport& report = core_.recovery;
  gphash::Table& table = core_.table;
  report.clean = core_.pool.root().clean == 1;
  bool const grows = table.growing();
  if (core_.pool.read_only() && (!report.clean || grows)) return unrecovered_read_only(core_.path);
  bool const cut_off = core_.repairs.unfinished() != pm::Unfinished::nothing;
  if (cut_off && !core_.options.repair) return repair_cut_off(core_.path);
  std::vector<std::string> wrong;  // of a pool that was closed in order
  if (report.clean) wrong = changed_words();
  if (left_ && grows && table.sum(core_.workers).sum != left_->sum)
    wrong.push_back("the sum of its slots differs");
  if (!wrong.empty() && !core_.options.repair) return changed_since_close(core_.path, wrong);
  if (Status s = undo_and_complete(); !s.ok()) return s;
  auto surveyed = survey();
  if (!surveyed) return surveyed.status();
  gphash::Survey& found = *surveyed;
  if (report.clean && !grows) compare_slots(found, wrong);
  bool const doubtful = core_.logged() && (mended_ || !found.again.empty());
  if (!wrong.empty() && !core_.options.repair) return changed_since_close(core_.path, wrong);
  if (doubtful && !core_.options.repair)
    return two_lead_there(core_.path, table.name(found.again.front()));
  if (!wrong.empty() || doubtful) {
    changes_.begin_opening();
    if (!core_.logged()) {
      found = repair(wrong);
    } else if (Status s = repair_table(writer, wrong, found); !s.ok()) {
      return s;
    }
    dropped(repair_dropped_, "were dropped by the repair");
  } else if (!report.clean || grows) {
    gphash::Mended const mended = gphash::mend_crash(table, found);
    note_changes(report, mended.lines);
    report.duplicates = mended.dropped;
    dropped(found.half.size(), "were half inserted");
  }
  dropped(found.astray, "lead to no record (run verify)");
  if (Status s = core_.engine->refresh(); !s.ok()) return s;
  table.pool_grew();
  astray_ = found.astray;
  report.records = found.records;
  core_.counters.set_records(found.records);
  core_.sequence = pm::leased_numbers(core_.pool);
  open_for_writing();
  report.recover_seconds = std::chrono::duration<double>(Clock::now() - begin_).count();
  return {};
}

Result<gphash::Survey> Recovery::survey() {
  if (core_.logged()) {
    if (core_.fixed_stride() != 0) {  // else superblocks have records of several strides
      auto found = survey_by_engine();
      if (!found) return found.status();
      if (*found) return std::move(**found);  // else something is wrong: say what
    }
    if (Status s = core_.show_words(); !s.ok()) return s;
  }
  return gphash::survey(core_.table, core_.workers);
}

/// Nothing where some words lead where they should not.
Result<std::optional<gphash::Survey>> Recovery::survey_by_engine() {
  core_.heap.find_superblocks();
  pm::RecordHeap::Lease maps = core_.heap.maps_to_mark(core_.fixed_stride());
  auto marked = core_.engine->mark_records(maps);
  if (!marked)
    return Status{marked.status().code(), "pool " + core_.path + ": the map of its records: " +
                                              marked.status().message() + "; free some memory"};
  if (marked->again != 0 || marked->astray != 0) return std::optional<gphash::Survey>();
  core_.heap.take_marks(maps);
  core_.heap.finish_recovery();
  gphash::Survey found;
  found.records = marked->records;
  found.sum = marked->sum;
  return std::optional(std::move(found));
}

void Recovery::dropped(std::uint64_t slots, char const* what) {
  RecoveryReport& report = core_.recovery;
  report.dropped += slots;
  if (slots == 0) return;
  if (!report.why_dropped.empty()) report.why_dropped += "; ";
  report.why_dropped += std::to_string(slots) + " slots " + what;
}

/// What a transaction, or a growth, had begun.
Status Recovery::undo_and_complete() {
  RecoveryReport& report = core_.recovery;
  bool const grows = core_.table.growing();
  if (!report.clean || grows) changes_.begin_opening();
  if (report.clean && grows) {  // from here on a crash leaves it half moved
    pm::Root root = core_.pool.root();
    root.clean = 0;
    core_.pool.publish_root(root);
  }
  if (!report.clean && !mutated("recovery_skips_undo")) {
    // By the log of entries a step's transaction may have committed before its epoch ended.
    bool const committed =
        core_.entries.committed() == core_.undo.ended() + 1 && !mutated("committed_step_undone");
    std::uint64_t const undone = committed ? 0 : undo_words(core_, 0);
    report.undone += undone;
    bool const reverts = committed && core_.entries.committed_reverts();
    if ((committed || undone > 0) && !mutated("epoch_survives_undo")) core_.undo.end(reverts);
  }
  if (grows && core_.undo.revertible()) core_.undo.keep();  // slots that it names move
  if (!grows || mutated("recovery_skips_resize")) return {};
  report.resize_resumed = true;
  core_.counters.add_growth(1);
  core_.heap.guard_superblocks(true);  // which of them hold records is not known yet
  Status s = core_.engine->refresh();
  if (s.ok()) s = growth_.complete();
  core_.heap.guard_superblocks(false);
  PERDURE_ASSERT(!s.ok() || !core_.table.growing());
  return s.code() == Code::no_space ? Status{} : s;
}

/// That a crash cut off: what was read of it is all that it wrote.
void Recovery::end_session_left() {
  if (!core_.entries.in_session()) return;
  std::uint64_t const number = core_.entries.last_number() + 1;
  if (number > pm::leased_numbers(core_.pool)) pm::lease_numbers(core_.pool, number);
  core_.entries.end_session(number, core_.workers);
  core_.sequence = pm::leased_numbers(core_.pool);
}

/// The root first: what tells that the last batch was ordered may be what is dropped behind it.
void Recovery::settle_log(pm::Root root) {
  if (mutated("opening_drops_before_root")) core_.entries.finish_reading();
  core_.entries.note_ordered(root);
  core_.pool.publish_root(root);
  core_.entries.finish_reading();
  end_session_left();
}

void Recovery::open_for_writing() {
  if (core_.pool.read_only()) return;
  PERDURE_ASSERT(core_.sequence == pm::leased_numbers(core_.pool));
  changes_.begin_opening();
  pm::Root root = core_.pool.root();
  if (!mutated("clean_flag_stays")) root.clean = 0;
  core_.logged() ? settle_log(root) : core_.pool.publish_root(root);
}

VerifyReport Recovery::look_at_slots(std::atomic<bool> const* stop) {
  gphash::Table& table = core_.table;
  VerifyReport report;
  std::mutex mutex;
  core_.workers.for_chunks(table.slots(), 1 << 14, [&](std::size_t begin, std::size_t end) {
    if (stopped(stop)) return;
    std::uint64_t good = 0;
    for (std::uint64_t number = begin; number < end; ++number) {
      auto const entry = table.entry(number);
      if (!entry) continue;
      std::string const fault = table.fault(number, *entry);
      if (fault.empty()) {
        ++good;
        continue;
      }
      std::lock_guard const lock(mutex);
      ++report.fault_count;
      if (report.faults.size() < kMostFaults)
        report.faults.push_back(table.name(number) + ": " + fault);
    }
    std::lock_guard const lock(mutex);
    report.records += good;
  });
  PERDURE_ASSERT(report.records + report.fault_count <= table.slots());
  std::sort(report.faults.begin(), report.faults.end());
  return report;
}

}  // namespace perdure
