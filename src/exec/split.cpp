#include "exec/split.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

#include "base/assert.hpp"

namespace perdure::exec {
namespace {

constexpr double kShareChanged = 2;  // a share that moved by as much is another way
constexpr std::uint32_t kShareSettling = 10;  // batches that the share needs, too

std::size_t class_of(std::size_t n) {
  return static_cast<std::size_t>(std::bit_width(std::max<std::size_t>(n, 1))) - 1;
}
std::size_t number(SplitWay way) { return static_cast<std::size_t>(way); }
double within(double share) { return std::clamp(share, 1.0 / 64, 1 - 1.0 / 1024); }

}  // namespace

Split::Split(std::uint32_t settling, Way usual) {
  Ways::Rules rules;
  rules.ways = kSplitWays;
  rules.usual = number(usual);
  rules.settling = settling;
  rules.first[number(Way::device)] = settling;
  rules.first[number(Way::both)] = settling + kShareSettling;
  rules.takes_over_below = takes_over_below;
  for (Class& c : classes_) c.ways = Ways(rules);
}

Split::Choice Split::next(std::size_t n) {
  Class& c = classes_[class_of(n)];
  c.came = true;
  Ways::Choice const way = c.ways.next(n);
  // Both begin with what each took alone, which the contest of the two has said.
  if (way.way == number(Way::both) && c.moves == 0) {
    double const host = c.ways.each(number(Way::host)), device = c.ways.each(number(Way::device));
    if (host > 0 && device > 0) c.share = within(host / (host + device));
  }
  Choice chosen = choice(c, static_cast<Way>(way.way), n);
  chosen.contest = way.contest;
  chosen.block = way.block;
  return chosen;
}

/// Two sides at work disturb more than they do themselves, so both must be worth it, and one alone
/// need not even be as fast as both.
double Split::takes_over_below(std::size_t stays, std::size_t challenger) {
  if (challenger == number(Way::both)) return 0.94;
  return stays == number(Way::both) ? 1.02 : 0.98;
}

Split::Choice Split::asked(Way way, std::size_t n) const {
  return choice(classes_[class_of(n)], way, n);
}

void Split::noted(Choice const& was, std::size_t n, Times const& took) {
  PERDURE_ASSERT(n > 0);
  Class& c = classes_[class_of(n)];
  if (was.way == Way::both) move_share(c, was, n, took);
  if (was.contest == 0 && was.way == Way::both) host_alone(c, was, n, took);
  bool const anew = c.ways.noted({number(was.way), was.contest, was.block}, n,
                                 {took.seconds, took.learning, parts_otherwise(c)});
  if (!anew) return;
  c.share_then = c.share;
  c.host_parts = {};
  c.host_part = {};
}

void Split::parted(Choice const& was, std::size_t n, Times const& took) {
  move_share(classes_[class_of(n)], was, n, took);
}

/// Both stay, and the device has another part of the batch than when they began to.
bool Split::parts_otherwise(Class const& c) {
  return c.ways.best() == number(Way::both) &&
         (c.share > c.share_then * kShareChanged || c.share_then > c.share * kShareChanged);
}

/// While both stay, the host's part tells for nothing how long it takes for a key at most.
void Split::host_alone(Class& c, Choice const& was, std::size_t n, Times const& took) {
  if (took.host_seconds <= 0 || !c.host_part.add(n - was.device_n, took.host_seconds)) return;
  c.host_parts.add(c.host_part.each());
  c.host_part = {};
  if (c.host_parts.is_full()) c.ways.known_at_most(number(Way::host), c.host_parts.value());
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
  report.best = static_cast<Way>(c.ways.best());
  report.contests = c.ways.contests();
  report.spent = c.ways.spent();
  report.on_contests = c.ways.on_contests();
  for (std::size_t way = 0; way < kSplitWays; ++way)
    report.seconds[way] = c.ways.each(way) * static_cast<double>(report.batch);
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
