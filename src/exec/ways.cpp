#include "exec/ways.hpp"

#include <algorithm>
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
// The way that stays takes so much longer than is known of another: that one is tried again after a
// shorter wait.
constexpr double kWorse = 1.05;
constexpr double kWorseBudget = 1.0 / 64;
constexpr std::uint32_t kWorseBatches = 64;
constexpr double kLeastExcess = 1.0 / 32;  // of a contest's time, for a mean has its luck, too
constexpr double kGlanceBudget = 1.0 / 256;  // of the time, for glances at a way
constexpr std::uint32_t kGlanceBatches = 256;  // between two of them
constexpr double kGlanceSeconds = 50e-3;  // and so many seconds
constexpr double kLongBudget = 1.0 / 192;  // of the time, for long contests that ways nearly won
constexpr double kPlain = 1.1;  // ratio by which a way wins that has not lost a long contest yet
constexpr double kLongBatch = 2.4e-3;  // seconds; blocks of such batches are long by themselves
// So long the way that stays first may learn before others are compared with it anyway.
constexpr double kLearning = 0.1;
constexpr std::uint32_t kLearningBatches = 64;
// So much may contests of a way cost that are not remembered, because it was learning; and how much
// longer it may take by then.
constexpr double kMostLearnt = 0.1;
constexpr double kLearnsFrom = 3;

double wait_of(double seconds, std::uint32_t lost) {
  return seconds * static_cast<double>(1u << lost);
}

}  // namespace

Ways::Choice Ways::next(std::size_t n) {
  if (settled_ < rules_.settling) {
    ++settled_;
    return {best_, 0, 0};
  }
  if (!contest_.is_open()) begin_contest(n);
  if (!contest_.is_open()) return {best_, 0, 0};
  return {contest_.way(), contests_, contest_.block()};
}

bool Ways::noted(Choice const& was, std::size_t n, Times const& took) {
  PERDURE_ASSERT(n > 0);
  spent_ += took.seconds;
  if (was.contest == 0) return watch(n, took);
  if (was.contest != contests_ || !contest_.is_open()) return false;  // decided without it
  auto const verdict = contest_.noted(was.block, n, took.seconds, took.learning);
  if (verdict == WayContest::Verdict::open) return false;
  end_contest(n, verdict);
  return true;
}

void Ways::known_at_most(std::size_t way, double each) {
  known_[way] = std::min(known_[way], each);
}

bool Ways::all_tried() const {
  for (std::size_t way = 0; way < rules_.ways; ++way)
    if (way != best_ && !rivals_[way].tried) return false;
  return true;
}

/// The part of the time that may go into contests of this way where something speaks for it; else
/// 0. Of a way that stays and takes much longer than is known of this one, more is lost without.
double Ways::budget(std::size_t way) const {
  bool const worse = watched_.is_full() && watched_.value() > kWorse * known_[way];
  double const lost = worse ? 1 - known_[way] / watched_.value() : 0;
  return worse || rivals_[way].doubted ? std::max(kWorseBudget, lost * lost / 4) : 0;
}

bool Ways::is_due(std::size_t way) const {
  Rival const& rival = rivals_[way];
  if (way == best_) return false;
  // Of the way that stays it is known then what a contest costs.
  if (!rival.tried)
    return watched_.is_full() && (rival.learnt == 0 || rival.batches >= kWorseBatches);
  if (rival.batches >= kWorseBatches && rival.excess <= rival.since * budget(way)) return true;
  return rival.batches >= kFewestBatches &&
         rival.since >= wait_of(rival.excess / kBudget, rival.lost);
}

/// Between its contests, a few batches of a way that lost say whether it is as it was then.
bool Ways::is_due_for_a_glance(std::size_t way) const {
  Rival const& rival = rivals_[way];
  return way != best_ && rival.tried && rival.quickest > 0 &&
         rival.batches_glance >= kGlanceBatches &&
         rival.since_glance >= std::max(kGlanceSeconds, rival.excess_glance / kGlanceBudget);
}

/// What a contest may cost until it is given up.
double Ways::most_cost(std::size_t n) const {
  return std::max(kMostCost, kMostBatches * static_cast<double>(n) * middle_[best_]);
}

void Ways::begin_contest(std::size_t n) {
  for (std::size_t k = 1; k <= rules_.ways; ++k) {
    std::size_t const way = (last_rival_ + k) % rules_.ways;
    bool const glance = !is_due(way);
    if (glance && !is_due_for_a_glance(way)) continue;
    last_rival_ = way;
    if (watched_.is_full() && middle_[best_] == 0) middle_[best_] = watched_.value();
    WayContest::Terms asked = terms(way, n);
    asked.glance = glance ? rivals_[way].quickest : 0;
    contest_.begin(best_, way, asked);
    ++contests_;
    return;
  }
}

WayContest::Terms Ways::terms(std::size_t challenger, std::size_t n) const {
  Rival const& rival = rivals_[challenger];
  WayContest::Terms terms;
  terms.below = rules_.takes_over_below(best_, challenger);
  terms.settling = rival.tried ? kAgain : rules_.first[challenger];
  terms.stays_each = middle_[best_];
  if (watched_.is_full())
    terms.slow_batches = std::max(1.0, plain_seconds_ / plain_keys_ / watched_.value());
  // The first time a way may take long until it is as fast as it will be.
  terms.hopeless = rival.tried ? kHopeless * middle_[best_] : 0;
  terms.most_cost = (rival.tried ? 1 : kFirst) * most_cost(n);
  terms.lost_before = rival.tried;
  terms.is_new = !rival.tried && rival.learnt == 0;
  return terms;
}

/// Blocks say who is far ahead. Where they are near each other, or another is to take over, long
/// blocks decide: after every win, and after a loss where time for it has come.
bool Ways::goes_on(std::size_t n, bool wins) const {
  auto const stays = contest_.sum(false), challenges = contest_.sum(true);
  if (contest_.is_long() || stays.each == 0 ||
      challenges.each * static_cast<double>(n) > kLongBatch)
    return false;
  for (std::size_t way = 0; rules_.all_before_long && way < rules_.ways; ++way)
    if (way != best_ && way != contest_.challenger() && !rivals_[way].tried) return false;
  Rival const& rival = rivals_[contest_.challenger()];
  if (wins) return rival.tried_long || challenges.each * kPlain > stays.each;
  return challenges.each < WayContest::kClear * stays.each &&
         (!rival.tried_long ||
          rival.since_long >= wait_of(rival.excess_long / kLongBudget, rival.lost));
}

void Ways::end_contest(std::size_t n, WayContest::Verdict verdict) {
  std::size_t const challenger = contest_.challenger();
  auto const stays = contest_.sum(false), challenges = contest_.sum(true);
  bool const wins = verdict == WayContest::Verdict::challenger;
  // Beside the winner's mean, slow batches and all; of the way that stays that is known from
  // before. What changing from one to the other costs it is in the excess.
  double const mean = wins              ? challenges.seconds / challenges.keys
                      : plain_keys_ > 0 ? plain_seconds_ / plain_keys_
                                        : stays.each;
  double const took = stays.seconds + challenges.seconds;
  double const excess = std::max(kLeastExcess * took, took - mean * (stays.keys + challenges.keys));
  on_contests_ += excess;
  // A glance costs a batch of the way that comes back, too, while threads wake again.
  double const batch = mean * static_cast<double>(n);
  if (contest_.is_glance() && contest_.only_settled()) return glanced(challenger, excess + batch);
  std::size_t const loser = wins ? best_ : challenger;
  bool const learning = goes_on_learning(loser, !wins, excess);
  if (stays.each > 0 && !(learning && wins)) learn(best_, stays.each);
  if (!learning || wins) learn(challenger, challenges.each);
  if (!contest_.is_long()) rivals_[challenger].quickest = contest_.quickest();
  if (!contest_.is_long() || won_short_) excess_ += excess;
  if (goes_on(n, wins)) {
    ++contests_;
    won_short_ = wins;
    WayContest::Terms again = terms(challenger, n);
    again.settling = kAgain;
    again.hopeless = 0;
    again.is_long = true;
    again.is_new = false;
    again.lost_before = rivals_[challenger].tried_long && !wins;
    contest_.begin(best_, challenger, again);
    return;
  }
  Rival& rival = rivals_[loser];
  if (contest_.is_long()) {
    rival.tried_long = true;
    rival.excess_long = excess;
    rival.since_long = 0;
  }
  contest_.end();
  rival.lost = wins || !rival.tried ? 0 : std::min(rival.lost + 1, kMostLost);
  rival.tried = !learning;
  rival.learnt += learning ? excess : 0;
  rival.doubted = false;
  rival.excess = std::exchange(excess_, 0);
  rival.excess_glance =
      batch + kAgain * std::max(0.0, challenges.each * static_cast<double>(n) - batch);
  rival.since = rival.since_glance = 0;
  rival.batches = rival.batches_glance = 0;
  ++ended_;
  if (wins) best_ = challenger;
  plain_seconds_ = plain_keys_ = 0;
  odd_ = 0;
  watched_ = {};
  window_ = {};
}

/// Whether a way that lost had a choice of its own to make that could change that, and may go on.
bool Ways::goes_on_learning(std::size_t way, bool challenger, double excess) const {
  double const winner = contest_.sum(!challenger).each;
  double const usual = challenger && winner == 0 ? middle_[best_] : winner;
  return contest_.was_learning(challenger) && rivals_[way].learnt + excess <= kMostLearnt &&
         contest_.sum(challenger).each <= kLearnsFrom * usual;
}

/// It is as it was when it lost.
void Ways::glanced(std::size_t way, double excess) {
  contest_.end();
  Rival& rival = rivals_[way];
  rival.excess_glance = excess;
  rival.since_glance = 0;
  rival.batches_glance = 0;
}

/// What a contest says of a way.
void Ways::learn(std::size_t way, double each) {
  middle_[way] = each;
  double& known = known_[way];
  known = known > 0 && known < each ? std::sqrt(known * each) : each;
}

/// Of a batch of the way that stays: whether it has changed.
bool Ways::watch(std::size_t n, Times const& took) {
  if (took.learning && (learning_seconds_ < kLearning || learning_ < kLearningBatches)) {
    learning_seconds_ += took.seconds;
    ++learning_;
    return false;
  }
  for (Rival& rival : rivals_) {
    rival.since += took.seconds;
    rival.since_long += took.seconds;
    rival.since_glance += took.seconds;
    ++rival.batches;
    ++rival.batches_glance;
  }
  plain_seconds_ += took.seconds;
  plain_keys_ += static_cast<double>(n);
  if (!window_.add(n, took.seconds)) return false;
  watched_.add(window_.each());
  window_ = {};
  double const usual = middle_[best_];
  if (!watched_.is_full() || usual <= 0) return false;
  double const now = watched_.value();
  bool const odd = took.parts_otherwise || now > usual * kChanged || usual > now * kChanged;
  odd_ = odd ? odd_ + 1 : 0;
  if (odd_ < Middle::kKept) return false;  // a few by chance
  changed(now, took.parts_otherwise);
  return true;
}

/// The way that stays is no longer what it was. Others are tried soon where they were faster than
/// it is now, and all of them where it parts otherwise: nothing that is known of them counts then.
void Ways::changed(double now, bool parts_otherwise) {
  middle_[best_] = known_[best_] = now;
  watched_ = {};
  odd_ = 0;
  for (std::size_t way = 0; way < kMost; ++way) {
    if (!parts_otherwise && middle_[way] >= now) continue;
    rivals_[way].lost = 0;
    rivals_[way].tried_long = false;
    rivals_[way].doubted = true;
  }
}

}  // namespace perdure::exec
