#include "explore/crashes.hpp"

#include <bit>
#include <utility>

namespace perdure::explore {
namespace {

using exec::SimSchedule;
using exec::SimScheduler;
using exec::SimSwitch;

std::uint64_t hash_of_window(Window const& w) {
  std::uint64_t h = mix(w.file_bytes, w.oracle);
  for (Event const& e : w.events)
    h = mix(mix(h, e.word), mix(e.value, std::hash<EventSet>{}(e.before)));
  return h;
}

/// The next leaf in depth-first order; empty when that was the last.
std::vector<std::uint8_t> next_choices(std::vector<CrashedMedium::Choice> const& trail) {
  std::vector<std::uint8_t> next;
  for (auto const& c : trail) next.push_back(c.taken);
  for (std::size_t i = next.size(); i > 0; --i, next.pop_back()) {
    if (trail[i - 1].taken + 1 < trail[i - 1].options) {
      ++next.back();
      return next;
    }
  }
  return {};
}

}  // namespace

Crasher::Crasher(Options const& options, Totals& totals, std::uint32_t word_bytes)
    : options_(options),
      progress_(options, totals),
      arena_(word_bytes),
      tracker_(arena_, options.model),
      medium_(arena_) {
  arena = &arena_;
}

Crasher::~Crasher() { arena = nullptr; }

void Crasher::end_run(Forward& forward, SimScheduler const& scheduler) {
  tracker_.recorder.record(false);
  forward.windows = tracker_.recorder.take_windows();
  if (!forward.wrong && !arena_.shadow_agrees())
    forward.wrong = "something wrote to the file unseen";
  if (forward.wrong) forward.taken = scheduler.taken();
  Totals* const t = progress_.counted();
  if (t == nullptr) return;
  ++t->explored.runs;
  t->explored.points += scheduler.points();
  for (Window const& w : forward.windows) t->explored.crash_points += w.events.size() + 1;
}

// ------------------------------------------------------------------------------------------------
// Crashes

Crasher::Leaf Crasher::crash_once(Window const& window, std::vector<std::uint8_t> const& choices,
                                  EventSet const* arrived, bool record_recovery) {
  Leaf leaf;
  SimScheduler scheduler({});
  Simulated const simulated(scheduler, tracker_);
  arrived != nullptr ? tracker_.crashed.crash_with(*arrived) : tracker_.crashed.crash(choices);
  std::uint64_t logical = 0;
  std::uint64_t const expected = hash_of_oracle(window.oracle);
  leaf.wrong = judge(window.oracle, record_recovery, leaf.recovery, logical);
  tracker_.recorder.record(false);
  tracker_.recorder.take_windows();  // of a recovery that ended early
  tracker_.crashed.end();
  if (progress_.quiet) return leaf;
  leaf.fresh = progress_.count_state(mix(mix(tracker_.crashed.read_hash(), expected), seed_),
                                     mix(logical, seed_));
  return leaf;
}

/// Of a window that is not exhausted. What was read last varies first there, so without these the
/// words that are read early have one value.
std::vector<EventSet> Crasher::chosen_states(Window const& window, bool nested) const {
  std::vector<EventSet> states = lone_writes(window, samples_of(nested));
  std::size_t const prefixes = nested ? this->prefixes() / 8 : this->prefixes();
  for (std::size_t n = 1; n <= prefixes; ++n)
    states.push_back(first_writes(window, n * window.events.size() / prefixes));
  return states;
}

/// Every crash state of one window: all of them up to a bound, chosen and random ones beyond it.
/// `path` leads here.
std::optional<Finding> Crasher::crash_in(Window const& window, std::vector<CrashPoint> path) {
  bool const nested = path.size() > 1;
  if (Totals* const t = progress_.counted()) ++t->explored.windows;
  if (window.too_large) {
    if (Totals* const t = progress_.counted()) ++t->explored.windows_skipped;
    return std::nullopt;
  }
  if (!seen_windows_.insert(mix(mix(hash_of_window(window), medium_.hash()), path.size())).second) {
    if (Totals* const t = progress_.counted()) ++t->explored.windows_seen;
    return std::nullopt;
  }
  State const before = medium_.now();
  std::vector<CrashedMedium::Choice> trail;
  bool prepared = false;  // crashes of a recovery prepare for other windows
  auto const crash = [&](std::vector<std::uint8_t> const& choices,
                         EventSet const* arrived) -> std::optional<Finding> {
    if (!prepared) tracker_.crashed.prepare(window);
    prepared = true;
    Leaf const leaf = crash_once(window, choices, arrived, !nested);
    trail = tracker_.crashed.choices();
    auto const image = tracker_.crashed.image();
    medium_.back_to(before);
    path.back().choices.clear();
    for (auto const& c : trail) path.back().choices.push_back(c.taken);
    if (leaf.wrong) return Finding{*leaf.wrong, seed_, {}, path, ""};
    if (nested || !leaf.fresh || !worth_crashing(leaf.recovery)) return std::nullopt;
    prepared = false;
    return crash_inside_recovery(leaf.recovery, image, path);
  };
  std::vector<std::uint8_t> choices;
  for (std::uint32_t n = 0; n < (nested ? options_.nested_leaves : options_.leaves); ++n) {
    if (progress_.enough_here()) return std::nullopt;
    if (auto finding = crash(choices, nullptr)) return finding;
    choices = next_choices(trail);
    if (choices.empty()) return std::nullopt;
  }
  if (Totals* const t = progress_.counted())
    ++(nested ? t->explored.nested_sampled : t->explored.windows_sampled);
  for (EventSet const& arrived : chosen_states(window, nested)) {
    if (progress_.enough_here()) return std::nullopt;
    if (auto finding = crash({}, &arrived)) return finding;
  }
  std::uint64_t random = mix(hash_of_window(window), medium_.hash());
  choices.assign(kMostEvents, 0);
  for (std::uint32_t n = 0; n < samples_of(nested) && !progress_.enough_here(); ++n) {
    for (auto& c : choices) c = static_cast<std::uint8_t>((random = mix(random, n)) % 3);
    if (auto finding = crash(choices, nullptr)) return finding;
  }
  return std::nullopt;
}

std::optional<Finding> Crasher::crash_everywhere(std::vector<Window> const& windows,
                                                 std::vector<CrashPoint> const& outer) {
  for (std::size_t w = 0; w < windows.size() && !progress_.enough_here(); ++w) {
    auto path = outer;
    path.push_back({w, {}});
    if (auto finding = crash_in(windows[w], path)) return finding;
    if (windows[w].too_large) break;  // what follows it is not known
    medium_.apply(windows[w]);
  }
  return std::nullopt;
}

std::optional<Finding> Crasher::crash_run(Forward const& forward) {
  medium_.back_to(base_);
  return crash_everywhere(forward.windows, {});
}

/// Recovery from one crash is a run like any other: crash it as well.
std::optional<Finding> Crasher::crash_inside_recovery(std::vector<Window> const& recovery,
                                                      Image const& image,
                                                      std::vector<CrashPoint> const& path) {
  if (recovery.empty()) return std::nullopt;
  State const before = medium_.now();
  medium_.apply(image);
  if (Totals* const t = progress_.counted()) ++t->explored.nested;
  auto finding = crash_everywhere(recovery, path);
  medium_.back_to(before);
  return finding;
}

// ------------------------------------------------------------------------------------------------
// Schedules

/// One run and its crashes; false if that ended the scenario.
bool Crasher::try_schedule(SimSchedule const& schedule, Forward& forward) {
  forward = run(schedule);
  std::optional<Finding> finding;
  if (forward.wrong) {
    finding = Finding{*forward.wrong, seed_, {}, {}, ""};
  } else if (options_.crashes) {
    finding = crash_run(forward);
  }
  if (!finding) return true;
  finding->switches = forward.taken;
  if (options_.minimise) minimise(*finding);
  finding->description = describe(seed_);
  progress_.report(std::move(*finding));
  return false;
}

/// Leaves out switches as long as something still goes wrong: many at once, then one after another.
/// (Of threads that wait for ever there are very many.)
void Crasher::minimise(Finding& finding) {
  bool const was_quiet = std::exchange(progress_.quiet, true);
  for (std::size_t piece = std::bit_floor(finding.switches.size()); piece > 0; piece /= 2) {
    for (std::size_t end = finding.switches.size(); end >= piece; end -= piece) {
      auto fewer = finding.switches;
      auto const at = fewer.begin() + static_cast<std::ptrdiff_t>(end - piece);
      fewer.erase(at, at + static_cast<std::ptrdiff_t>(piece));
      if (auto still = goes_wrong(fewer)) finding = std::move(*still);
    }
  }
  progress_.quiet = was_quiet;
}

std::optional<Finding> Crasher::goes_wrong(std::vector<SimSwitch> const& switches) {
  seen_windows_.clear();
  Forward const forward = run({0, 0, switches});
  std::optional<Finding> finding;
  if (forward.wrong) {
    finding = Finding{*forward.wrong, seed_, {}, {}, ""};
  } else {
    finding = crash_run(forward);
  }
  if (finding) finding->switches = switches;
  return finding;
}

/// All schedules with up to so many switches, each once: a further switch comes after the last.
void Crasher::explore_switches(std::vector<SimSwitch> const& switches) {
  Forward forward;
  if (progress_.enough_here() || !try_schedule({0, 0, switches}, forward)) return;
  if (switches.size() >= options_.preemptions) return;
  for (std::uint64_t p = switches.empty() ? 0 : switches.back().point + 1;
       p < forward.others.size(); ++p) {
    for (std::uint32_t f = 0; f < 32; ++f) {
      if ((forward.others[p] >> f & 1) == 0) continue;
      auto more = switches;
      more.push_back({p, f});
      explore_switches(more);
    }
  }
}

bool Crasher::prepare(std::uint64_t scenario_seed) {
  seed_ = scenario_seed;
  progress_.begin_scenario();
  seen_windows_.clear();
  medium_.back_to({0, arena_.file_bytes, 0});
  return set_up(scenario_seed);
}

void Crasher::explore(std::uint64_t scenario_seed) {
  if (!prepare(scenario_seed)) {
    progress_.report({"the files cannot be made", scenario_seed, {}, {}, describe(scenario_seed)});
    return;
  }
  if (Totals* const t = progress_.counted()) ++t->explored.scenarios;
  explore_creation();
  if (options_.preemptions > 0) return explore_switches({});
  for (std::uint32_t n = 0; n <= options_.schedules && !progress_.enough_here(); ++n) {
    Forward forward;
    SimSchedule const schedule{scenario_seed * 1000 + n, n == 0 ? 0 : 1u << (n % 4), {}};
    if (!try_schedule(schedule, forward)) return;
  }
}

std::optional<std::string> Crasher::replay(Finding const& finding) {
  progress_.quiet = true;
  if (!prepare(finding.scenario)) return "the files cannot be made";
  Forward forward = run({0, 0, finding.switches});
  if (forward.wrong) return forward.wrong;
  medium_.back_to(base_);
  std::vector<Window> windows = std::move(forward.windows);
  for (CrashPoint const& crash : finding.crashes) {
    if (crash.window >= windows.size())
      return "this run has no window " + std::to_string(crash.window);
    for (std::size_t w = 0; w < crash.window; ++w) medium_.apply(windows[w]);
    State const before = medium_.now();
    Window const window = windows[crash.window];
    tracker_.crashed.prepare(window);
    Leaf leaf = crash_once(window, crash.choices, nullptr, true);
    auto const image = tracker_.crashed.image();
    medium_.back_to(before);
    if (leaf.wrong) return leaf.wrong;
    medium_.apply(image);
    windows = std::move(leaf.recovery);
  }
  return std::nullopt;
}

}  // namespace perdure::explore
