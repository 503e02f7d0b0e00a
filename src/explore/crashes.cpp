#include "explore/crashes.hpp"

#include <bit>
#include <sstream>
#include <utility>

namespace perdure::explore {
namespace {

using exec::SimSchedule;
using exec::SimScheduler;
using exec::SimSwitch;

std::uint64_t hash_of(Window const& w) {
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
    : options_(options), totals_(&totals), arena_(word_bytes), tracker_(arena_, options.model) {
  arena = &arena_;
}

Crasher::~Crasher() { arena = nullptr; }

bool Crasher::enough() {
  if (quiet_) return false;
  if (totals_->stop) return true;
  if (options_.seconds > 0 && totals_->seconds() > options_.seconds) totals_->stop = true;
  return totals_->stop;
}

bool Crasher::enough_here() {
  return enough() || (!quiet_ && options_.per_scenario != 0 && fresh_ >= options_.per_scenario);
}

void Crasher::report(Finding finding) {
  std::lock_guard const lock(totals_->mutex);
  if (totals_->findings.size() < options_.findings) totals_->findings.push_back(std::move(finding));
  if (totals_->findings.size() >= options_.findings) totals_->stop = true;
}

void Crasher::back_to(std::size_t mark, std::uint64_t file_bytes) {
  arena_.undo_to(mark);
  arena_.file_bytes = file_bytes;
}

void Crasher::end_run(Forward& forward, SimScheduler const& scheduler) {
  tracker_.recorder.record(false);
  forward.windows = tracker_.recorder.take_windows();
  if (!forward.wrong && !arena_.shadow_agrees())
    forward.wrong = "something wrote to the file unseen";
  if (forward.wrong) forward.taken = scheduler.taken();
  if (quiet_) return;
  ++totals_->runs;
  totals_->points += scheduler.points();
  for (Window const& w : forward.windows) totals_->crash_points += w.events.size() + 1;
}

void Crasher::apply_window(Window const& window) {
  for (Event const& e : window.events) {
    base_hash_ += mix(e.word, e.value) - mix(e.word, arena_.now(e.word));
    arena_.set(e.word, e.value);
  }
  arena_.file_bytes = window.file_bytes;
}

// ------------------------------------------------------------------------------------------------
// Crashes

Crasher::Leaf Crasher::crash_once(Window const& window, std::vector<std::uint8_t> const& choices,
                                  std::optional<std::size_t> arrived, bool record_recovery) {
  Leaf leaf;
  SimScheduler scheduler({});
  Simulated const simulated(scheduler, tracker_);
  arrived ? tracker_.crashed.crash_after(*arrived) : tracker_.crashed.crash(choices);
  std::uint64_t logical = 0;
  std::uint64_t const expected = hash_of_oracle(window.oracle);
  leaf.wrong = judge(window.oracle, record_recovery, leaf.recovery, logical);
  tracker_.recorder.record(false);
  tracker_.recorder.take_windows();  // of a recovery that ended early
  tracker_.crashed.end();
  if (quiet_) return leaf;
  leaf.fresh = count_state(mix(mix(tracker_.crashed.read_hash(), expected), seed_), logical);
  return leaf;
}

bool Crasher::count_state(std::uint64_t state, std::uint64_t logical) {
  ++totals_->states;
  std::lock_guard const lock(totals_->mutex);
  bool const fresh = totals_->distinct.insert(state).second;
  fresh_ += fresh;
  totals_->logical.insert(mix(logical, seed_));
  if (options_.states != 0 && totals_->distinct.size() >= options_.states) totals_->stop = true;
  return fresh;
}

/// Every crash state of one window: all of them up to a bound, random ones beyond it. `path` leads
/// here.
std::optional<Finding> Crasher::crash_in(Window const& window, std::vector<CrashPoint> path) {
  bool const nested = path.size() > 1;
  if (!quiet_) ++totals_->windows;
  if (window.too_large) {
    if (!quiet_) ++totals_->windows_skipped;
    return std::nullopt;
  }
  if (!seen_windows_.insert(mix(mix(hash_of(window), base_hash_), path.size())).second) {
    if (!quiet_) ++totals_->windows_seen;
    return std::nullopt;
  }
  std::size_t const mark = arena_.mark();
  std::uint64_t const bytes = arena_.file_bytes;
  std::uint32_t const most = nested ? options_.nested_leaves : options_.leaves;
  std::uint32_t const samples = nested ? options_.nested_leaves / 4 : options_.samples;
  std::uint32_t const prefixes = nested ? this->prefixes() / 8 : this->prefixes();
  std::uint64_t random = mix(hash_of(window), base_hash_);
  std::vector<std::uint8_t> choices;
  for (std::uint32_t n = 0; n < most + samples + prefixes && !enough_here(); ++n) {
    std::optional<std::size_t> arrived;
    if (n >= most + samples) {
      arrived = (n - most - samples + 1) * window.events.size() / prefixes;
    } else if (n >= most) {  // too many to visit: any of them
      if (n == most && !quiet_) ++(nested ? totals_->nested_sampled : totals_->windows_sampled);
      choices.assign(kMostEvents, 0);
      for (auto& c : choices) c = static_cast<std::uint8_t>((random = mix(random, n)) % 3);
    }
    tracker_.crashed.prepare(window);
    Leaf const leaf = crash_once(window, choices, arrived, !nested);
    auto const trail = tracker_.crashed.choices();
    auto const image = tracker_.crashed.image();
    back_to(mark, bytes);
    path.back().choices.clear();
    for (auto const& c : trail) path.back().choices.push_back(c.taken);
    if (leaf.wrong) return Finding{*leaf.wrong, seed_, {}, path, ""};
    if (leaf.fresh && !nested && worth_crashing(leaf.recovery)) {
      if (auto finding = crash_inside_recovery(leaf.recovery, image, path)) return finding;
    }
    if (n >= most) continue;
    choices = next_choices(trail);
    if (choices.empty()) break;
  }
  return std::nullopt;
}

std::optional<Finding> Crasher::crash_everywhere(std::vector<Window> const& windows,
                                                 std::vector<CrashPoint> const& outer) {
  for (std::size_t w = 0; w < windows.size() && !enough_here(); ++w) {
    auto path = outer;
    path.push_back({w, {}});
    if (auto finding = crash_in(windows[w], path)) return finding;
    if (windows[w].too_large) break;  // what follows it is not known
    apply_window(windows[w]);
  }
  return std::nullopt;
}

std::optional<Finding> Crasher::crash_run(Forward const& forward) {
  back_to(base_, base_bytes_);
  base_hash_ = 0;
  return crash_everywhere(forward.windows, {});
}

/// Recovery from one crash is a run like any other: crash it as well.
std::optional<Finding> Crasher::crash_inside_recovery(std::vector<Window> const& recovery,
                                                      Image const& image,
                                                      std::vector<CrashPoint> const& path) {
  if (recovery.empty()) return std::nullopt;
  std::size_t const mark = arena_.mark();
  std::uint64_t const bytes = arena_.file_bytes, hash = base_hash_;
  for (auto const& [word, value] : image) {
    base_hash_ += mix(word, value) - mix(word, arena_.now(word));
    arena_.set(word, value);
  }
  if (!quiet_) ++totals_->nested;
  auto finding = crash_everywhere(recovery, path);
  back_to(mark, bytes);
  base_hash_ = hash;
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
  minimise(*finding);
  report(std::move(*finding));
  return false;
}

/// Leaves out switches as long as something still goes wrong: many at once, then one after another.
/// (Of threads that wait for ever there are very many.)
void Crasher::minimise(Finding& finding) {
  bool const was_quiet = std::exchange(quiet_, true);
  for (std::size_t piece = std::bit_floor(finding.switches.size()); piece > 0; piece /= 2) {
    for (std::size_t end = finding.switches.size(); end >= piece; end -= piece) {
      auto fewer = finding.switches;
      auto const at = fewer.begin() + static_cast<std::ptrdiff_t>(end - piece);
      fewer.erase(at, at + static_cast<std::ptrdiff_t>(piece));
      if (auto still = goes_wrong(fewer)) finding = std::move(*still);
    }
  }
  finding.description = describe(seed_);
  quiet_ = was_quiet;
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
  if (enough_here() || !try_schedule({0, 0, switches}, forward)) return;
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
  fresh_ = 0;
  seen_windows_.clear();
  arena_.undo_to(0);
  return set_up(scenario_seed);
}

void Crasher::explore(std::uint64_t scenario_seed) {
  if (!prepare(scenario_seed)) {
    report({"the files cannot be made", scenario_seed, {}, {}, describe(scenario_seed)});
    return;
  }
  ++totals_->scenarios;
  explore_creation();
  if (options_.preemptions > 0) return explore_switches({});
  for (std::uint32_t n = 0; n <= options_.schedules && !enough_here(); ++n) {
    Forward forward;
    SimSchedule const schedule{scenario_seed * 1000 + n, n == 0 ? 0 : 1u << (n % 4), {}};
    if (!try_schedule(schedule, forward)) return;
  }
}

std::optional<std::string> Crasher::replay(Finding const& finding) {
  quiet_ = true;
  if (!prepare(finding.scenario)) return "the files cannot be made";
  Forward forward = run({0, 0, finding.switches});
  if (forward.wrong) return forward.wrong;
  back_to(base_, base_bytes_);
  std::vector<Window> windows = std::move(forward.windows);
  for (CrashPoint const& crash : finding.crashes) {
    if (crash.window >= windows.size())
      return "this run has no window " + std::to_string(crash.window);
    for (std::size_t w = 0; w < crash.window; ++w) apply_window(windows[w]);
    std::size_t const mark = arena_.mark();
    std::uint64_t const bytes = arena_.file_bytes;
    Window const window = windows[crash.window];
    tracker_.crashed.prepare(window);
    Leaf leaf = crash_once(window, crash.choices, std::nullopt, true);
    auto const image = tracker_.crashed.image();
    back_to(mark, bytes);
    if (leaf.wrong) return leaf.wrong;
    for (auto const& [word, value] : image) arena_.set(word, value);
    windows = std::move(leaf.recovery);
  }
  return std::nullopt;
}

// ------------------------------------------------------------------------------------------------
// Replay lines: scenario/point:fiber,.../window:choice.choice.../...

std::string replay_text(Finding const& f) {
  std::ostringstream text;
  text << f.scenario << '/';
  for (std::size_t i = 0; i < f.switches.size(); ++i)
    text << (i > 0 ? "," : "") << f.switches[i].point << ':' << f.switches[i].fiber;
  for (auto const& c : f.crashes) {
    text << '/' << c.window << ':';
    for (std::size_t i = 0; i < c.choices.size(); ++i)
      text << (i > 0 ? "." : "") << int{c.choices[i]};
  }
  return text.str();
}

std::optional<Finding> parse_replay(std::string const& text) {
  auto const split = [](std::string const& whole, char by) {
    std::vector<std::string> parts(1);
    for (char const c : whole)
      c == by ? static_cast<void>(parts.emplace_back()) : parts.back().push_back(c);
    return parts;
  };
  Finding f;
  try {
    auto const parts = split(text, '/');
    f.scenario = std::stoull(parts.at(0));
    for (auto const& item : split(parts.at(1), ',')) {
      if (item.empty()) continue;
      auto const pair = split(item, ':');
      f.switches.push_back(
          {std::stoull(pair.at(0)), static_cast<std::uint32_t>(std::stoul(pair.at(1)))});
    }
    for (std::size_t i = 2; i < parts.size(); ++i) {
      auto const pair = split(parts[i], ':');
      CrashPoint crash{std::stoull(pair.at(0)), {}};
      for (auto const& choice : split(pair.at(1), '.'))
        if (!choice.empty()) crash.choices.push_back(static_cast<std::uint8_t>(std::stoul(choice)));
      f.crashes.push_back(std::move(crash));
    }
  } catch (std::exception const&) {
    return std::nullopt;
  }
  return f;
}

}  // namespace perdure::explore
