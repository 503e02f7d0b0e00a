#include "explore/gpm/gpm_checkpoint_runner.hpp"

#include <algorithm>
#include <utility>

namespace perdure::explore {
namespace {

constexpr std::uint64_t kWordsAfterRecovery = 1000;  // words of checkpoints that runs do not take

}  // namespace

std::string GpmCheckpointRunner::describe(std::uint64_t scenario_seed) const {
  return make_gpm_checkpoint_scenario(scenario_seed).describe();
}

std::uint64_t GpmCheckpointRunner::hash_of_oracle(std::size_t oracle) const {
  std::uint64_t h = oracle;
  for (auto const* all : {&oracles_[oracle].old, &oracles_[oracle].fresh})
    for (auto const& taken : *all) h = mix(h, taken ? taken->word + 1 : 0);
  return h;
}

// ------------------------------------------------------------------------------------------------
// What is registered

GpmCheckpointRunner::Memory::Memory(GpmCheckpointScenario const& scenario) : scenario_(&scenario) {
  for (auto const& group : scenario.groups) {
    auto& mine = words_.emplace_back();
    for (GpmElementShape const& element : group)
      mine.emplace_back((element.bytes + element.skew + 7) / 8, 0);
  }
}

std::uint8_t* GpmCheckpointRunner::Memory::at(std::size_t group, std::size_t element) const {
  return reinterpret_cast<std::uint8_t*>(words_[group][element].data()) +
         scenario_->groups[group][element].skew;
}

GpmCheckpointRunner::Elements GpmCheckpointRunner::Memory::read(std::size_t group) const {
  Elements elements;
  for (std::size_t e = 0; e < words_[group].size(); ++e)
    elements.emplace_back(at(group, e), at(group, e) + scenario_->groups[group][e].bytes);
  return elements;
}

void GpmCheckpointRunner::Memory::change(std::size_t group, std::uint32_t which,
                                         std::uint64_t seed) const {
  GpmRandom random(seed);
  for (std::size_t e = 0; e < words_[group].size(); ++e) {
    if ((which >> e & 1) == 0) continue;
    for (std::uint32_t i = 0; i < scenario_->groups[group][e].bytes; ++i)
      at(group, e)[i] = static_cast<std::uint8_t>(random.below(256));
  }
}

Status GpmCheckpointRunner::Memory::add_to(Checkpoint& checkpoint) const {
  for (std::size_t g = 0; g < words_.size(); ++g)
    for (std::size_t e = 0; e < words_[g].size(); ++e)
      if (Status s = checkpoint.add(at(g, e), scenario_->groups[g][e].bytes,
                                    static_cast<std::uint32_t>(g));
          !s.ok())
        return s;
  return {};
}

// ------------------------------------------------------------------------------------------------
// A run

/// A new file. Making it is not crashed: it has no name before it is whole (pm::Mapping::keep()).
bool GpmCheckpointRunner::set_up(std::uint64_t scenario_seed) {
  scenario_ = make_gpm_checkpoint_scenario(scenario_seed);
  exec::SimScheduler scheduler({});
  Simulated const simulated(scheduler, tracker_);
  auto const made =
      Checkpoint::create(grid_, kArenaPath, scenario_.most_bytes(), scenario_.most_elements(),
                         static_cast<std::uint32_t>(scenario_.groups.size()), {scenario_.path, 1});
  base_ = medium_.now();
  return made.ok();
}

void GpmCheckpointRunner::expect(Oracle oracle) {
  oracles_.push_back(std::move(oracle));
  tracker_.recorder.set_oracle(oracles_.size() - 1);
}

/// A checkpoint of the group as it is, with what a crash in it may leave.
std::optional<std::string> GpmCheckpointRunner::take(Checkpoint& checkpoint, Memory const& memory,
                                                     std::uint32_t group, std::uint64_t word) {
  Oracle oracle = oracles_.back();
  oracle.fresh[group] = Taken{word, memory.read(group)};
  expect(oracle);
  if (Status const s = checkpoint.checkpoint(group, word); !s.ok())
    return "a checkpoint fails: " + s.message();
  oracle.old = oracle.fresh;
  expect(std::move(oracle));
  tracker_.recorder.cut(true);
  return std::nullopt;
}

/// What a restore brings back into the memory; nothing where there is no checkpoint.
std::optional<std::string> GpmCheckpointRunner::restored(Checkpoint& checkpoint,
                                                         Memory const& memory, std::size_t group,
                                                         std::optional<Taken>& found) {
  auto const word = checkpoint.restore(static_cast<std::uint32_t>(group));
  found.reset();
  if (word.ok()) found = Taken{word.value(), memory.read(group)};
  if (!word.ok() && word.status().code() != Code::not_found)
    return "a restore fails: " + word.status().message();
  return std::nullopt;
}

std::optional<std::string> GpmCheckpointRunner::run_steps(Checkpoint& checkpoint, Memory& memory) {
  std::uint64_t word = 0;
  for (GpmCheckpointStep const& step : scenario_.steps) {
    if (step.restores) {
      std::optional<Taken> found;
      if (auto wrong = restored(checkpoint, memory, step.group, found)) return wrong;
      if (found != oracles_.back().old[step.group])
        return "a restore brings back what was not checkpointed last";
    }
    memory.change(step.group, step.changes, mix(seed_, word));
    if (auto wrong = take(checkpoint, memory, step.group, ++word)) return wrong;
  }
  return std::nullopt;
}

Crasher::Forward GpmCheckpointRunner::run(exec::SimSchedule const& schedule) {
  Forward forward;
  medium_.back_to(base_);
  oracles_.clear();
  exec::SimScheduler scheduler(schedule);
  Simulated const simulated(scheduler, tracker_);
  tracker_.recorder.record(true);
  std::size_t const groups = scenario_.groups.size();
  expect({std::vector<std::optional<Taken>>(groups), std::vector<std::optional<Taken>>(groups)});
  Memory memory(scenario_);
  auto checkpoint = Checkpoint::open(grid_, kArenaPath, {scenario_.path, 1});
  Status const opened = checkpoint.ok() ? memory.add_to(checkpoint.value()) : checkpoint.status();
  forward.wrong = opened.ok() ? run_steps(checkpoint.value(), memory)
                              : "the file does not open: " + opened.message();
  forward.taken = scheduler.taken();
  forward.others = scheduler.others();
  end_run(forward, scheduler);
  of_run_ = oracles_.size();
  return forward;
}

// ------------------------------------------------------------------------------------------------
// Crashes

/// Opens what the crash left, restores every group, takes another checkpoint, and opens and
/// restores once more.
std::optional<std::string> GpmCheckpointRunner::judge(std::size_t which, bool record_recovery,
                                                      std::vector<Window>& recovery,
                                                      std::uint64_t& logical) {
  Oracle const oracle = oracles_[which];
  if (record_recovery)
    oracles_.erase(oracles_.begin() + static_cast<std::ptrdiff_t>(of_run_), oracles_.end());
  tracker_.recorder.record(record_recovery);
  Memory memory(scenario_);
  auto checkpoint = Checkpoint::open(grid_, kArenaPath, {scenario_.path, 1});
  if (!checkpoint.ok()) return "the file does not open: " + checkpoint.status().message();
  if (Status const s = memory.add_to(checkpoint.value()); !s.ok()) return s.message();
  Oracle now = oracle;
  for (std::size_t g = 0; g < scenario_.groups.size(); ++g) {
    if (auto wrong = restored(checkpoint.value(), memory, g, now.old[g])) return wrong;
    if (now.old[g] != oracle.old[g] && now.old[g] != oracle.fresh[g]) {
      auto const word = [](std::optional<Taken> const& t) {
        return t ? std::to_string(t->word) : "none";
      };
      return "group " + std::to_string(g) + " is restored to word " + word(now.old[g]) +
             ", and its bytes; it had checkpoint " + word(oracle.old[g]) + " and may have had " +
             word(oracle.fresh[g]);
    }
    if (Totals* const t = progress_.counted()) t->gpm.restored += now.old[g].has_value();
    logical = mix(logical, now.old[g] ? now.old[g]->word + 1 : 0);
  }
  now.fresh = now.old;
  expect(now);
  auto const group =
      static_cast<std::uint32_t>(tracker_.crashed.read_hash() % scenario_.groups.size());
  memory.change(group, 3, mix(seed_, kWordsAfterRecovery));
  if (auto wrong = take(checkpoint.value(), memory, group, kWordsAfterRecovery + which))
    return wrong;
  now = oracles_.back();
  tracker_.recorder.record(false);
  recovery = tracker_.recorder.take_windows();
  auto again = Checkpoint::open(grid_, kArenaPath, {scenario_.path, 1});
  if (!again.ok()) return "the file does not open again: " + again.status().message();
  Memory const fresh(scenario_);
  if (Status const s = fresh.add_to(again.value()); !s.ok()) return s.message();
  for (std::size_t g = 0; g < scenario_.groups.size(); ++g) {
    std::optional<Taken> found;
    if (auto wrong = restored(again.value(), fresh, g, found)) return wrong;
    if (found != now.old[g])
      return "after recovery and a further checkpoint, group " + std::to_string(g) + " is lost";
  }
  return std::nullopt;
}

}  // namespace perdure::explore
