#include "explore/dash/dash_runner.hpp"

#include <algorithm>

#include "explore/dash/dash_opened.hpp"
#include "explore/pool_identity.hpp"

namespace perdure::explore {
namespace {

using dash::Slot;

constexpr std::uint64_t kLater = std::uint64_t{1} << 40;  // keys from here on are of no scenario

KeyStatus as_status(dash::Answer answer) {
  if (answer == dash::Answer::absent) return KeyStatus::not_found;
  if (answer == dash::Answer::damaged) return KeyStatus::corrupt;
  return answer == dash::Answer::full ? KeyStatus::no_space : KeyStatus::ok;
}

}  // namespace

template <class Table>
DashRunner<Table>::DashRunner(Options const& options, Totals& totals)
    : Crasher(options, totals, 8) {
  tracker_.recorder.follow_all(true);
  tracker_.recorder.follow_lines(true);
}

template <class Table>
std::string DashRunner<Table>::describe(std::uint64_t scenario_seed) const {
  return make_dash_scenario(scenario_seed, Table::kKind, options_.bounds.operations).describe();
}

template <class Table>
std::uint64_t DashRunner<Table>::hash_of_oracle(std::size_t oracle) const {
  return mix(oracle, hash_of(oracles_[oracle]));
}

/// Words beyond the pool, one for each thread: how many operations it has done.
template <class Table>
std::uint64_t* DashRunner<Table>::acknowledged(std::size_t thread) {
  return reinterpret_cast<std::uint64_t*>(arena_.data()) + arena_.words() - 8 * (thread + 1);
}

// ------------------------------------------------------------------------------------------------
// A run

/// Free memory holds what its last owner left: here, words that a slot could take for the
/// scenario's keys.
template <class Table>
void DashRunner<Table>::soil(pm::Pool& pool) const {
  std::vector<std::uint64_t> garbage(pm::kMinSuperblock / 64);
  for (std::size_t i = 0; i < garbage.size(); ++i)
    garbage[i] = scenario_.keys[i % scenario_.keys.size()];
  for (std::uint64_t i = 1; i < pool.superblocks(); ++i)
    pm::write_bytes(pool.base() + i * pm::kMinSuperblock, garbage.data(),
                    garbage.size() * sizeof garbage[0]);
}

template <class Table>
bool DashRunner<Table>::set_up(std::uint64_t scenario_seed) {
  scenario_ = make_dash_scenario(scenario_seed, Table::kKind, options_.bounds.operations);
  exec::SimScheduler scheduler({});
  Simulated const simulated(scheduler, tracker_);
  pm::PoolHeader header{};
  header.superblock_bytes = pm::kMinSuperblock;
  header.levels = header.hashes = header.slots = 1;
  header.key_bytes = header.max_key_bytes = 8;
  header.value_bytes = header.max_value_bytes = Opened::kValueBytes;
  auto pool = make_without_chance(arena_, header, 4);
  if (!pool) return false;
  Opened made(std::move(*pool));
  soil(made.pool);
  auto index = made.pool.take_run(1);
  if (!index) return false;
  index_ = *index;
  made.make(scenario_.shape);
  if (!made.table->create(made.host, index_, scenario_.depth).ok()) return false;
  for (std::uint64_t const key : scenario_.there)
    if (made.put(key, key) != dash::Answer::done) return false;
  for (std::uint64_t const key : scenario_.ghosts)
    if (made.put(key, key) != dash::Answer::done) return false;
  for (std::uint64_t const key : scenario_.ghosts)
    if (made.erase(key) != dash::Answer::done) return false;
  if (scenario_.split && made.table->segments(made.host) != 3) return false;
  // No more fillers than leave the table as it is, so that it is the run that splits segments.
  // Where they chain buckets, the segments that this brings are there, and the run splits off what
  // is due to them.
  for (std::size_t i = 0; i < scenario_.fillers.size(); ++i) {
    State const before = medium_.now();
    std::uint64_t const segments = made.table->segments(made.host);
    if (made.put(scenario_.fillers[i], scenario_.fillers[i]) != dash::Answer::done) return false;
    if (scenario_.chained || made.table->segments(made.host) == segments) continue;
    medium_.back_to(before);
    scenario_.fillers.resize(i);
  }
  born_ = made.born();
  base_ = medium_.now();
  return true;
}

template <class Table>
auto DashRunner<Table>::open(bool sound, std::optional<std::string>& wrong, bool summed)
    -> std::unique_ptr<Opened> {
  auto pool = pm::Pool::open(kArenaPath, {});
  if (!pool) {
    wrong = "the pool does not open: " + pool.status().message();
    return nullptr;
  }
  auto opened = std::make_unique<Opened>(std::move(*pool));
  opened->pool.claim_run(index_, 1);
  opened->make(scenario_.shape);
  if (Status const s = opened->table->open(opened->host, index_, sound, summed); !s.ok()) {
    wrong = "the table does not open: " + s.message();
    return nullptr;
  }
  opened->claim_later();
  return opened;
}

template <class Table>
void DashRunner<Table>::operate(Opened& opened, std::size_t thread) {
  std::size_t const oracle = oracles_.size() - 1;
  std::uint64_t done = 0;
  for (DashOp const& op : scenario_.operations[thread]) {
    DoneOperation mine{op.key, {}};
    mine.seen.kind = op.kind;
    mine.seen.operand = op.value;
    mine.seen.began = clock_++;
    dash::Answer answer = dash::Answer::done;
    switch (op.kind) {
      case OpKind::get: answer = opened.get(op.key, mine.seen.value); break;
      case OpKind::put: answer = opened.put(op.key, op.value); break;
      case OpKind::update: answer = opened.put(op.key, op.value, true); break;
      case OpKind::erase: answer = opened.erase(op.key); break;
    }
    mine.seen.status = as_status(answer);
    mine.seen.ended = clock_++;
    oracles_[oracle].history[thread].push_back(mine);
    opened.host.store(acknowledged(thread), ++done);
  }
}

template <class Table>
Crasher::Forward DashRunner<Table>::run(exec::SimSchedule const& schedule) {
  Forward forward;
  medium_.back_to(base_);
  oracles_.clear();
  clock_ = 0;
  exec::SimScheduler scheduler(schedule);
  Simulated const simulated(scheduler, tracker_);
  Contents old;
  for (std::uint64_t const key : scenario_.fillers) old[key] = key;
  for (std::uint64_t const key : scenario_.there) old[key] = key;
  oracles_.push_back({old, History(scenario_.operations.size())});
  tracker_.recorder.set_oracle(0);
  tracker_.recorder.record(true);  // from here on, for openings write, too
  auto opened = open(true, forward.wrong);
  if (!opened) return forward;
  // Blocks that are not reached are free again, so that no superblock has to be added in the midst
  // of the run. Where there are records, it is the run that sweeps; and where buckets are chained,
  // a sweep would make the splits.
  bool const swept = !Opened::kSweeps && !scenario_.chained;
  if (swept) opened->sweep();
  if (swept && !scenario_.entered) {
    opened = open(true, forward.wrong);
    if (!opened) return forward;
  }
  opened->make_room();
  auto const threads = static_cast<std::uint32_t>(scenario_.operations.size());
  bool const done = scheduler.launch(threads + Opened::kSweeps, [&](std::uint32_t me) {
    me < threads ? operate(*opened, me) : opened->sweep();
  });
  if (!done) forward.wrong = "the threads make no progress";
  tracker_.recorder.cut(true);
  tracker_.recorder.record(false);
  if (!forward.wrong) {
    Contents found;
    try {
      forward.wrong = contents_of(*opened, found);
    } catch (Stuck const& stuck) {
      forward.wrong = stuck.what();
    }
    if (!forward.wrong) forward.wrong = explain_all(oracles_[0], found, true);
    if (!forward.wrong) forward.wrong = opened->fault_of_heap(born_);
    if (!forward.wrong) forward.wrong = close_twice(*opened, std::move(found));
    if (Totals* const t = progress_.counted()) t->met.growths += opened->table->splits();
    if constexpr (Table::kKind == dash::Kind::extendible)
      if (Totals* const t = progress_.counted()) t->met.merges += opened->table->merges();
    for (auto const& mine : oracles_[0].history)
      if (Totals* const t = progress_.counted()) t->met.session_operations += mine.size();
  }
  forward.taken = scheduler.taken();
  forward.others = scheduler.others();
  end_run(forward, scheduler);
  of_run_ = oracles_.size();
  return forward;
}

// ------------------------------------------------------------------------------------------------
// Crashes

template <class Table>
std::optional<std::string> DashRunner<Table>::contents_of(Opened& opened, Contents& found) {
  std::optional<std::string> wrong;
  std::uint64_t position = 0;
  std::size_t steps = 0;
  do {
    if (++steps > 1000) return "the chain of segments does not end";
    exec::EpochGuard const guard(opened.table->epochs());
    auto const next = opened.table->walk(opened.host, position, [&](Slot slot) {
      if (auto const [key, value] = opened.entry(slot); !found.emplace(key, value).second)
        wrong = "key " + std::to_string(key) + " is there twice";
    });
    if (!next) return opened.table->why_damaged().message();
    position = *next;
  } while (position != 0 && !wrong);
  if (wrong) return wrong;
  for (std::uint64_t const key : scenario_.keys) {
    std::uint64_t value = 0;
    bool const there = opened.get(key, value) == dash::Answer::done;
    auto const in = found.find(key);
    if (there != (in != found.end()) || (there && value != in->second))
      return named(key, there ? std::optional(value) : std::nullopt) +
             " to a get, but not to a walk";
  }
  return std::nullopt;
}

template <class Table>
std::optional<std::string> DashRunner<Table>::explain_all(Oracle const& oracle,
                                                          Contents const& found, bool all) {
  std::vector<std::uint64_t> done(oracle.history.size(), kAllDone);
  for (std::size_t t = 0; t < done.size() && !all; ++t) {
    tracker_.will_read(acknowledged(t), sizeof(std::uint64_t));
    done[t] = *acknowledged(t);
  }
  if (auto wrong = explain(oracle, done, found, scenario_.keys, scenario_.fillers)) return wrong;
  for (auto const& mine : oracle.history) {
    for (auto const& [key, seen] : mine) {
      if (std::find(scenario_.keys.begin(), scenario_.keys.end(), key) != scenario_.keys.end())
        continue;
      if (seen.status != KeyStatus::ok || seen.value != key)
        return "a get of key " + std::to_string(key) +
               ", which was never touched, does not find it";
    }
  }
  return std::nullopt;
}

/// A close, as a snapshot makes one, and further writes, of new keys until a segment is split; a
/// second one, and an opening that compares each segment with the sum it was left with. Once for
/// one in four of the contents there are.
template <class Table>
std::optional<std::string> DashRunner<Table>::close_twice(Opened& opened, Contents contents) {
  std::uint64_t const h = hash_of(contents);
  if (h % 4 != 0) return std::nullopt;
  try {
    if (!opened.table->store_sums(opened.host))
      return "a close: " + opened.table->why_damaged().message();
    for (std::size_t i = 0; i < scenario_.keys.size(); ++i) {
      std::uint64_t const key = scenario_.keys[i];
      if (opened.put(key, 7000 + i) != dash::Answer::done) return "a put after a close fails";
      contents[key] = 7000 + i;
    }
    std::uint64_t const splits = opened.table->splits();
    for (std::uint64_t key = kLater; opened.table->splits() == splits; ++key) {
      if (opened.put(key, key) != dash::Answer::done) break;  // the pool is full
      contents[key] = key;
    }
    if (!opened.table->store_sums(opened.host))
      return "a second close: " + opened.table->why_damaged().message();
    std::optional<std::string> wrong;
    auto again = open(true, wrong, true);
    if (wrong) return wrong;
    Contents found;
    if ((wrong = contents_of(*again, found))) return "after a second close, " + *wrong;
    return found == contents
               ? std::nullopt
               : std::optional<std::string>("after a second close there is something else");
  } catch (Stuck const& stuck) {
    return stuck.what();
  }
}

/// The table goes on: operations answer as a map does, and whether it is closed or its process
/// killed, it opens as it was.
template <class Table>
std::optional<std::string> DashRunner<Table>::go_on(Opened& opened, Contents contents) {
  if (Opened::kSweeps) opened.sweep();
  // Of some contents all is erased: what recovery let stand a second time would be there again.
  std::uint64_t const h = hash_of(contents);
  if (h % 4 == 0) {
    for (auto const& [key, value] : std::exchange(contents, {}))
      if (opened.erase(key) != dash::Answer::done) return "an erase after recovery errs";
  }
  for (std::size_t i = 0; i < scenario_.keys.size(); ++i) {
    std::uint64_t const key = scenario_.keys[i];
    if (i % 3 == 0) {
      if (opened.put(key, 5000 + i) != dash::Answer::done) return "a put after recovery fails";
      contents[key] = 5000 + i;
    } else if (i % 3 == 1) {
      if ((opened.erase(key) == dash::Answer::done) != (contents.erase(key) != 0))
        return "an erase after recovery errs";
    }
  }
  Contents found;
  if (auto wrong = contents_of(opened, found)) return wrong;
  if (found != contents) return "after recovery and some writes there is something else";
  if (auto wrong = opened.fault_of_heap(born_)) return wrong;
  for (bool const closed : {true, false}) {
    std::optional<std::string> wrong;
    auto again = open(closed, wrong);
    if (wrong) return wrong;
    again->sweep();
    found.clear();
    if ((wrong = contents_of(*again, found))) return wrong;
    if (found != contents)
      return closed ? "closed and opened there is something else"
                    : "killed and opened there is something else";
  }
  return std::nullopt;
}

template <class Table>
std::optional<std::string> DashRunner<Table>::judge(std::size_t which, bool record_recovery,
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

template <class Table>
std::optional<std::string> DashRunner<Table>::recover(Oracle const& oracle, bool record_recovery,
                                                      std::vector<Window>& recovery,
                                                      std::uint64_t& logical) {
  tracker_.recorder.record(record_recovery);
  std::optional<std::string> wrong;
  auto opened = open(false, wrong);
  if (wrong) return wrong;
  Contents found;
  if ((wrong = contents_of(*opened, found))) return wrong;
  if ((wrong =
           oracle.history.empty() && found != oracle.old
               ? std::optional<std::string>("a crash inside recovery changed what it had found")
               : explain_all(oracle.history.empty() ? Oracle{found, {}} : oracle, found, false)))
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

template class DashRunner<dash::Extendible<dash::InlineKeys>>;
template class DashRunner<dash::Linear<dash::InlineKeys>>;
template class DashRunner<dash::Extendible<dash::RecordKeys<SimRecords>>>;

}  // namespace perdure::explore
