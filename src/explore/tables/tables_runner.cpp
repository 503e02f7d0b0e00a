#include "explore/tables/tables_runner.hpp"

#include <algorithm>
#include <utility>

#include "explore/pool_identity.hpp"
#include "index/gphash/candidates.hpp"

namespace perdure::explore {
namespace {

constexpr std::uint64_t kAfterRecovery = 1000;  // a step that runs do not take
constexpr std::uint64_t kRoom = 32;             // operations of a step, at most

OpenOptions tables_open_options(Machine const& machine) {
  OpenOptions o;
  o.threads = 1;
  o.memory.residency = machine.mirrored ? Residency::mirrored : Residency::pm;
  return o;
}

/// Rows of several tables as a batch: the tables are those of the store.
struct RowBatch {
  RowBatch(std::vector<Table> const& of_pool, std::vector<RowKey> in_any_order)
      : keys(std::move(in_any_order)) {
    std::ranges::stable_sort(keys, {}, &RowKey::first);
    offsets.push_back(0);
    for (RowKey const& key : keys) {
      if (tables.empty() || tables.back().number != key.first) {
        if (!tables.empty()) offsets.push_back(std::ssize(ids));
        tables.push_back(of_pool[key.first - 1]);
      }
      ids.push_back(key.second);
      words += kRowWords[key.first];
    }
    if (!tables.empty()) offsets.push_back(std::ssize(ids));
    statuses.resize(ids.size());
  }
  [[nodiscard]] TableBatch batch() const { return {tables, ids, offsets}; }
  [[nodiscard]] std::vector<std::uint64_t> rows(std::uint64_t step) const {
    std::vector<std::uint64_t> all;
    for (RowKey const& key : keys)
      for (std::uint32_t w = 0; w < kRowWords[key.first]; ++w)
        all.push_back(row_word(key, step, w));
    return all;
  }

  std::vector<RowKey> keys;
  std::vector<Table> tables;
  std::vector<std::int64_t> ids, offsets;
  std::vector<KeyStatus> statuses;
  std::size_t words = 0;
};

std::string row_name(RowKey const& key) {
  return "row " + std::to_string(key.second) + " of " + name_of_table(key.first);
}

/// A row's words are of one step, which goes into `rows`.
std::optional<std::string> take_row(RowKey const& key, std::uint64_t const* words,
                                    TableRows& rows) {
  auto const weight = step_in(key, 0, words[0]);
  for (std::uint32_t w = 0; w < kRowWords[key.first]; ++w) {
    auto const of = step_in(key, w, words[w]);
    if (of && of == weight) continue;
    return row_name(key) + ": its weight is of " +
           (weight ? "step " + std::to_string(*weight) : "no step") + ", and word " +
           std::to_string(w) + " of " + (of ? "step " + std::to_string(*of) : "none");
  }
  rows[key] = *weight;
  return std::nullopt;
}

/// All rows of all tables, by one batch.
std::optional<std::string> read_rows(Store& store, std::vector<Table> const& tables,
                                     TableRows& rows) {
  std::vector<RowKey> all;
  for (Table const& table : tables)
    for (std::int64_t id = 0; id < kIdsOfATable; ++id) all.push_back({table.number, id});
  RowBatch batch(tables, all);
  std::vector<std::uint64_t> words(batch.words);
  Status const s =
      store.get_tables(batch.batch(), std::as_writable_bytes(std::span(words)), batch.statuses);
  if (!s.ok()) return "get_tables: " + s.message();
  std::size_t at = 0;
  for (std::size_t i = 0; i < batch.keys.size(); at += kRowWords[batch.keys[i].first], ++i) {
    if (batch.statuses[i] == KeyStatus::not_found) continue;
    if (batch.statuses[i] != KeyStatus::ok)
      return row_name(batch.keys[i]) + " answers status " +
             std::to_string(static_cast<int>(batch.statuses[i]));
    if (auto wrong = take_row(batch.keys[i], words.data() + at, rows)) return wrong;
  }
  return std::nullopt;
}

/// Nothing is there besides the rows and the catalogue, and all of it is whole.
std::optional<std::string> check_records(Store& store, std::size_t rows, std::size_t tables) {
  auto const report = store.verify();
  if (!report) return "verify: " + report.status().message();
  if (report.value().fault_count != 0) return "verify: " + report.value().faults.front();
  std::uint64_t const records = rows + tables + (tables != 0 ? 1 : 0);  // with the count
  if (report.value().records == records && store.stats().records == records) return std::nullopt;
  return "verify counts " + std::to_string(report.value().records) + " records, the store " +
         std::to_string(store.stats().records) + ", of " + std::to_string(records);
}

std::string shown_step(TableRows const& rows, RowKey const& key) {
  auto const at = rows.find(key);
  return at == rows.end() ? "absent" : "of step " + std::to_string(at->second);
}

/// What of `found` is neither old nor fresh, row by row; nothing: each row is one of the two.
std::optional<std::string> wrong_row(TableRows const& found, TableRows const& old,
                                     TableRows const& fresh) {
  for (std::uint64_t table = kUsers; table <= kGone; ++table) {
    for (std::int64_t id = 0; id < kIdsOfATable; ++id) {
      RowKey const key{table, id};
      std::string const now = shown_step(found, key), before = shown_step(old, key),
                        after = shown_step(fresh, key);
      if (now != before && now != after)
        return row_name(key) + " is " + now + "; it was " + before + " and may have become " +
               after;
    }
  }
  return std::nullopt;
}

/// An id that is gone from users has a note of that, which is not an older one.
std::optional<std::string> without_note(TableRows const& found, TableRows const& old) {
  for (std::int64_t id = 0; id < kIdsOfATable; ++id) {
    RowKey const row{kUsers, id}, note{kGone, id};
    bool const erased = old.contains(row) && !found.contains(row);
    if (erased && shown_step(found, note) == shown_step(old, note))
      return row_name(row) + " is erased without its note";
  }
  return std::nullopt;
}

}  // namespace

std::string TablesRunner::describe(std::uint64_t scenario_seed) const {
  return make_tables_scenario(scenario_seed, options_.bounds.warps, options_.bounds.batches)
      .describe();
}

std::uint64_t TablesRunner::hash_of_oracle(std::size_t oracle) const {
  Oracle const& o = oracles_[oracle];
  std::uint64_t h = mix(o.tables, o.fresh_tables * 2 + (o.whole ? 1 : 0));
  for (auto const* rows : {&o.old, &o.fresh})
    for (auto const& [key, step] : *rows) h = mix(h, row_word(key, step, 0));
  return h;
}

// ------------------------------------------------------------------------------------------------
// A run

/// A new pool with its first three tables, filled and closed.
bool TablesRunner::set_up(std::uint64_t scenario_seed) {
  scenario_ = make_tables_scenario(scenario_seed, options_.bounds.warps, options_.bounds.batches);
  machine = scenario_.machine;
  gphash::explored_window_bits = machine.window_bits;
  exec::SimScheduler scheduler({});
  Simulated const simulated(scheduler, tracker_);
  CreateOptions create;
  create.key_bytes = sizeof(TableKey);
  create.value_bytes = scenario_.value_bytes;
  create.expected_records = 1;
  create.shape = scenario_.shape;
  auto store = Store::create(kArenaPath, create, tables_open_options(machine));
  if (!store || !store->close().ok()) return false;
  without_chance(arena_);
  store = Store::open(kArenaPath, tables_open_options(machine));
  if (!store) return false;
  for (std::uint64_t table = kUsers; table <= kGone && !scenario_.begins_empty; ++table)
    if (!store->table(name_of_table(table), kRowWords[table] * 8)) return false;
  auto const tables = store->tables();
  RowBatch const batch(tables.value(), scenario_.filling);
  auto const rows = batch.rows(0);
  if (!batch.keys.empty() && !store->put_tables(batch.batch(), std::as_bytes(std::span(rows))).ok())
    return false;
  filled_ = {};
  for (RowKey const& key : batch.keys) filled_[key] = 0;
  if (scenario_.roomy && !store->begin({kRoom})) return false;  // and it aborts
  if (!store->close().ok()) return false;
  base_ = medium_.now();
  return true;
}

/// From here on a crash may leave this.
void TablesRunner::expect(Oracle oracle) {
  oracles_.push_back(std::move(oracle));
  tracker_.recorder.set_oracle(oracles_.size() - 1);
}

/// The next one, which is there whole or not at all.
std::optional<std::string> TablesRunner::make_table(Store& store) {
  Oracle oracle = oracles_.back();
  std::uint64_t const number = ++oracle.fresh_tables;
  expect(oracle);
  auto const made = store.table(name_of_table(number), kRowWords[number] * 8);
  if (!made) return "making a table: " + made.status().message();
  if (made.value().number != number) return "a table has the wrong number";
  oracle.tables = number;
  expect(oracle);
  tracker_.recorder.cut(true);
  return std::nullopt;
}

std::optional<std::string> TablesRunner::write_change(Store& store, TableStep const& step,
                                                      Change const& change, std::uint64_t number,
                                                      CallOptions const& how) {
  auto const tables = store.tables();
  if (!tables) return "tables: " + tables.status().message();
  auto const put = [&](std::vector<RowKey> const& keys) -> Status {
    RowBatch const batch(tables.value(), keys);
    auto const rows = batch.rows(number);
    return keys.empty() ? Status{}
                        : store.put_tables(batch.batch(), std::as_bytes(std::span(rows)), {}, how);
  };
  auto const erase = [&]() -> Status {
    RowBatch const batch(tables.value(), change.erased);
    return change.erased.empty() ? Status{} : store.erase_tables(batch.batch(), {}, how);
  };
  std::vector<std::vector<RowKey>> parts = {change.put, change.notes};
  if (step.writing == TableStep::Writing::at_once) {
    parts[0].insert(parts[0].end(), change.notes.begin(), change.notes.end());
    parts.pop_back();
  } else if (step.writing != TableStep::Writing::plainly &&
             step.writing != TableStep::Writing::atomically) {
    auto const items = std::ranges::stable_partition(
        parts[0], [](RowKey const& key) { return key.first == kUsers; });
    parts.insert(parts.begin() + 1, std::vector<RowKey>(items.begin(), items.end()));
    parts[0].erase(items.begin(), items.end());
  }
  std::vector<Status> done;
  if (!step.notes_first) done.push_back(erase());
  for (auto const& part : parts) done.push_back(put(part));
  if (step.notes_first) done.push_back(erase());
  for (Status const& s : done)
    if (!s.ok()) return "a batch of a step fails: " + s.message();
  return std::nullopt;
}

std::optional<std::string> TablesRunner::run_transaction(Store& store, TableStep const& step,
                                                         Change const& change,
                                                         std::uint64_t number) {
  auto transaction = store.begin({kRoom});
  if (!transaction) return "begin: " + transaction.status().message();
  CallOptions how;
  how.transaction = &*transaction;
  if (auto wrong = write_change(store, step, change, number, how)) return wrong;
  Oracle oracle = oracles_.back();
  oracle.fresh = change.rows;
  expect(std::move(oracle));
  Status const s = transaction->commit();
  return s.ok() ? std::nullopt : std::optional("a commit: " + s.message());
}

std::optional<std::string> TablesRunner::run_step(Store& store, TableStep const& step,
                                                  std::uint64_t number) {
  Oracle oracle = oracles_.back();
  Change change{oracle.old, step.put, {}, {}};
  for (std::int64_t const id : step.erased) {
    if (!oracle.old.contains({kUsers, id})) continue;
    change.erased.push_back({kUsers, id});
    change.notes.push_back({kGone, id});
  }
  step.apply(change.rows, number);
  bool const alone =
      step.writing == TableStep::Writing::plainly || step.writing == TableStep::Writing::atomically;
  CallOptions how;
  how.atomic = step.writing == TableStep::Writing::atomically;
  if (alone) {
    oracle.fresh = change.rows;
    oracle.whole = step.is_whole();
    expect(oracle);
  }
  if (auto wrong = alone ? write_change(store, step, change, number, how)
                         : run_transaction(store, step, change, number))
    return wrong;
  oracle.old = oracle.fresh = change.rows;
  oracle.whole = true;
  expect(std::move(oracle));
  tracker_.recorder.cut(true);
  if (Totals* const t = progress_.counted()) ++t->met.steps;
  return std::nullopt;
}

std::optional<std::string> TablesRunner::run_steps(Store& store) {
  while (oracles_.back().tables < kGone)
    if (auto wrong = make_table(store)) return wrong;
  for (std::size_t n = 0; n < scenario_.steps.size(); ++n) {
    TableStep const& step = scenario_.steps[n];
    if (auto wrong = step.makes_table ? make_table(store) : std::nullopt) return wrong;
    if (auto wrong = run_step(store, step, n + 1)) return wrong;
    TableRows found;
    if (auto wrong = check_open(store, oracles_.back(), found)) return "after a step, " + *wrong;
  }
  return std::nullopt;
}

Crasher::Forward TablesRunner::run(exec::SimSchedule const& schedule) {
  Forward forward;
  medium_.back_to(base_);
  oracles_.clear();
  exec::SimScheduler scheduler(schedule);
  Simulated const simulated(scheduler, tracker_);
  tracker_.recorder.record(true);
  std::uint64_t const made = scenario_.begins_empty ? 0 : kGone;
  expect({filled_, filled_, true, made, made});
  auto store = Store::open(kArenaPath, tables_open_options(machine));
  forward.wrong =
      store.ok() ? run_steps(*store) : "the pool does not open: " + store.status().message();
  forward.taken = scheduler.taken();
  forward.others = scheduler.others();
  if (store && !forward.wrong) {
    if (Totals* const t = progress_.counted()) t->met.growths += store->stats().growths;
    if (Status const s = store->close(); !s.ok()) forward.wrong = "close: " + s.message();
    tracker_.recorder.cut(true);
  }
  end_run(forward, scheduler);
  return forward;
}

// ------------------------------------------------------------------------------------------------
// Crashes

/// The tables that there may be, and what they may hold.
std::optional<std::string> TablesRunner::check_open(Store& store, Oracle const& oracle,
                                                    TableRows& found) {
  auto const tables = store.tables();
  if (!tables) return "the catalogue: " + tables.status().message();
  std::size_t const there = tables.value().size();
  if (there < oracle.tables || there > oracle.fresh_tables)
    return std::to_string(there) + " tables, of " + std::to_string(oracle.tables) + " to " +
           std::to_string(oracle.fresh_tables);
  for (Table const& table : tables.value())
    if (table.name != name_of_table(table.number) || table.row_bytes != kRowWords[table.number] * 8)
      return "table " + std::to_string(table.number) + " is '" + table.name + "', of " +
             std::to_string(table.row_bytes) + " bytes a row";
  if (auto wrong = read_rows(store, tables.value(), found)) return wrong;
  if (auto wrong = without_note(found, oracle.old)) return wrong;
  if (auto wrong = wrong_row(found, oracle.old, oracle.fresh)) return wrong;
  if (oracle.whole && found != oracle.old && found != oracle.fresh)
    return "some rows are of the step before, others of the step in flight";
  // An entry beyond the count may be there: a record more.
  if (oracle.tables == oracle.fresh_tables) return check_records(store, found.size(), there);
  auto const report = store.verify();
  if (!report) return "verify: " + report.status().message();
  return report.value().fault_count == 0 ? std::nullopt
                                         : std::optional("verify: " + report.value().faults[0]);
}

/// Opens what the crash left, looks at every table, takes a further step with a table made before
/// it, closes, and opens once more.
std::optional<std::string> TablesRunner::judge(std::size_t which, bool record_recovery,
                                               std::vector<Window>& recovery,
                                               std::uint64_t& logical) {
  Oracle const oracle = oracles_[which];
  tracker_.recorder.record(record_recovery);
  auto store = Store::open(kArenaPath, tables_open_options(machine));
  if (record_recovery) tracker_.recorder.cut(false);
  tracker_.recorder.record(false);
  recovery = tracker_.recorder.take_windows();
  for (Window& w : recovery) w.oracle = which;
  if (!store) return "the pool does not open: " + store.status().message();
  TableRows found;
  if (auto wrong = check_open(*store, oracle, found)) return wrong;
  if (Totals* const t = progress_.counted()) t->recovered.undone += store->recovery().undone > 0;
  for (auto const& [key, step] : found) logical = mix(logical, row_word(key, step, 0));
  std::uint64_t number = store->tables()->size();
  do {
    number = std::min(number + 1, kLastTable);
    auto const made = store->table(name_of_table(number), kRowWords[number] * 8);
    if (!made || made.value().number != number)
      return "after recovery no table can be made: " + made.status().message();
  } while (number < kGone);
  logical = mix(logical, number);
  TableStep step{};
  step.put = {{kUsers, 0}, {kItems, 1}};
  TableRows rows = found;
  step.apply(rows, kAfterRecovery);
  Change const change{rows, step.put, {}, {}};
  Oracle const then{rows, rows, true, number, number};
  std::size_t const of_run = oracles_.size();
  oracles_.push_back({found, found, true, number, number});
  auto const wrong = run_transaction(*store, step, change, kAfterRecovery);
  oracles_.resize(of_run);
  tracker_.recorder.set_oracle(which);
  if (wrong) return "after recovery, " + *wrong;
  if (auto w = check_open(*store, then, found = {})) return "after a further step, " + *w;
  if (Status const s = store->close(); !s.ok()) return "close: " + s.message();
  auto again = Store::open(kArenaPath, tables_open_options(machine));
  if (!again) return "the pool does not open again: " + again.status().message();
  if (!again->recovery().clean) return "a second open finds a pool that was not closed";
  if (auto w = check_open(*again, then, found = {})) return "after a second open, " + *w;
  return std::nullopt;
}

}  // namespace perdure::explore
