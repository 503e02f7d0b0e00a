#include "exec/split.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <utility>

#include "base/assert.hpp"

namespace perdure::exec {
namespace {

constexpr std::uint32_t kAgain = 2;  // batches that settle a way which has been tried before
constexpr double kBudget = 1.0 / 96;  // of the time, for contests of a way that lost
constexpr std::uint32_t kMostLost = 2;  // after so many, its budget is halved no further
constexpr std::uint32_t kFewestBatches = 256;  // between two contests of a way
constexpr double kHopeless = 4;  // a way whose first batches again all take so many times as long
constexpr double kChanged = 1.5;  // a middle that moved by as much is another machine
constexpr double kShareChanged = 2;  // and so is a share
// The way that stays takes so much longer than is known of another: that one is tried again after a
// shorter wait.
constexpr double kWorse = 1.05;
constexpr double kWorseBudget = 1.0 / 64;
constexpr std::uint32_t kWorseBatches = 64;
constexpr double kLeastExcess = 1.0 / 32;  // of a contest's time, for a mean has its luck, too
constexpr double kMostCost = 20e-3;  // seconds of a contest
constexpr double kMostBatches = 8;  // of the way that stays, which it may cost, too
constexpr double kLongBudget = 1.0 / 192;  // of the time, for long contests that ways nearly won
constexpr double kPlain = 1.1;  // ratio by which a way wins that has not lost a long contest yet
constexpr double kLongBatch = 2.4e-3;  // seconds; blocks of such batches are long by themselves
constexpr std::uint32_t kShareSettling = 10;  // batches that the share needs, too

std::size_t class_of(std::size_t n) {
  return static_cast<std::size_t>(std::bit_width(std::max<std::size_t>(n, 1))) - 1;
}
std::size_t number(SplitWay way) { return static_cast<std::size_t>(way); }
double wait_of(double seconds, std::uint32_t lost) {
  return seconds * static_cast<double>(1u << lost);
}
double within(double share) { return std::clamp(share, 1.0 / 64, 1 - 1.0 / 1024); }

}  // namespace

Split::Choice Split::next(std::size_t n) {
  Class& c = classes_[class_of(n)];
  c.came = true;
  if (c.settled < settling_) {
    ++c.settled;
    return choice(c, c.best, n);
  }
  if (!c.contest.is_open()) begin_contest(c, n);
  if (!c.contest.is_open()) return choice(c, c.best, n);
  Choice chosen = choice(c, c.contest.way(), n);
  chosen.contest = c.contests;
  chosen.block = c.contest.block();
  return chosen;
}

/// The ratio of times below which a challenger takes over. Two sides at work disturb more than
/// they do themselves, so both must be worth it, and one alone need not even be as fast as both.
double Split::takes_over_below(Way stays, Way challenger) {
  if (challenger == Way::both) return 0.94;
  return stays == Way::both ? 1.02 : 0.98;
}

Split::Choice Split::asked(Way way, std::size_t n) const {
  return choice(classes_[class_of(n)], way, n);
}

void Split::noted(Choice const& was, std::size_t n, Times const& took) {
  PERDURE_ASSERT(n > 0);
  Class& c = classes_[class_of(n)];
  c.spent += took.seconds;
  if (was.way == Way::both) move_share(c, was, n, took);
  if (was.contest == 0) {
    if (was.way == Way::both) host_alone(c, was, n, took);
    watch(c, n, took.seconds);
    return;
  }
  if (was.contest != c.contests || !c.contest.is_open()) return;  // decided without it
  auto const verdict = c.contest.noted(was.block, n, took.seconds);
  if (verdict != SplitContest::Verdict::open) end_contest(c, n, verdict);
}

void Split::parted(Choice const& was, std::size_t n, Times const& took) {
  move_share(classes_[class_of(n)], was, n, took);
}

/// The part of the time that may go into contests of this way where something speaks for it; else
/// 0. Of a way that stays and takes much longer than is known of this one, more is lost without.
double Split::budget(Class const& c, std::size_t way) {
  bool const worse = c.watched.is_full() && c.watched.value() > kWorse * c.known[way];
  double const lost = worse ? 1 - c.known[way] / c.watched.value() : 0;
  return worse || c.rivals[way].doubted ? std::max(kWorseBudget, lost * lost / 4) : 0;
}

bool Split::is_due(Class const& c, std::size_t way) {
  Rival const& rival = c.rivals[way];
  if (way == number(c.best)) return false;
  if (!rival.tried) return true;
  if (rival.batches >= kWorseBatches && rival.excess <= rival.since * budget(c, way)) return true;
  return rival.batches >= kFewestBatches &&
         rival.since >= wait_of(rival.excess / kBudget, rival.lost);
}

/// What a contest may cost until it is given up; 0 of a way that is new, which may take long until
/// it is as fast as it will be.
double Split::most_cost(Class const& c, std::size_t way, std::size_t n) {
  if (!c.rivals[way].tried) return 0;
  return std::max(kMostCost, kMostBatches * static_cast<double>(n) * c.middle[number(c.best)]);
}

void Split::begin_contest(Class& c, std::size_t n) const {
  for (std::size_t k = 1; k <= kSplitWays; ++k) {
    std::size_t const way = (c.last_rival + k) % kSplitWays;
    if (!is_due(c, way)) continue;
    // Both begin with what each took alone, which the contest of the two has said.
    bool const both = way == number(Way::both), first = !c.rivals[way].tried;
    if (both && first && c.moves == 0) {
      double const host = c.middle[number(Way::host)], device = c.middle[number(Way::device)];
      if (host + device > 0) c.share = within(host / (host + device));
    }
    c.last_rival = way;
    std::uint32_t const settling = first && way != number(Way::host) ? settling_ : kAgain;
    // The first time a way may take long until it is as fast as it will be.
    c.contest.begin(c.best, static_cast<Way>(way), false,
                    {takes_over_below(c.best, static_cast<Way>(way)),
                     settling + (first && both ? kShareSettling : 0),
                     first ? 0 : kHopeless * c.middle[number(c.best)], most_cost(c, way, n)});
    ++c.contests;
    return;
  }
}

/// Blocks say who is far ahead. Where they are near each other, or another is to take over, long
/// blocks decide: after every win, and after a loss where time for it has come.
bool Split::goes_on(Class const& c, std::size_t n, bool wins) {
  auto const stays = c.contest.sum(false), challenges = c.contest.sum(true);
  if (c.contest.is_long() || stays.each == 0 ||
      challenges.each * static_cast<double>(n) > kLongBatch)
    return false;
  Rival const& rival = c.rivals[number(c.contest.challenger())];
  if (wins) return rival.tried_long || challenges.each * kPlain > stays.each;
  return challenges.each < SplitContest::kClear * stays.each &&
         (!rival.tried_long ||
          rival.since_long >= wait_of(rival.excess_long / kLongBudget, rival.lost));
}

void Split::end_contest(Class& c, std::size_t n, SplitContest::Verdict verdict) const {
  Way const challenger = c.contest.challenger();
  auto const stays = c.contest.sum(false), challenges = c.contest.sum(true);
  bool const wins = verdict == SplitContest::Verdict::challenger;
  // Beside the winner's mean, slow batches and all; of the way that stays that is known from
  // before. What changing from one to the other costs it is in the excess.
  double const mean = wins               ? challenges.seconds / challenges.keys
                      : c.plain_keys > 0 ? c.plain_seconds / c.plain_keys
                                         : stays.each;
  double const took = stays.seconds + challenges.seconds;
  double const excess = std::max(kLeastExcess * took, took - mean * (stays.keys + challenges.keys));
  if (stays.each > 0) learn(c, c.best, stays.each);
  learn(c, challenger, challenges.each);
  c.on_contests += excess;
  if (!c.contest.is_long() || c.won_short) c.excess += excess;
  if (goes_on(c, n, wins)) {
    ++c.contests;
    c.won_short = wins;
    c.contest.begin(
        c.best, challenger, true,
        {takes_over_below(c.best, challenger), kAgain, 0, most_cost(c, number(challenger), n)});
    return;
  }
  Rival& rival = c.rivals[number(wins ? c.best : challenger)];
  if (c.contest.is_long()) {
    rival.tried_long = true;
    rival.excess_long = excess;
    rival.since_long = 0;
  }
  c.contest.end();
  rival.lost = wins || !rival.tried ? 0 : std::min(rival.lost + 1, kMostLost);
  rival.tried = true;
  rival.doubted = false;
  rival.excess = std::exchange(c.excess, 0);
  rival.since = 0;
  rival.batches = 0;
  ++c.ended;
  if (wins) c.best = challenger;
  c.share_then = c.share;
  c.plain_seconds = c.plain_keys = 0;
  c.odd = 0;
  c.watched = {};
  c.window = {};
  c.host_parts = {};
  c.host_part = {};
}

/// What a contest says of a way.
void Split::learn(Class& c, Way way, double each) {
  c.middle[number(way)] = each;
  double& known = c.known[number(way)];
  known = known > 0 && known < each ? std::sqrt(known * each) : each;
}

/// Of a batch of the way that stays.
void Split::watch(Class& c, std::size_t n, double seconds) {
  for (Rival& rival : c.rivals) {
    rival.since += seconds;
    rival.since_long += seconds;
    ++rival.batches;
  }
  c.plain_seconds += seconds;
  c.plain_keys += static_cast<double>(n);
  if (!c.window.add(n, seconds)) return;
  c.watched.add(c.window.each());
  c.window = {};
  double const usual = c.middle[number(c.best)];
  if (!c.watched.is_full() || usual <= 0) return;
  double const now = c.watched.value();
  bool const moved = c.best == Way::both && (c.share > c.share_then * kShareChanged ||
                                             c.share_then > c.share * kShareChanged);
  bool const odd = moved || now > usual * kChanged || usual > now * kChanged;
  c.odd = odd ? c.odd + 1 : 0;
  if (c.odd == Middle::kKept) changed(c, now, moved);  // not for a few windows by chance
}

/// The way that stays is no longer what it was. Others are tried soon where they were faster than
/// it is now, and all of them where it parts otherwise: nothing that is known of them counts then.
void Split::changed(Class& c, double now, bool parts_otherwise) {
  c.middle[number(c.best)] = c.known[number(c.best)] = now;
  c.watched = {};
  c.odd = 0;
  c.share_then = c.share;
  for (std::size_t way = 0; way < kSplitWays; ++way) {
    if (!parts_otherwise && c.middle[way] >= now) continue;
    c.rivals[way].lost = 0;
    c.rivals[way].tried_long = false;
    c.rivals[way].doubted = true;
  }
}

/// While both stay, the host's part tells for nothing how long it takes for a key at most.
void Split::host_alone(Class& c, Choice const& was, std::size_t n, Times const& took) {
  if (took.host_seconds <= 0 || !c.host_part.add(n - was.device_n, took.host_seconds)) return;
  c.host_parts.add(c.host_part.each());
  c.host_part = {};
  double& known = c.known[number(Way::host)];
  if (c.host_parts.is_full()) known = std::min(known, c.host_parts.value());
}

Split::Choice Split::choice(Class const& c, Way way, std::size_t n) {
  if (way == Way::host) return {way, 0};
  if (way == Way::device) return {way, n};
  auto const part = static_cast<std::size_t>(std::lround(c.share * static_cast<double>(n)));
  return {Way::both, std::clamp<std::size_t>(part, 1, std::max<std::size_t>(n, 2) - 1)};
}

/// Half of the way to where both would end at one time, and less once it has settled. Where only
/// the later one is known, and that is the host, an eighth of the smaller part, or a sixteenth.
void Split::move_share(Class& c, Choice const& was, std::size_t n, Times const& took) {
  constexpr std::uint32_t kSettled = 16;
  bool const settled = c.moves >= kSettled;
  if (!settled) ++c.moves;
  double const device_seconds =
      took.device_seconds > 0 || took.device_first ? took.device_seconds : took.seconds;
  if (device_seconds > 0 && took.host_seconds > 0) {
    double const device = static_cast<double>(was.device_n) / device_seconds;
    double const host = static_cast<double>(n - was.device_n) / took.host_seconds;
    c.share += (device / (device + host) - c.share) / (settled ? 8 : 2);
  } else {
    c.share += std::min(c.share, 1 - c.share) / (settled ? 16 : 8);
  }
  c.share = within(c.share);
}

Split::Report Split::report_of(Class const& c, std::size_t k) {
  Report report;
  report.batch = std::uint64_t{1} << k;
  report.share = c.share;
  report.best = c.best;
  report.contests = c.ended;
  report.spent = c.spent;
  report.on_contests = c.on_contests;
  for (std::size_t way = 0; way < kSplitWays; ++way)
    report.seconds[way] = c.middle[way] * static_cast<double>(report.batch);
  return report;
}

Split::Report Split::report(std::size_t n) const {
  std::size_t const k = class_of(n);
  return report_of(classes_[k], k);
}

std::vector<Split::Report> Split::reports() const {
  std::vector<Report> all;
  for (std::size_t k = 0; k < classes_.size(); ++k)
    if (classes_[k].came) all.push_back(report_of(classes_[k], k));
  return all;
}

}  // namespace perdure::exec
