#include "explore/gpm/gpm_log_runner.hpp"

#include <algorithm>
#include <cstring>

namespace perdure::explore {
namespace {

using gpm::GpmLogError;

constexpr std::uint32_t kMostThreads = 4;

/// Each thread's operations of one launch; what they come to is added to its history.
struct Operations {
  static constexpr int kPhases = 1;
  using Shared = exec::NoShared;
  using State = exec::NoState;
  gpm::GpmLogView log;
  std::vector<std::vector<GpmOp>> const* operations;
  GpmHistory* history;
  std::uint64_t* clock;
  std::uint32_t* acknowledged;  // on the medium

  template <int, class T>
  void run(T& thread, Shared&, State&) const {
    auto const me = static_cast<std::size_t>(thread.global());
    for (GpmOp const& op : (*operations)[me]) {
      GpmSeen seen{op, GpmLogError::none, {}, (*clock)++, 0, true};
      seen.answer = carry_out(thread, op, seen.got);
      seen.ended = (*clock)++;
      (*history)[me].push_back(seen);
      thread.store(&acknowledged[me], static_cast<std::uint32_t>((*history)[me].size()));
    }
  }
  template <class T>
  GpmLogError carry_out(T& thread, GpmOp const& op, GpmWords& got) const {
    std::size_t const size = kGpmSizes[op.words - 1];
    bool const own = log.kind == gpm::GpmLogKind::hcl;
    std::int64_t const which = own ? -1 : static_cast<std::int64_t>(op.partition);
    GpmWords const entry = gpm_entry(op.words, op.value);
    switch (op.kind) {
      case GpmOpKind::insert: return gpm::gpm_insert(thread, log, entry.data(), size, which);
      case GpmOpKind::read: return gpm::gpm_read(thread, log, got.data(), size, which);
      case GpmOpKind::remove: return gpm::gpm_remove(thread, log, size, which);
      case GpmOpKind::clear: break;
    }
    return gpm::gpm_clear(thread, log, which);
  }
};

/// Reads and removes entries of every partition, newest first, as a recovering program does; one
/// thread. Up to `most` of each, whole or, with `parts`, in two.
struct Undo {
  static constexpr int kPhases = 1;
  using Shared = exec::NoShared;
  using State = exec::NoState;
  gpm::GpmLogView log;
  GpmStacks* stacks;
  std::size_t most;
  bool parts;
  std::optional<std::string>* wrong;

  template <int, class T>
  void run(T& thread, Shared&, State&) const {
    for (std::size_t p = 0; p < stacks->size(); ++p) {
      GpmStack& stack = (*stacks)[p];
      auto const which = static_cast<std::int64_t>(p);
      for (std::size_t n = 0; n < most && !stack.empty(); ++n) {
        std::size_t const left = stack.back().left(), half = parts ? left / 2 : 0;
        if (half != 0) take(thread, stack, which, half);
        take(thread, stack, which, left - half);
      }
      if (stack.empty() && gpm::gpm_remove(thread, log, 4, which) != GpmLogError::empty)
        *wrong = "partition " + std::to_string(p) + " has more entries than it has";
    }
  }
  template <class T>
  void take(T& thread, GpmStack& stack, std::int64_t which, std::size_t bytes) const {
    GpmWords got{};
    if (gpm::gpm_read(thread, log, got.data(), bytes, which) != GpmLogError::none ||
        got != last_bytes(stack, bytes))
      *wrong = "recovery does not read the last bytes of partition " + std::to_string(which);
    if (gpm::gpm_remove(thread, log, bytes, which) != GpmLogError::none || !take_off(stack, bytes))
      *wrong = "recovery cannot remove the last bytes of partition " + std::to_string(which);
  }
};

/// The entries up to each partition's tail, as machine memory and file say together.
std::optional<std::string> stacks_of(gpm::GpmLogOn<exec::SimGrid> const& log, GpmStacks& stacks) {
  gpm::GpmLogView const v = log.view();
  stacks.assign(v.partitions, {});
  for (std::uint64_t p = 0; p < v.partitions; ++p) {
    auto const word = [&](std::uint64_t n) { return *gpm::gpm_detail::word_of(v, p, n); };
    for (std::uint32_t first = 0; first < v.tails[p]; first += stacks[p].back().words + 1) {
      GpmEntry entry{};
      gpm::GpmCheck check(p, first);
      for (std::uint32_t words = 1; entry.words == 0 && words <= kMostGpmWords; ++words) {
        auto const size = static_cast<std::uint32_t>(kGpmSizes[words - 1]);
        entry.is[words - 1] = word(first + words - 1);
        check.add(entry.is[words - 1]);
        if ((v.known[0] & gpm::gpm_detail::mask_bit(size)) == 0) continue;
        bool const parts = (v.known[gpm::kGpmSizeMask] & gpm::gpm_detail::mask_bit(size)) != 0;
        entry.taken = check.taken(word(first + words), v.transaction, size, parts);
        if (entry.taken != size) entry.words = words;
      }
      if (entry.words == 0)
        return "partition " + std::to_string(p) + " has no entry where its tail says so";
      stacks[p].push_back(entry);
    }
  }
  return std::nullopt;
}

/// What the operations on one partition came to. How many of each thread's had been acknowledged:
/// `done`; without it, all.
GpmHistory of_partition(GpmHistory const& history, std::uint32_t partition,
                        std::uint32_t const* done) {
  GpmHistory mine(history.size());
  for (std::size_t t = 0; t < history.size(); ++t) {
    for (std::size_t i = 0; i < history[t].size(); ++i) {
      if (history[t][i].op.partition != partition) continue;
      mine[t].push_back(history[t][i]);
      mine[t].back().acknowledged = done == nullptr || i < done[t];
    }
  }
  return mine;
}

std::string shown(GpmHistory const& history) {
  std::string text;
  for (std::size_t t = 0; t < history.size(); ++t)
    for (GpmSeen const& s : history[t])
      text += " [thread " + std::to_string(t) + " " + std::to_string(s.began) + "-" +
              std::to_string(s.ended) + " kind " + std::to_string(static_cast<int>(s.op.kind)) +
              " words " + std::to_string(s.op.words) + " value " + std::to_string(s.op.value) +
              " answer " + std::to_string(static_cast<int>(s.answer)) +
              (s.acknowledged ? "]" : " not acknowledged]");
  return text;
}

std::string of(std::size_t partition) { return "partition " + std::to_string(partition); }

}  // namespace

GpmLogRunner::GpmLogRunner(Options const& options, Totals& totals)
    : Crasher(options, totals, 4),
      kind_(options.system == System::gpm_log ? gpm::GpmLogKind::hcl
                                              : gpm::GpmLogKind::conventional) {
  tracker_.recorder.follow_volatile(true);
}

std::string GpmLogRunner::describe(std::uint64_t scenario_seed) const {
  return make_gpm_log_scenario(scenario_seed, kind_).describe();
}

std::uint64_t GpmLogRunner::hash_of_oracle(std::size_t oracle) const {
  std::uint64_t h = mix(oracle, static_cast<std::uint64_t>(oracles_[oracle].kind));
  for (GpmStack const& stack : oracles_[oracle].old)
    for (GpmEntry const& entry : stack)
      h = mix(h, mix(entry.words | entry.taken << 8, entry.is[0]));
  return h;
}

// ------------------------------------------------------------------------------------------------
// A run

/// A new log. Making it is not crashed: its file has no name before it is whole
/// (pm::Mapping::keep()).
bool GpmLogRunner::set_up(std::uint64_t scenario_seed) {
  scenario_ = make_gpm_log_scenario(scenario_seed, kind_);
  exec::SimScheduler scheduler({});
  Simulated const simulated(scheduler, tracker_);
  bool const hcl = kind_ == gpm::GpmLogKind::hcl;
  gpm::GpmLogGeometry const geometry{kind_, hcl ? scenario_.shape.blocks : 0,
                                     hcl ? scenario_.shape.threads : 0, scenario_.partitions};
  // checks come on top
  std::uint64_t const bytes = std::uint64_t{2} * scenario_.words * scenario_.partitions;
  if (!Log::create(grid_, kArenaPath, bytes, geometry).ok()) return false;
  base_ = medium_.now();
  return true;
}

void GpmLogRunner::expect(Oracle oracle) {
  oracles_.push_back(std::move(oracle));
  tracker_.recorder.set_oracle(oracles_.size() - 1);
}

void GpmLogRunner::expect_launches(GpmStacks old) {
  auto const acknowledged =
      static_cast<std::uint32_t>(arena_.words() - kMostThreads * ++histories_);
  expect({Oracle::Kind::launched, std::move(old), GpmHistory(kMostThreads), acknowledged});
}

std::optional<std::string> GpmLogRunner::launch(Log& log, GpmStep const& step) {
  Oracle& oracle = oracles_.back();
  Operations const kernel{log.view(), &step.operations, &oracle.history, &clock_,
                          reinterpret_cast<std::uint32_t*>(arena_.data()) + oracle.acknowledged};
  if (Status const s = grid_.launch(scenario_.shape, kernel); !s.ok())
    return "a launch fails: " + s.message();
  return std::nullopt;
}

/// What was launched since the last ordering point is acknowledged as a whole.
std::optional<std::string> GpmLogRunner::order(Log& log) {
  (void)grid_.order();
  GpmStacks found;
  if (auto wrong = stacks_of(log, found)) return wrong;
  Oracle const& oracle = oracles_.back();
  if (auto wrong = explain_launches(oracle, found, true)) return wrong;
  for (auto const& mine : oracle.history) {
    for (GpmSeen const& seen : mine) overflows_ += seen.answer == GpmLogError::overflow;
    if (Totals* const t = progress_.counted()) t->gpm.operations += mine.size();
  }
  if (log.overflows().value() != overflows_)
    return "the log miscounts the entries that found no room";
  expect_launches(std::move(found));
  tracker_.recorder.cut(true);
  return std::nullopt;
}

std::optional<std::string> GpmLogRunner::run_steps(Log& log) {
  for (std::size_t i = 0; i < scenario_.steps.size(); ++i) {
    GpmStep const& step = scenario_.steps[i];
    if (step.kind == GpmStep::Kind::launch) {
      if (auto wrong = launch(log, step)) return wrong;
      bool const last = i + 1 == scenario_.steps.size();
      if (!step.ordered && !last && scenario_.steps[i + 1].kind == GpmStep::Kind::launch) continue;
      if (auto wrong = order(log)) return wrong;
    } else if (step.kind == GpmStep::Kind::clear) {
      GpmStacks old = oracles_.back().old;
      expect({Oracle::Kind::cleared, old});
      if (Status const s = log.clear(); !s.ok()) return "clear: " + s.message();
      expect_launches(GpmStacks(old.size()));
      tracker_.recorder.cut(true);
    } else {
      auto again = Log::open(grid_, kArenaPath);
      if (!again.ok()) return "the log does not open: " + again.status().message();
      log = std::move(again.value());
      if (Totals* const t = progress_.counted()) t->gpm.overflows += overflows_;
      overflows_ = 0;
      GpmStacks found;
      if (auto wrong = stacks_of(log, found)) return wrong;
      if (found != oracles_.back().old) return "opened again, the log has other entries";
    }
  }
  return std::nullopt;
}

Crasher::Forward GpmLogRunner::run(exec::SimSchedule const& schedule) {
  Forward forward;
  medium_.back_to(base_);
  oracles_.clear();
  histories_ = 0;
  clock_ = 0;
  overflows_ = 0;
  exec::SimScheduler scheduler(schedule);
  Simulated const simulated(scheduler, tracker_);
  tracker_.recorder.record(true);
  expect_launches(GpmStacks(scenario_.partitions));
  auto log = Log::open(grid_, kArenaPath);
  forward.wrong =
      log.ok() ? run_steps(log.value()) : "the log does not open: " + log.status().message();
  forward.taken = scheduler.taken();
  forward.others = scheduler.others();
  end_run(forward, scheduler);
  of_run_ = oracles_.size();
  if (Totals* const t = progress_.counted()) t->gpm.overflows += overflows_;
  return forward;
}

// ------------------------------------------------------------------------------------------------
// Crashes

std::optional<std::string> GpmLogRunner::explain_launches(Oracle const& oracle,
                                                          GpmStacks const& found, bool all) {
  auto const* const done =
      reinterpret_cast<std::uint32_t const*>(arena_.data()) + oracle.acknowledged;
  tracker_.will_read(done, kMostThreads * sizeof *done);
  bool const by_host = options_.model == Model::commit && !all;
  for (std::uint32_t p = 0; p < found.size(); ++p) {
    GpmHistory const history = of_partition(oracle.history, p, all ? nullptr : done);
    bool right = false;
    if (by_host) {
      GpmPlaces const places = gpm_places(history, oracle.old[p], scenario_.words);
      right = found[p].size() >= places.kept;
      std::uint32_t first = 0;
      for (GpmEntry const& entry : found[p]) {
        right = right && places.entries.contains({first, entry});
        first += entry.words + 1;
      }
    } else {
      right = gpm_explained(history, oracle.old[p], found[p], scenario_.words);
    }
    if (!right)
      return "no order of its operations explains " + of(p) + ", which was " +
             shown(oracle.old[p]) + " and is " + shown(found[p]) + ":" + shown(history);
  }
  return std::nullopt;
}

std::optional<std::string> GpmLogRunner::explain(Oracle const& oracle, GpmStacks const& found,
                                                 bool all) {
  if (oracle.kind == Oracle::Kind::launched) return explain_launches(oracle, found, all);
  bool const none =
      std::all_of(found.begin(), found.end(), [](GpmStack const& stack) { return stack.empty(); });
  if (oracle.kind == Oracle::Kind::cleared)
    return found == oracle.old || none ? std::nullopt
                                       : std::optional<std::string>("clear() took effect in part");
  for (std::size_t p = 0; p < found.size(); ++p)
    if (!begins_with(oracle.old[p], found[p], false))
      return of(p) + " was " + shown(oracle.old[p]) + " before recovery removed entries, and is " +
             shown(found[p]);
  return std::nullopt;
}

std::optional<std::string> GpmLogRunner::undo(Log& log, GpmStacks& stacks, std::size_t most) {
  std::optional<std::string> wrong;
  // Where the host alone orders, a part may be gone for good before what was removed above it
  // (docs/libgpm.md).
  bool const parts = options_.model == Model::fence && seed_ % 5 < 2;
  if (Status const s = grid_.launch({1, 1}, Undo{log.view(), &stacks, most, parts, &wrong});
      !s.ok())
    return "a launch fails: " + s.message();
  return wrong;
}

/// A program that begins once more inserts what it inserted before; then the log is opened again.
std::optional<std::string> GpmLogRunner::go_on(Log& log, GpmStacks stacks) {
  auto const first =
      std::find_if(scenario_.steps.begin(), scenario_.steps.end(),
                   [](GpmStep const& step) { return step.kind == GpmStep::Kind::launch; });
  std::vector<std::vector<GpmOp>> operations;
  for (auto const& of_thread : first->operations) {
    auto& mine = operations.emplace_back();
    std::copy_if(of_thread.begin(), of_thread.end(), std::back_inserter(mine),
                 [](GpmOp const& op) { return op.kind == GpmOpKind::insert; });
  }
  auto const acknowledged = static_cast<std::uint32_t>(arena_.words() / 2);
  expect({Oracle::Kind::launched, stacks, GpmHistory(kMostThreads), acknowledged});
  GpmHistory& history = oracles_.back().history;
  Operations const kernel{log.view(), &operations, &history, &clock_,
                          reinterpret_cast<std::uint32_t*>(arena_.data()) + acknowledged};
  if (Status const s = grid_.launch(scenario_.shape, kernel); !s.ok())
    return "a launch fails: " + s.message();
  (void)grid_.order();
  tracker_.recorder.record(false);
  for (auto const& mine : history) {
    for (GpmSeen const& seen : mine) {
      GpmStack& stack = stacks[seen.op.partition];
      bool const fits = words_in_use(stack) + seen.op.words + 1 <= scenario_.words;
      if (seen.answer != (fits ? GpmLogError::none : GpmLogError::overflow))
        return "an insert after recovery fails";
      if (fits) stack.push_back({seen.op.words, gpm_entry(seen.op.words, seen.op.value), 0});
    }
  }
  auto again = Log::open(grid_, kArenaPath);
  if (!again.ok()) return "the log does not open again: " + again.status().message();
  GpmStacks found;
  if (auto wrong = stacks_of(again.value(), found)) return wrong;
  if (found != stacks) return "opened again, the log has not what was inserted after recovery";
  return std::nullopt;
}

/// Opens what the crash left, looks at everything, undoes some or all of it, goes on, and opens it
/// once more.
std::optional<std::string> GpmLogRunner::judge(std::size_t which, bool record_recovery,
                                               std::vector<Window>& recovery,
                                               std::uint64_t& logical) {
  Oracle const oracle = oracles_[which];
  if (record_recovery)
    oracles_.erase(oracles_.begin() + static_cast<std::ptrdiff_t>(of_run_), oracles_.end());
  tracker_.recorder.record(record_recovery);
  expect({Oracle::Kind::launched,
          {},
          {},
          static_cast<std::uint32_t>(arena_.words() / 2)});  // opening changes no stack
  std::size_t const opening = oracles_.size() - 1;
  auto log = Log::open(grid_, kArenaPath);
  if (!log.ok()) return "the log does not open: " + log.status().message();
  GpmStacks found;
  if (auto wrong = stacks_of(log.value(), found)) return wrong;
  if (auto wrong = explain(oracle, found, false)) return wrong;
  for (GpmStack const& stack : found) {
    if (Totals* const t = progress_.counted()) t->gpm.entries += stack.size();
    for (GpmEntry const& entry : stack)
      logical = mix(logical, mix(entry.words | entry.taken << 8, entry.is[0]));
    logical = mix(logical, stack.size());
  }
  oracles_[opening].old = found;
  expect({Oracle::Kind::undone, found});
  if (auto wrong = undo(log.value(), found, seed_ % 2 == 0 ? 1 : ~std::size_t{0})) return wrong;
  (void)grid_.order();
  if (!undoes_only()) {
    expect({Oracle::Kind::cleared, found});
    if (Status const s = log->clear(); !s.ok()) return "clear: " + s.message();
    found.assign(found.size(), {});
  }
  auto wrong = go_on(log.value(), std::move(found));
  recovery = tracker_.recorder.take_windows();
  return wrong;
}

}  // namespace perdure::explore
