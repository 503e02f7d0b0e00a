#include "explore/gwal/gwal_runner.hpp"

#include <algorithm>
#include <utility>

#include "explore/gwal/sim_gwal_files.hpp"
#include "pm/host_verbs.hpp"

namespace perdure::explore {
namespace {

constexpr std::uint32_t kLeavesOfAWindow = 48;

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

// ------------------------------------------------------------------------------------------------
// What the store stands on

Result<std::unique_ptr<lsm::Gwal>> GwalRunner::open_log() {
  return lsm::open_gwal_over(std::make_unique<SimGwalFiles>(arena_.data()), options_of(workers_));
}

void GwalRunner::expect(GwalContents const& old, GwalContents const& fresh) {
  oracles_.push_back({old, fresh});
  tracker_.recorder.set_oracle(oracles_.size() - 1);
}

void GwalRunner::acknowledged(GwalContents const& contents) {
  expect(contents, contents);
  tracker_.recorder.cut(true);
}

GwalRocks GwalRunner::rocks() const {
  return rocks_[pm::load_word(reinterpret_cast<std::byte const*>(rocks_word(arena_)))];
}

void GwalRunner::set_rocks(GwalRocks next) {
  rocks_.push_back(std::move(next));
  pm::store_word(rocks_word(arena_), rocks_.size() - 1);
  pm::order();
}

// ------------------------------------------------------------------------------------------------
// A run, and crashes

bool GwalRunner::set_up(std::uint64_t scenario_seed) {
  scenario_ = make_gwal_scenario(scenario_seed);
  arena_.file_bytes = kGwalArenaBytes;
  base_ = medium_.now();
  return true;
}

Crasher::Forward GwalRunner::run(exec::SimSchedule const& schedule) {
  Forward forward;
  medium_.back_to(base_);
  oracles_.clear();
  rocks_.assign(1, {kFirstSequence, {}});
  exec::SimScheduler scheduler(schedule);
  Simulated const simulated(scheduler, tracker_);
  tracker_.recorder.record(true);
  expect({}, {});
  GwalLife life(*this);
  GwalContents found;
  forward.wrong = life.open(found);
  if (!forward.wrong) forward.wrong = life.run(scenario_);
  end_run(forward, scheduler);
  of_run_ = oracles_.size();
  rocks_of_run_ = rocks_.size();
  return forward;
}

GwalRunner::Wrong GwalRunner::judge(std::size_t which, bool record_recovery,
                                    std::vector<Window>& recovery, std::uint64_t& logical) {
  Oracle const oracle = oracles_[which];
  if (record_recovery) {
    oracles_.erase(oracles_.begin() + static_cast<std::ptrdiff_t>(of_run_), oracles_.end());
    rocks_.erase(rocks_.begin() + static_cast<std::ptrdiff_t>(rocks_of_run_), rocks_.end());
  }
  tracker_.recorder.record(record_recovery);
  expect(oracle.old, oracle.fresh);
  std::size_t const opening = oracles_.size() - 1;
  GwalLife life(*this);
  GwalContents found;
  if (Wrong wrong = life.open(found)) return wrong;
  if (found != oracle.old && found != oracle.fresh)
    return "the store has" + found.describe() + "; it had" + oracle.old.describe() +
           " and may have had" + oracle.fresh.describe();
  logical = found.hash();
  oracles_[opening] = {found, found};
  if (Wrong wrong = life.go_on([&] { return tracker_.crashed.read_hash() % 3 == 0; })) return wrong;
  tracker_.recorder.record(false);
  recovery = tracker_.recorder.take_windows();
  if (Wrong wrong = life.reopen()) return wrong;
  return std::nullopt;
}

}  // namespace perdure::explore
