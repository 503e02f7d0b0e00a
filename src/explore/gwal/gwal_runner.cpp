#include "explore/gwal/gwal_runner.hpp"

#include <algorithm>
#include <utility>

#include "explore/gwal/sim_gwal_files.hpp"
#include "pm/host_verbs.hpp"

namespace perdure::explore {
namespace {

constexpr std::uint64_t kFirstSequence = 5;
constexpr std::uint32_t kAfterRecovery = 1000;  // operands that runs do not write
constexpr std::uint32_t kLeavesOfAWindow = 48;
constexpr std::size_t kMostGenerations = 6;

std::uint64_t* rocks_word(Arena const& arena) {
  return reinterpret_cast<std::uint64_t*>(arena.data());
}

lsm::GwalOptions options_of(exec::Workers& workers) {
  return {.directory = "arena",
          .identity = "a database",
          .segment_bytes = kGwalSlotBytes,
          .workers = &workers};
}

}  // namespace

/// One thread, so there is one schedule. Windows are small and many: each gets its share.
GwalRunner::GwalRunner(Options const& options, Totals& totals) : Crasher(options, totals, 8) {
  options_.schedules = 0;
  options_.leaves = std::min(options_.leaves, kLeavesOfAWindow);
  options_.samples = std::min(options_.samples, kLeavesOfAWindow / 2);
}

std::string GwalRunner::describe(std::uint64_t scenario_seed) const {
  return make_gwal_scenario(scenario_seed).describe();
}

std::uint64_t GwalRunner::hash_of_oracle(std::size_t oracle) const {
  return mix(oracles_[oracle].old.hash(), oracles_[oracle].fresh.hash());
}

void GwalRunner::expect(Oracle oracle) {
  oracles_.push_back(std::move(oracle));
  tracker_.recorder.set_oracle(oracles_.size() - 1);
}

void GwalRunner::acknowledged(GwalContents const& contents) {
  expect({contents, contents});
  tracker_.recorder.cut(true);
}

// ------------------------------------------------------------------------------------------------
// RocksDB

GwalRunner::Rocks GwalRunner::rocks() const {
  return rocks_[pm::load_word(reinterpret_cast<std::byte const*>(rocks_word(arena_)))];
}

void GwalRunner::set_rocks(Rocks next) {
  rocks_.push_back(std::move(next));
  pm::store_word(rocks_word(arena_), rocks_.size() - 1);
  pm::order();
}

// ------------------------------------------------------------------------------------------------
// A run

bool GwalRunner::set_up(std::uint64_t scenario_seed) {
  scenario_ = make_gwal_scenario(scenario_seed);
  arena_.file_bytes = kGwalArenaBytes;
  base_ = medium_.now();
  return true;
}

/// What RocksDB has, and on top of it what the log brings back.
GwalRunner::Wrong GwalRunner::open(Store& store, GwalContents& found) {
  auto log =
      lsm::open_gwal_over(std::make_unique<SimGwalFiles>(arena_.data()), options_of(workers_));
  if (!log.ok()) return "the log does not open: " + log.status().message();
  Rocks const there = rocks();
  auto recovered = log.value()->recover(there.sequence);
  if (!recovered.ok()) return "the log is not recovered: " + recovered.status().message();
  store.log = std::move(log).value();
  found = there.contents;
  for (lsm::GwalRecovered& r : recovered.value()) {
    if (Totals* const t = progress_.counted())
      ++(r.found.discarded ? t->gwal.discarded : t->gwal.replayed);
    if (r.found.discarded) continue;
    Generation& generation = store.generations.emplace_back();
    generation.segment = std::move(r.segment);
    for (lsm::GwalRecord const& record : r.records) {
      if (record.first_request != store.next_request && store.next_request != 1)
        return "request " + std::to_string(record.first_request) + " follows " +
               std::to_string(store.next_request - 1);
      store.next_request = record.first_request + record.requests;
      for (std::uint64_t i = 0; i < record.requests; ++i) {
        GwalOp const op = gwal_op(pm::load_word(record.payload.data() + i * 8));
        generation.ops.push_back(op);
        found.apply(op);
      }
    }
  }
  return std::nullopt;
}

GwalRunner::Wrong GwalRunner::seal(Store& store) {
  store.writable = false;
  if (store.generations.size() >= kMostGenerations) return std::nullopt;
  auto segment = store.log->begin(0);
  if (!segment.ok()) return "a segment cannot be begun: " + segment.status().message();
  store.generations.push_back({std::move(segment).value(), {}, {}, false});
  store.writable = true;
  return std::nullopt;
}

GwalRunner::Wrong GwalRunner::write(Store& store, GwalStep const& step) {
  std::uint64_t const bytes = step.ops.size() * 8;
  auto room = store.writable ? store.generations.back().segment->reserve(bytes)
                             : Status{Code::no_space, ""};
  if (room.status().code() == Code::no_space) {
    if (Wrong wrong = seal(store)) return wrong;
    if (!store.writable) return std::nullopt;
    room = store.generations.back().segment->reserve(bytes);
  }
  if (!room.ok()) return "there is no room: " + room.status().message();
  Generation& generation = store.generations.back();
  GwalContents contents = oracles_.back().old;
  for (GwalOp const& op : step.ops) contents.apply(op);
  expect({oracles_.back().old, contents});
  for (std::size_t i = 0; i < step.ops.size(); ++i) {
    std::uint64_t const word = gwal_word(step.ops[i]);
    pm::write_bytes(room.value().data() + i * 8, &word, sizeof word);
  }
  if (Status const s = generation.segment->commit(store.next_request, step.ops.size(), step.sync);
      !s.ok())
    return "a commit fails: " + s.message();
  store.next_request += step.ops.size();
  generation.ops.insert(generation.ops.end(), step.ops.begin(), step.ops.end());
  acknowledged(contents);
  if (Totals* const t = progress_.counted()) ++t->gwal.records;
  return std::nullopt;
}

void GwalRunner::write_directly(GwalStep const& step) {
  Rocks next = rocks();
  GwalContents contents = oracles_.back().old;
  for (GwalOp const& op : step.ops) {
    next.contents.apply(op);
    contents.apply(op);
    ++next.sequence;
  }
  expect({oracles_.back().old, contents});
  set_rocks(std::move(next));
  acknowledged(contents);
}

GwalRunner::Wrong GwalRunner::intend(Store& store) {
  Generation& oldest = store.generations.front();
  if (store.generations.size() == 1) store.writable = false;
  std::uint64_t const sequence = rocks().sequence;
  if (Status const s = oldest.segment->intend(sequence); !s.ok())
    return "an intent fails: " + s.message();
  oldest.intent = sequence;
  return std::nullopt;
}

GwalRunner::Wrong GwalRunner::withdraw(Store& store, GwalStep const& step) {
  Generation& oldest = store.generations.front();
  if (Status const s = oldest.segment->intend(lsm::kNoGwalIntent); !s.ok())
    return "an intent is not withdrawn: " + s.message();
  oldest.intent.reset();
  write_directly(step);
  return std::nullopt;
}

/// A snapshot is open, so it gives what it ingests a sequence number of its own.
void GwalRunner::ingest(Store& store) {
  Generation& oldest = store.generations.front();
  Rocks next = rocks();
  for (GwalOp const& op : oldest.ops) next.contents.apply(op);
  ++next.sequence;
  set_rocks(std::move(next));
  oldest.ingested = true;
  if (Totals* const t = progress_.counted()) ++t->gwal.ingests;
}

GwalRunner::Wrong GwalRunner::retire(Store& store) {
  if (Status const s = store.generations.front().segment->retire(); !s.ok())
    return "a segment is not retired: " + s.message();
  store.generations.pop_front();
  return std::nullopt;
}

GwalRunner::Wrong GwalRunner::reopen(Store& store) {
  store = Store{};
  GwalContents found;
  if (Wrong wrong = open(store, found)) return wrong;
  if (found == oracles_.back().old) return std::nullopt;
  return "opened again, the store has" + found.describe() + " instead of" +
         oracles_.back().old.describe();
}

GwalRunner::Wrong GwalRunner::take(Store& store, GwalStep const& step) {
  bool const any = !store.generations.empty();
  bool const intended = any && store.generations.front().intent.has_value();
  bool const ingested = any && store.generations.front().ingested;
  switch (step.kind) {
    case GwalStep::Kind::write: return write(store, step);
    case GwalStep::Kind::direct:
      if (!any) write_directly(step);
      return std::nullopt;
    case GwalStep::Kind::seal: return any ? seal(store) : std::nullopt;
    case GwalStep::Kind::intend: return any && !ingested ? intend(store) : std::nullopt;
    case GwalStep::Kind::withdraw:
      return intended && !ingested ? withdraw(store, step) : std::nullopt;
    case GwalStep::Kind::ingest:
      if (intended && !ingested) ingest(store);
      return std::nullopt;
    case GwalStep::Kind::retire: return ingested ? retire(store) : std::nullopt;
    case GwalStep::Kind::reopen: break;
  }
  return reopen(store);
}

GwalRunner::Wrong GwalRunner::run_steps(Store& store) {
  for (GwalStep const& step : scenario_.steps)
    if (Wrong wrong = take(store, step)) return wrong;
  return std::nullopt;
}

Crasher::Forward GwalRunner::run(exec::SimSchedule const& schedule) {
  Forward forward;
  medium_.back_to(base_);
  oracles_.clear();
  rocks_.assign(1, {kFirstSequence, {}});
  exec::SimScheduler scheduler(schedule);
  Simulated const simulated(scheduler, tracker_);
  tracker_.recorder.record(true);
  expect({});
  Store store;
  GwalContents found;
  forward.wrong = open(store, found);
  if (!forward.wrong) forward.wrong = run_steps(store);
  end_run(forward, scheduler);
  of_run_ = oracles_.size();
  rocks_of_run_ = rocks_.size();
  return forward;
}

// ------------------------------------------------------------------------------------------------
// Crashes

/// Hands over what the log brought back, and writes another batch. Before that RocksDB may take a
/// write, for which there is no intent then.
GwalRunner::Wrong GwalRunner::go_on(Store& store) {
  GwalStep const direct{
      GwalStep::Kind::withdraw, false, {{GwalOp::Kind::merge, kGwalDirectKey, kAfterRecovery}}};
  while (!store.generations.empty()) {
    if (tracker_.crashed.read_hash() % 3 == 0)
      if (Wrong wrong = withdraw(store, direct)) return wrong;
    if (Wrong wrong = intend(store)) return wrong;
    ingest(store);
    if (Wrong wrong = retire(store)) return wrong;
  }
  return write(store, {GwalStep::Kind::write, false, {{GwalOp::Kind::merge, 0, kAfterRecovery}}});
}

GwalRunner::Wrong GwalRunner::judge(std::size_t which, bool record_recovery,
                                    std::vector<Window>& recovery, std::uint64_t& logical) {
  Oracle const oracle = oracles_[which];
  if (record_recovery) {
    oracles_.erase(oracles_.begin() + static_cast<std::ptrdiff_t>(of_run_), oracles_.end());
    rocks_.erase(rocks_.begin() + static_cast<std::ptrdiff_t>(rocks_of_run_), rocks_.end());
  }
  tracker_.recorder.record(record_recovery);
  expect(oracle);
  std::size_t const opening = oracles_.size() - 1;
  Store store;
  GwalContents found;
  if (Wrong wrong = open(store, found)) return wrong;
  if (found != oracle.old && found != oracle.fresh)
    return "the store has" + found.describe() + "; it had" + oracle.old.describe() +
           " and may have had" + oracle.fresh.describe();
  logical = found.hash();
  oracles_[opening] = {found, found};
  if (Wrong wrong = go_on(store)) return wrong;
  tracker_.recorder.record(false);
  recovery = tracker_.recorder.take_windows();
  if (Wrong wrong = reopen(store)) return wrong;
  return std::nullopt;
}

}  // namespace perdure::explore
