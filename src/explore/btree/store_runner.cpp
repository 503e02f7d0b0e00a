#include "explore/btree/store_runner.hpp"

#include <algorithm>

#include "explore/pool_identity.hpp"
#include "pm/sequenced_record.hpp"

namespace perdure::explore {
namespace {

constexpr std::uint64_t kSuperblockOfLog = 128u << 10;  // that undoes a batch: a few chunks of it
constexpr std::uint64_t kFilling = 2000, kKeysEach = 100;  // keys that fill segments

}  // namespace

StoreRunner::StoreRunner(Options const& options, Totals& totals) : Crasher(options, totals, 8) {
  tracker_.recorder.follow_all(true);
  tracker_.recorder.follow_lines(true);
  tracker_.threads_order(true);
}

StoreKind StoreRunner::kind() const {
  System const system = options_.system;
  return {system == System::btree_log || system == System::btree_index_log,
          system == System::btree_index || system == System::btree_index_log,
          system == System::btree_full};
}

Keeps StoreRunner::keeps() const {
  if (options_.system == System::btree_log) return Keeps::ordered;
  if (kind().log || kind().transactions) return Keeps::fenced;
  return options_.model == Model::fence ? Keeps::order : Keeps::flushed;
}

std::string StoreRunner::describe(std::uint64_t scenario_seed) const {
  return draw(scenario_seed).describe();
}

std::uint64_t StoreRunner::hash_of_oracle(std::size_t oracle) const {
  Oracle const& of = oracles_[oracle];
  return mix(mix(oracle, hash_of(of)), of.whole ? hash_of(*of.whole) : 0);
}

/// Words beyond the pool, one for each thread: how many operations it has done.
std::uint64_t* StoreRunner::acknowledged(std::size_t thread) {
  return reinterpret_cast<std::uint64_t*>(arena_.data()) + arena_.words() - 8 * (thread + 1);
}

// ------------------------------------------------------------------------------------------------
// A run

/// Superblocks that are nobody's hold what their last owner left: here, records of the scenario's
/// keys.
void StoreRunner::soil(pm::Pool& pool) const {
  StoreHost host(Keeps::order);
  KeyForm const form(scenario_.strings);
  std::uint64_t const value = 9999;
  for (std::uint64_t block = 1; block < pool.superblocks(); ++block) {
    std::byte* record = pool.base() + block * pool.superblock_bytes() + pm::kFirstRecord;
    for (std::uint64_t const key : scenario_.keys) {
      auto const bytes = form.bytes(key);
      auto const size = static_cast<std::uint32_t>(bytes.size());
      pm::prepare_record(host, record, {0, 8, size, 0, 1}, bytes.data(),
                         reinterpret_cast<std::byte const*>(&value));
      pm::make_valid(host, record, 1);
      record += pm::stride_for(pm::record_bytes(size, 8));
    }
  }
}

pm::PoolHeader StoreRunner::header() const {
  pm::PoolHeader header{};
  header.superblock_bytes = kind().transactions ? kSuperblockOfLog : OpenedStore::kSuperblock;
  header.index = static_cast<std::uint8_t>(Index::btree);
  bool const words = !scenario_.strings;
  header.key_order =
      static_cast<std::uint8_t>(words ? KeyOrder::unsigned_integer : KeyOrder::bytes);
  header.persist = static_cast<std::uint8_t>(kind().transactions ? Persist::full
                                             : kind().leaves     ? Persist::index
                                                                 : Persist::minimal);
  header.levels = header.hashes = header.slots = 1;
  header.key_bytes = words ? 8 : 0;
  header.max_key_bytes = words ? 8 : 64;
  header.value_bytes = kind().log ? 0 : 8;
  header.max_value_bytes = kind().log ? OpenedStore::kSuperblock / 4 - header.max_key_bytes : 8;
  header.max_bytes = scenario_.log.superblocks * header.superblock_bytes;
  return header;
}

bool StoreRunner::set_up(std::uint64_t scenario_seed) {
  scenario_ = draw(scenario_seed);
  exec::SimScheduler scheduler({});
  Simulated const simulated(scheduler, tracker_);
  auto pool = make_without_chance(arena_, header(), scenario_.log.superblocks);
  if (!pool) return false;
  soil(*pool);
  auto made = opened_in(std::move(*pool));
  if (!made->begin() || !fill(made)) return false;
  base_ = medium_.now();
  return true;
}

bool StoreRunner::fill(std::unique_ptr<OpenedStore>& made) {
  std::vector<std::uint64_t> all;  // in rising order, so that leaves are full
  for (auto const* keys :
       {&scenario_.fillers, &scenario_.there, &scenario_.log.erased, &scenario_.erased})
    all.insert(all.end(), keys->begin(), keys->end());
  if (kind().leaves || kind().transactions) std::ranges::sort(all);
  for (std::uint64_t const key : all)
    if (made->apply({{OpKind::put, key, key}}).statuses[0] != 0) return false;
  for (std::uint64_t const key : scenario_.erased) made->apply({{OpKind::erase, key, 0}});
  if (!fill_segments(made)) return false;
  for (std::uint64_t const key : scenario_.log.erased) made->apply({{OpKind::erase, key, 0}});
  if (scenario_.log.closed) made->close();
  return true;
}

bool StoreRunner::fill_segments(std::unique_ptr<OpenedStore>& made) {
  std::uint64_t key = kFilling;
  std::optional<std::string> wrong;
  if (scenario_.log.cancelled) {
    made->cancel(key);
    made = open(wrong);
    key += kKeysEach;
  }
  std::shared_ptr<void> held;
  for (Filled const& each : scenario_.log.filled) {
    for (std::uint64_t const filled : made->fill(each, key)) {
      if (!scenario_.log.writer_collects) {
        scenario_.fillers.push_back(filled);
        continue;
      }
      scenario_.keys.push_back(filled);
      scenario_.there.push_back(filled);
      scenario_.batches[0].push_back({{OpKind::erase, filled, 0}});
    }
    key += kKeysEach;
    if (scenario_.log.cancelled && held == nullptr) held = made->hold();
    for (std::uint64_t const erased : scenario_.log.erased)
      made->apply({{OpKind::erase, erased, 0}});
    if (each.collected) made->collect();
  }
  return !wrong;
}

std::unique_ptr<OpenedStore> StoreRunner::opened_in(pm::Pool pool) const {
  StoreMaking const how{keeps(), scenario_.strings, kind().leaves, scenario_.log.most_queued};
  if (kind().transactions) return open_full_store(std::move(pool), how);
  if (kind().log) return open_log_store(std::move(pool), how);
  if (kind().leaves) return open_leaves_store(std::move(pool), how);
  return open_heap_store(std::move(pool), how);
}

std::unique_ptr<OpenedStore> StoreRunner::open(std::optional<std::string>& wrong) {
  auto pool = pm::Pool::open(kArenaPath, {});
  if (!pool) {
    wrong = "the pool does not open: " + pool.status().message();
    return nullptr;
  }
  auto opened = opened_in(std::move(*pool));
  wrong = opened->recover();
  return opened;
}

void StoreRunner::operate(OpenedStore& opened, std::size_t thread) {
  std::uint64_t done = 0;
  if (scenario_.holds != 0 && thread == 0) held_ = opened.fault_of_holding(scenario_.holds);
  for (StoreBatch const& batch : scenario_.batches[thread]) {
    std::uint64_t const began = clock_++;
    bool const loads = scenario_.loads && !loaded_;
    Answers const answers = loads ? opened.load(batch) : opened.apply(batch);
    loaded_ = true;
    std::uint64_t const ended = clock_++;
    for (std::size_t i = 0; i < batch.size(); ++i) {
      DoneOperation mine{batch[i].key, {}};
      mine.seen.kind = batch[i].kind;
      mine.seen.operand = batch[i].value;
      mine.seen.rmw = batch[i].rmw;
      mine.seen.began = began;
      mine.seen.ended = ended;
      mine.seen.status = static_cast<KeyStatus>(answers.statuses[i]);
      mine.seen.value = answers.values[i];
      oracles_[0].history[thread].push_back(mine);
    }
    done += batch.size();
    opened.host().SimHost::store(acknowledged(thread), done);
  }
}

/// Collectors work until nobody writes any more.
void StoreRunner::work(OpenedStore& opened, std::uint32_t thread) {
  std::uint32_t const writers = static_cast<std::uint32_t>(scenario_.batches.size());
  std::uint32_t const first = scenario_.log.collectors_last ? 0 : collectors();
  if (thread >= first && thread < first + writers) {
    while (scenario_.loads && thread != first && !loaded_) StoreHost::pause();
    operate(opened, thread - first);
    if (scenario_.log.writer_collects) opened.collect();
    --writing_;
    return;
  }
  do {
    if (opened.collect() == 0 && writing_ != 0) StoreHost::pause();
  } while (writing_ != 0);
  opened.collect();
}

bool StoreRunner::run_threads(OpenedStore& opened, exec::SimScheduler& scheduler) {
  LocksOfThreads const locks(keeps());
  writing_ = scenario_.batches.size();
  return scheduler.launch(static_cast<std::uint32_t>(writing_) + collectors(),
                          [&](std::uint32_t me) { work(opened, me); });
}

Crasher::Forward StoreRunner::run(exec::SimSchedule const& schedule) {
  Forward forward;
  medium_.back_to(base_);
  oracles_.clear();
  clock_ = 0;
  exec::SimScheduler scheduler(schedule);
  Simulated const simulated(scheduler, tracker_);
  Contents old;
  for (std::uint64_t const key : scenario_.fillers) old[key] = key;
  for (std::uint64_t const key : scenario_.there) old[key] = key;
  // Readers do not wait for a leaf's flush, and no store keeps leaves on memory that needs it.
  bool const gets_count = !(kind().leaves && keeps() == Keeps::flushed);
  oracles_.push_back({{old, History(scenario_.batches.size()), gets_count}});
  tracker_.recorder.set_oracle(0);
  tracker_.recorder.record(true);
  auto opened = open(forward.wrong);
  if (forward.wrong) return forward;
  // A superblock's header is not flushed, for no store runs on memory that needs it.
  if (!scenario_.grows || keeps() != Keeps::order) opened->make_room(scenario_.keys);
  tracker_.recorder.cut(false);
  loaded_ = false;
  held_.reset();
  bool const done =
      kind().transactions ? run_transactions(*opened, scheduler) : run_threads(*opened, scheduler);
  if (!done) forward.wrong = "the threads make no progress";
  tracker_.recorder.cut(true);
  tracker_.recorder.record(false);
  of_run_ = oracles_.size();
  if (!forward.wrong) forward.wrong = fault_of_run(*opened);
  for (auto const& mine : oracles_[0].history)
    if (Totals* const t = progress_.counted()) t->met.session_operations += mine.size();
  forward.taken = scheduler.taken();
  forward.others = scheduler.others();
  end_run(forward, scheduler);
  return forward;
}

std::optional<std::string> StoreRunner::fault_of_run(OpenedStore& opened) {
  if (held_) return held_;
  try {
    Contents found;
    if (auto wrong = opened.contents(scenario_.keys, found)) return wrong;
    if (auto wrong = explain_all(oracles_[of_run_ - 1], found, true)) return wrong;
    if (auto wrong = opened.fault_of_writes()) return wrong;
    if (auto wrong = opened.fault_of_room()) return wrong;
    auto pool = pm::Pool::open(kArenaPath, {});
    if (!pool) return pool.status().message();
    return opened_in(std::move(*pool))->fault_of_repairs();
  } catch (Stuck const& stuck) {
    return stuck.what();
  }
}

// ------------------------------------------------------------------------------------------------
// Crashes

std::optional<std::string> StoreRunner::explain_all(Oracle const& oracle, Contents const& found,
                                                    bool all) {
  if (oracle.whole) {
    if (found == *oracle.whole || (!all && found == oracle.old)) return std::nullopt;
    return all ? "a transaction that was acknowledged is not there" : "part of a batch is there";
  }
  std::vector<std::uint64_t> done(oracle.history.size(), kAllDone);
  for (std::size_t t = 0; t < done.size() && !all; ++t) {
    tracker_.will_read(acknowledged(t), sizeof(std::uint64_t));
    done[t] = *acknowledged(t);
  }
  return explain(oracle, done, found, scenario_.keys, scenario_.fillers);
}

std::optional<std::string> StoreRunner::reopen(Contents const& contents) {
  std::optional<std::string> wrong;
  auto again = open(wrong);
  if (wrong) return wrong;
  Contents found;
  if ((wrong = again->contents(scenario_.keys, found))) return wrong;
  if (found != contents) return "there is something else than before";
  return again->fault_of_room();
}

/// The store goes on: operations answer as a map does, and whether it is closed or its process
/// killed, it opens as it was.
std::optional<std::string> StoreRunner::go_on(OpenedStore& opened, Contents contents) {
  // Of some contents few keys are written: what stands behind a torn record may come back then.
  std::uint64_t const h = hash_of(contents);
  for (std::size_t i = 0; i <= h % scenario_.keys.size(); ++i) {
    std::uint64_t const key = scenario_.keys[i], value = 5000 + i;
    OpKind const kind = i % 2 == 0 ? OpKind::put : OpKind::erase;
    auto const status = static_cast<KeyStatus>(opened.apply({{kind, key, value}}).statuses[0]);
    bool const expected = kind == OpKind::put || contents.contains(key);
    // A log may be full of what is current; it can be erased from all the same.
    if (kind == OpKind::put && this->kind().log && status == KeyStatus::no_space) continue;
    if ((status == KeyStatus::ok) != expected) return "a write after recovery errs";
    contents.erase(key);
    if (kind == OpKind::put) contents[key] = value;
  }
  opened.collect();
  Contents found;
  if (auto wrong = opened.contents(scenario_.keys, found)) return wrong;
  if (found != contents) return "after recovery and some writes there is something else";
  if (auto wrong = opened.fault_of_room()) return wrong;
  if (auto wrong = reopen(contents)) return "killed and opened: " + *wrong;
  opened.close();
  if (auto wrong = reopen(contents)) return "closed and opened: " + *wrong;
  return std::nullopt;
}

std::optional<std::string> StoreRunner::judge(std::size_t which, bool record_recovery,
                                              std::vector<Window>& recovery,
                                              std::uint64_t& logical) {
  if (record_recovery)
    oracles_.erase(oracles_.begin() + static_cast<std::ptrdiff_t>(of_run_), oracles_.end());
  try {
    return recover(which, record_recovery, recovery, logical);
  } catch (Stuck const& stuck) {
    return stuck.what();
  }
}

std::optional<std::string> StoreRunner::recover(std::size_t which, bool record_recovery,
                                                std::vector<Window>& recovery,
                                                std::uint64_t& logical) {
  Oracle const oracle = oracles_[which];
  tracker_.recorder.record(record_recovery);
  tracker_.recorder.set_oracle(which);  // until it is known what there is
  std::optional<std::string> wrong;
  auto opened = open(wrong);
  if (wrong) return wrong;
  Contents found;
  if ((wrong = opened->contents(scenario_.keys, found))) return wrong;
  bool const again = oracle.history.empty() && !oracle.whole;
  if (again && found != oracle.old) return "a crash inside recovery changed what it had found";
  if (!again && (wrong = explain_all(oracle, found, false))) return wrong;
  for (auto const& [key, value] : found) logical = mix(logical, mix(key, value));
  if (record_recovery) {
    oracles_.push_back({{found, {}}});
    tracker_.recorder.set_oracle(oracles_.size() - 1);
    tracker_.recorder.cut(true);
    recovery = tracker_.recorder.take_windows();
  }
  tracker_.recorder.record(false);
  return go_on(*opened, std::move(found));
}

}  // namespace perdure::explore
