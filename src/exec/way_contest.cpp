#include "exec/way_contest.hpp"

#include "base/assert.hpp"

namespace perdure::exec {
namespace {

/// 0 of none.
template <std::size_t kMost>
double middle_of(std::array<double, kMost> values, std::uint32_t n) {
  if (n == 0) return 0;
  std::sort(values.begin(), values.begin() + n);
  return values[n / 2];
}

}  // namespace

void WayContest::begin(std::size_t stays, std::size_t challenger, Terms const& terms) {
  PERDURE_ASSERT(stays != challenger && terms.settling > 0);
  *this = {};
  open_ = true;
  stays_ = stays;
  challenger_ = challenger;
  terms_ = terms;
}

WayContest::Verdict WayContest::noted(std::uint32_t block, std::size_t keys, double seconds,
                                      bool learning) {
  PERDURE_ASSERT(open_ && block <= block_ && keys > 0);
  Sum& sum = sums_[is_of_challenger(block) ? 1 : 0];
  learning_[is_of_challenger(block) ? 1 : 0] = learning;
  if (terms_.is_new && block == 0 && sum.keys == 0) {
    made_seconds_ = seconds;
    made_keys_ = static_cast<double>(keys);
  }
  sum.seconds += seconds;
  sum.keys += static_cast<double>(keys);
  if (block != block_) return Verdict::open;  // it ran beside others, and ended after its block
  if (costs_too_much()) return Verdict::stays;
  if (block == 0) {
    double const each = seconds / static_cast<double>(keys);
    quickest_ = quickest_ > 0 ? std::min(quickest_, each) : each;
    batches_ += learning ? 0 : 1;
    if (batches_ < terms_.settling) return Verdict::open;
    end_block();
    return goes_on_when_settled() ? Verdict::open : Verdict::stays;
  }
  ++batches_;
  bool const counted = counts();
  seconds_ += seconds;
  if (!counted || !window_.add(keys, seconds, terms_.is_long ? kStretch : 1)) return Verdict::open;
  windows_[windows_done_++] = window_.each();
  window_ = {};
  if (is_hopeless()) return Verdict::stays;
  if (windows_done_ < kWindows) return Verdict::open;
  double const most = kSlow * middle_of(windows_, kWindows);
  double all = 0;
  for (double const one : windows_) all += std::min(one, most);
  std::size_t const side = is_of_challenger(block) ? 1 : 0;
  each_[side][done_[side]++] = all / kWindows;
  least_ = *std::min_element(windows_.begin(), windows_.end());
  end_block();
  return side == 1 ? verdict() : Verdict::open;
}

bool WayContest::goes_on_when_settled() const {
  if (terms_.glance > 0 && quickest_ > kQuicker * terms_.glance) return false;
  return terms_.hopeless == 0 || quickest_ <= terms_.hopeless;
}

/// Whether the batch that is being noted does.
bool WayContest::counts() const {
  bool const enough = batches_ > kUncounted || (batches_ > 1 && seconds_ >= kLongBatch);
  return enough && seconds_ >= (terms_.is_long ? kUncountedLong : kUncountedSeconds);
}

/// A challenger whose windows so far all took much too long need not go on to the block's end.
bool WayContest::is_hopeless() const {
  if (!is_of_challenger(block_) || windows_done_ < kHopelessWindows) return false;
  double const most = (terms_.lost_before ? kHopelessAgain : kHopeless) * each_[0][done_[0] - 1];
  return std::all_of(windows_.begin(), windows_.begin() + windows_done_,
                     [&](double one) { return one > most; });
}

/// Beside the middle block of the way that stays, or what is known of it. To change ways costs the
/// one that stays, too.
bool WayContest::costs_too_much() const {
  double const each = done_[0] > 0 ? sum(false).each : terms_.stays_each;
  if (terms_.most_cost == 0 || each == 0) return false;
  double const seconds = sums_[0].seconds + sums_[1].seconds - made_seconds_;
  double const keys = sums_[0].keys + sums_[1].keys - made_keys_;
  return seconds > terms_.most_cost + keys * each * terms_.slow_batches;
}

void WayContest::end_block() {
  ++block_;
  batches_ = 0;
  seconds_ = 0;
  window_ = {};
  windows_done_ = 0;
}

WayContest::Verdict WayContest::verdict() const {
  PERDURE_ASSERT(done_[0] == done_[1] && done_[0] > 0);
  std::uint32_t const pairs = done_[0];
  std::array<double, kPairs> ratios{};
  for (std::uint32_t p = 0; p < pairs; ++p)
    ratios[p] = each_[0][p] > 0 ? each_[1][p] / each_[0][p] : 1;
  double const ratio = middle_of(ratios, pairs);
  auto const count = [&](auto holds) {
    return static_cast<std::uint32_t>(std::count_if(ratios.begin(), ratios.begin() + pairs, holds));
  };
  std::uint32_t const slower = count([](double one) { return one > kPlain; });
  std::uint32_t const faster = count([](double one) { return one < 1 / kPlain; });
  if (terms_.lost_before && slower == pairs) return Verdict::stays;
  if (terms_.lost_before && pairs >= kPairsAgain && ratio >= terms_.below) return Verdict::stays;
  // One pair is enough where every window was slow; else it may have been the machine.
  bool const clear = ratio > kClear && (pairs >= kFewPairs || least_ > kClear * each_[0][0]);
  if (clear || (slower >= kFewPairs && 4 * slower >= 3 * pairs)) return Verdict::stays;
  if (faster >= kFewPairs && faster == pairs) return Verdict::challenger;
  if (pairs < (terms_.is_long ? kLongPairs : kPairs)) return Verdict::open;
  return ratio < terms_.below ? Verdict::challenger : Verdict::stays;
}

WayContest::Sum WayContest::sum(bool of_challenger) const {
  std::size_t const side = of_challenger ? 1 : 0;
  Sum sum = sums_[side];
  if (done_[side] > 0)
    sum.each = middle_of(each_[side], done_[side]);
  else if (sum.keys > 0)
    sum.each = sum.seconds / sum.keys;
  return sum;
}

}  // namespace perdure::exec
