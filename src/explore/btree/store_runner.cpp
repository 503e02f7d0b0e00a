#include "explore/btree/store_runner.hpp"

#include <algorithm>

namespace perdure::explore {
namespace {

constexpr char const* kPath = "arena";
constexpr std::uint64_t kFilling = 2000, kKeysEach = 100;  // keys that fill segments

std::string named(std::uint64_t key, std::optional<std::uint64_t> value) {
  return "key " + std::to_string(key) +
         (value ? " is " + std::to_string(*value) : std::string(" is absent"));
}

std::optional<std::uint64_t> in(OpenedStore::Contents const& contents, std::uint64_t key) {
  auto const at = contents.find(key);
  return at == contents.end() ? std::nullopt : std::optional(at->second);
}

}  // namespace

StoreRunner::StoreRunner(Options const& options, Totals& totals) : Crasher(options, totals, 8) {
  tracker_.recorder.follow_all(true);
  tracker_.recorder.follow_lines(true);
  tracker_.threads_order(true);
}

std::string StoreRunner::describe(std::uint64_t scenario_seed) const {
  return draw(scenario_seed).describe();
}

std::uint64_t StoreRunner::hash_of_oracle(std::size_t oracle) const {
  std::uint64_t h = mix(oracle, oracles_[oracle].history.size());
  for (auto const& [key, value] : oracles_[oracle].old) h = mix(h, mix(key, value));
  return h;
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
  std::uint64_t const stride = pm::stride_for(pm::record_bytes(8, 8));
  std::uint64_t const value = 9999;
  for (std::uint64_t block = 1; block < pool.superblocks(); ++block) {
    std::byte* record = pool.base() + block * OpenedStore::kSuperblock + pm::kFirstRecord;
    for (std::uint64_t const key : scenario_.keys) {
      pm::prepare_record(host, record, {0, 8, 8, 0, 1}, reinterpret_cast<std::byte const*>(&key),
                         reinterpret_cast<std::byte const*>(&value));
      pm::make_valid(host, record, 1);
      record += stride;
    }
  }
}

bool StoreRunner::set_up(std::uint64_t scenario_seed) {
  scenario_ = draw(scenario_seed);
  exec::SimScheduler scheduler({});
  Simulated const simulated(scheduler, tracker_);
  pm::PoolHeader header{};
  header.superblock_bytes = OpenedStore::kSuperblock;
  header.index = static_cast<std::uint8_t>(Index::btree);
  header.key_order = static_cast<std::uint8_t>(KeyOrder::unsigned_integer);
  header.levels = header.hashes = header.slots = 1;
  header.key_bytes = header.max_key_bytes = 8;
  header.value_bytes = in_log() ? 0 : 8;
  header.max_value_bytes = in_log() ? OpenedStore::kSuperblock / 4 - 8 : 8;
  header.max_bytes = scenario_.log.superblocks * OpenedStore::kSuperblock;
  auto pool = pm::Pool::create(kPath, header, scenario_.log.superblocks, {}, {});
  if (!pool) return false;
  soil(*pool);
  auto made = opened_in(std::move(*pool));
  if (!made->begin() || !fill(made)) return false;
  base_ = medium_.now();
  return true;
}

bool StoreRunner::fill(std::unique_ptr<OpenedStore>& made) {
  for (auto const* keys : {&scenario_.fillers, &scenario_.there, &scenario_.log.erased})
    for (std::uint64_t const key : *keys)
      if (made->apply({{OpKind::put, key, key}}).statuses[0] != 0) return false;
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
  if (!in_log()) return open_heap_store(std::move(pool), keeps());
  return open_log_store(std::move(pool), keeps(), scenario_.log.most_queued);
}

std::unique_ptr<OpenedStore> StoreRunner::open(std::optional<std::string>& wrong) {
  auto pool = pm::Pool::open(kPath, {});
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
  for (StoreBatch const& batch : scenario_.batches[thread]) {
    std::uint64_t const began = clock_++;
    Answers const answers = opened.apply(batch);
    std::uint64_t const ended = clock_++;
    for (std::size_t i = 0; i < batch.size(); ++i) {
      Done mine{batch[i].key, {}};
      mine.seen.kind = batch[i].kind;
      mine.seen.operand = batch[i].value;
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
  oracles_.push_back({old, History(scenario_.batches.size())});
  tracker_.recorder.set_oracle(0);
  tracker_.recorder.record(true);
  auto opened = open(forward.wrong);
  if (forward.wrong) return forward;
  // A superblock's header is not flushed, for no store runs on memory that needs it.
  if (!scenario_.grows || keeps() != Keeps::order) opened->make_room();
  tracker_.recorder.cut(false);
  bool done = false;
  {
    LocksOfThreads const locks(keeps());
    writing_ = scenario_.batches.size();
    done = scheduler.launch(static_cast<std::uint32_t>(writing_) + collectors(),
                            [&](std::uint32_t me) { work(*opened, me); });
  }
  if (!done) forward.wrong = "the threads make no progress";
  tracker_.recorder.cut(true);
  tracker_.recorder.record(false);
  if (!forward.wrong) forward.wrong = fault_of_run(*opened);
  for (auto const& mine : oracles_[0].history)
    if (Totals* const t = progress_.counted()) t->met.session_operations += mine.size();
  forward.taken = scheduler.taken();
  forward.others = scheduler.others();
  end_run(forward, scheduler);
  of_run_ = oracles_.size();
  return forward;
}

std::optional<std::string> StoreRunner::fault_of_run(OpenedStore& opened) {
  try {
    Contents found;
    if (auto wrong = opened.contents(scenario_.keys, found)) return wrong;
    if (auto wrong = explain(oracles_[0], found, true)) return wrong;
    if (auto wrong = opened.fault_of_writes()) return wrong;
    return opened.fault_of_room();
  } catch (Stuck const& stuck) {
    return stuck.what();
  }
}

// ------------------------------------------------------------------------------------------------
// Crashes

std::optional<std::string> StoreRunner::explain(Oracle const& oracle, Contents const& found,
                                                bool all) {
  std::vector<std::uint64_t> done(oracle.history.size(), ~std::uint64_t{0});
  for (std::size_t t = 0; t < done.size() && !all; ++t) {
    tracker_.will_read(acknowledged(t), sizeof(std::uint64_t));
    done[t] = *acknowledged(t);
  }
  std::size_t known = 0;
  for (std::uint64_t const key : scenario_.keys) {
    std::vector<Seen> seen;
    for (std::size_t t = 0; t < oracle.history.size(); ++t) {
      for (std::size_t i = 0; i < oracle.history[t].size(); ++i) {
        if (oracle.history[t][i].key != key) continue;
        seen.push_back(oracle.history[t][i].seen);
        seen.back().acknowledged = i < done[t];
      }
    }
    known += in(found, key).has_value();
    if (!explained(seen, in(oracle.old, key), in(found, key)))
      return named(key, in(found, key)) + ", was " + named(key, in(oracle.old, key)) +
             ", and no order of its " + std::to_string(seen.size()) + " operations explains that";
  }
  for (std::uint64_t const key : scenario_.fillers) {
    if (in(found, key) != key) return named(key, in(found, key)) + ", and was never touched";
    ++known;
  }
  if (known != found.size()) return "there are keys that nobody wrote";
  return std::nullopt;
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
  std::uint64_t h = 0;
  for (auto const& [key, value] : contents) h = mix(h, mix(key, value));
  for (std::size_t i = 0; i <= h % scenario_.keys.size(); ++i) {
    std::uint64_t const key = scenario_.keys[i], value = 5000 + i;
    OpKind const kind = i % 2 == 0 ? OpKind::put : OpKind::erase;
    auto const status = static_cast<KeyStatus>(opened.apply({{kind, key, value}}).statuses[0]);
    bool const expected = kind == OpKind::put || contents.contains(key);
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
  Oracle const oracle = oracles_[which];
  if (record_recovery)
    oracles_.erase(oracles_.begin() + static_cast<std::ptrdiff_t>(of_run_), oracles_.end());
  try {
    return recover(oracle, record_recovery, recovery, logical);
  } catch (Stuck const& stuck) {
    return stuck.what();
  }
}

std::optional<std::string> StoreRunner::recover(Oracle const& oracle, bool record_recovery,
                                                std::vector<Window>& recovery,
                                                std::uint64_t& logical) {
  tracker_.recorder.record(record_recovery);
  std::optional<std::string> wrong;
  auto opened = open(wrong);
  if (wrong) return wrong;
  Contents found;
  if ((wrong = opened->contents(scenario_.keys, found))) return wrong;
  if ((wrong = oracle.history.empty() && found != oracle.old
                   ? std::optional<std::string>("a crash inside recovery changed what it had found")
                   : explain(oracle.history.empty() ? Oracle{found, {}} : oracle, found, false)))
    return wrong;
  for (auto const& [key, value] : found) logical = mix(logical, mix(key, value));
  if (record_recovery) {
    oracles_.push_back({found, {}});
    tracker_.recorder.set_oracle(oracles_.size() - 1);
    tracker_.recorder.cut(true);
    recovery = tracker_.recorder.take_windows();
  }
  tracker_.recorder.record(false);
  return go_on(*opened, std::move(found));
}

}  // namespace perdure::explore
