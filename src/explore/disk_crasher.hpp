// Systems whose memory a power cut takes whole, over a disk of which it takes any of what was not
// synced: a run's requests are recorded, and the power is cut after the last of them, and while
// each is under way. Invariant: what a run, or a recovery, expects is recorded beside its requests;
// Expected has `hash()`.
#pragma once

#include <optional>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "explore/crashes.hpp"
#include "explore/sim_disk.hpp"
#include "explore/window.hpp"

namespace perdure::explore {

/// The scheduler of this thread, for as long as this stands. Nobody watches memory: a power cut
/// takes all of it.
class Scheduled {
 public:
  explicit Scheduled(exec::SimScheduler& scheduler) { exec::sim_scheduler = &scheduler; }
  ~Scheduled() { exec::sim_scheduler = nullptr; }
  Scheduled(Scheduled const&) = delete;
  Scheduled& operator=(Scheduled const&) = delete;
};

/// The next in depth-first order; false after the last.
inline bool next_of(std::vector<std::uint8_t>& choices, std::vector<std::uint8_t> const& ways) {
  for (std::size_t i = choices.size(); i > 0; --i) {
    if (choices[i - 1] + 1 < ways[i - 1]) {
      ++choices[i - 1];
      return true;
    }
    choices[i - 1] = 0;
  }
  return false;
}

template <class Expected>
class DiskCrasher : public Crasher {
 public:
  DiskCrasher(Options const& options, Totals& totals) : Crasher(options, totals, 8) {
    disk_run = &disk_;
  }
  std::optional<std::string> replay(Finding const& finding) override;

 protected:
  using Wrong = std::optional<std::string>;
  /// Requests, what may be there at each, and the disk before them.
  struct Recorded {
    DiskImage before;
    std::vector<DiskEvent> events;
    std::vector<Expected> expected;
  };

  /// What is wrong with what a cut left, and the requests of the recovery from it, on whose way
  /// `before` is set already. `chance` decides what is done now and then alone.
  virtual Wrong judge_cut(DiskImage const& disk, Expected const& expected, std::uint64_t chance,
                          Recorded& recovery, std::uint64_t& logical) = 0;

  void start_recording(DiskImage before) {
    disk_.dead = false;
    disk_.events.clear();
    disk_.now = std::move(before);
    expected_.clear();
  }
  [[nodiscard]] Recorded stop_recording() {
    return {{}, std::exchange(disk_.events, {}), std::exchange(expected_, {})};
  }
  void expect(Expected expected) {
    expected_.push_back(std::move(expected));
    disk_.expect(expected_.size() - 1);
  }
  /// Ends a run that was recorded from `base_disk_` on.
  void end_disk_run(Forward& forward, exec::SimScheduler const& scheduler) {
    forward.taken = scheduler.taken();
    forward.others = scheduler.others();
    recorded_ = stop_recording();
    recorded_.before = base_disk_;
    Totals* const t = progress_.counted();
    if (t == nullptr) return;
    ++t->explored.runs;
    t->explored.points += scheduler.points();
    t->explored.crash_points += recorded_.events.size() + 1;
  }
  std::optional<Finding> crash_everywhere(Recorded const& recorded,
                                          std::vector<CrashPoint> const& outer);

  DiskImage base_disk_;  // the state before the run
  DiskRun disk_;
  std::vector<Expected> expected_;  // while recording
  std::unordered_set<std::uint64_t> judged_;  // states of this scenario

 private:
  std::optional<Finding> crash_run(Forward const&) override {
    return crash_everywhere(recorded_, {});
  }
  Wrong judge(std::size_t, bool, std::vector<Window>&, std::uint64_t&) override {
    return std::nullopt;
  }  // of windows
  [[nodiscard]] std::uint64_t hash_of_oracle(std::size_t) const override { return 0; }
  std::optional<Finding> crash_at(Recorded const& recorded, Leftover const& leftover,
                                  std::size_t event, std::vector<CrashPoint> path);
  std::optional<Finding> crash_once(DiskImage disk, Expected const& expected,
                                    std::vector<CrashPoint> const& path);

  Recorded recorded_;
};

/// After the last request, and while each is under way; of those that are no commits at a third,
/// where a scenario is given few states, so that these lie all over it.
template <class Expected>
std::optional<Finding> DiskCrasher<Expected>::crash_everywhere(
    Recorded const& recorded, std::vector<CrashPoint> const& outer) {
  auto const crash = [&](Leftover const& leftover, std::size_t event) {
    auto path = outer;
    path.push_back({event, {}});
    return crash_at(recorded, leftover, event, std::move(path));
  };
  Leftover after(recorded.before), leftover(recorded.before);
  for (DiskEvent const& e : recorded.events) after.happen(e);
  if (auto finding = crash(after, recorded.events.size())) return finding;
  // null: at all of them
  Totals const* const some = options_.per_scenario == 0 ? nullptr : progress_.counted();
  for (std::size_t i = 0; i < recorded.events.size() && !progress_.enough_here(); ++i) {
    bool const commits = recorded.events[i].what == DiskEvent::What::write_durably;
    bool const passed =
        some != nullptr && !commits && mix(mix(seed_, some->explored.runs), i) % 3 != 0;
    if (auto finding = passed ? std::nullopt : crash(leftover, i)) return finding;
    leftover.happen(recorded.events[i]);
  }
  return std::nullopt;
}

/// Everything that a power cut may leave at one place: all of it up to a bound, random ones beyond
/// it.
template <class Expected>
std::optional<Finding> DiskCrasher<Expected>::crash_at(Recorded const& recorded,
                                                       Leftover const& leftover, std::size_t event,
                                                       std::vector<CrashPoint> path) {
  bool const nested = path.size() > 1, last = event == recorded.events.size();
  DiskEvent const* const under_way = last ? nullptr : &recorded.events[event];
  Expected const& expected = last ? recorded.expected.back() : recorded.expected[under_way->oracle];
  auto const ways = leftover.ways(under_way);
  std::vector<std::uint8_t> choices(ways.size());
  std::uint32_t const most = nested ? options_.nested_leaves : options_.leaves;
  std::uint32_t const samples = nested ? options_.nested_leaves / 4 : options_.samples;
  std::uint64_t random = mix(seed_, event);
  if (Totals* const t = progress_.counted()) ++t->explored.windows;
  for (std::uint32_t n = 0; n < most + samples && !progress_.enough_here(); ++n) {
    if (Totals* const t = n == most ? progress_.counted() : nullptr)
      ++(nested ? t->explored.nested_sampled : t->explored.windows_sampled);
    for (std::size_t i = 0; i < ways.size() && n >= most; ++i)
      choices[i] = static_cast<std::uint8_t>((random = mix(random, n)) % ways[i]);
    path.back().choices = choices;
    if (auto finding = crash_once(leftover.compose(under_way, choices), expected, path))
      return finding;
    if (n < most && !next_of(choices, ways)) break;
  }
  return std::nullopt;
}

template <class Expected>
std::optional<Finding> DiskCrasher<Expected>::crash_once(DiskImage disk, Expected const& expected,
                                                         std::vector<CrashPoint> const& path) {
  std::uint64_t const state = mix(disk.hash(), expected.hash());
  if (!progress_.quiet && !judged_.insert(mix(state, path.size())).second) return std::nullopt;
  exec::SimScheduler scheduler({});
  Scheduled const scheduled(scheduler);
  std::uint64_t logical = 0;
  Recorded recovery;
  if (auto wrong = judge_cut(disk, expected, state, recovery, logical))
    return Finding{*wrong, seed_, {}, path, ""};
  bool const fresh =
      progress_.quiet || progress_.count_state(mix(state, seed_), mix(logical, seed_));
  if (!fresh || path.size() > 1 || state % 8 != 0) return std::nullopt;
  recovery.before = std::move(disk);
  if (Totals* const t = progress_.counted()) ++t->explored.nested;
  return crash_everywhere(recovery, path);
}

template <class Expected>
std::optional<std::string> DiskCrasher<Expected>::replay(Finding const& finding) {
  progress_.quiet = true;
  if (!prepare(finding.scenario)) return "the files cannot be made";
  Forward const forward = run({0, 0, finding.switches});
  if (forward.wrong) return forward.wrong;
  Recorded recorded = std::move(recorded_);
  for (CrashPoint const& crash : finding.crashes) {
    if (crash.window > recorded.events.size())
      return "this run has no request " + std::to_string(crash.window);
    Leftover leftover(recorded.before);
    for (std::size_t i = 0; i < crash.window; ++i) leftover.happen(recorded.events[i]);
    bool const last = crash.window == recorded.events.size();
    DiskEvent const* const under_way = last ? nullptr : &recorded.events[crash.window];
    Expected const expected =
        last ? recorded.expected.back() : recorded.expected[under_way->oracle];
    if (crash.choices.size() != leftover.ways(under_way).size())
      return "this run has other choices there";
    DiskImage const disk = leftover.compose(under_way, crash.choices);
    exec::SimScheduler scheduler({});
    Scheduled const scheduled(scheduler);
    std::uint64_t logical = 0;
    Recorded recovery;
    if (auto wrong = judge_cut(disk, expected, 0, recovery, logical)) return wrong;
    recovery.before = disk;
    recorded = std::move(recovery);
  }
  return std::nullopt;
}

}  // namespace perdure::explore
