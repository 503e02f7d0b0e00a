#include "exec/split_contest.hpp"

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

void SplitContest::begin(SplitWay stays, SplitWay challenger, bool is_long, Terms const& terms) {
  PERDURE_ASSERT(stays != challenger && terms.settling > 0);
  *this = {};
  open_ = true;
  stays_ = stays;
  challenger_ = challenger;
  terms_ = terms;
  stretch_ = is_long ? kStretch : 1;
  most_pairs_ = is_long ? kLongPairs : kPairs;
}

SplitContest::Verdict SplitContest::noted(std::uint32_t block, std::size_t keys, double seconds) {
  PERDURE_ASSERT(open_ && block <= block_ && keys > 0);
  Sum& sum = sums_[is_of_challenger(block) ? 1 : 0];
  sum.seconds += seconds;
  sum.keys += static_cast<double>(keys);
  if (block != block_) return Verdict::open;  // it ran beside others, and ended after its block
  ++batches_;
  if (is_of_challenger(block) && costs_too_much()) return Verdict::stays;
  if (block == 0) {
    promising_ |= seconds <= terms_.hopeless * static_cast<double>(keys);
    if (batches_ < terms_.settling) return Verdict::open;
    end_block();
    return promising_ || terms_.hopeless == 0 ? Verdict::open : Verdict::stays;
  }
  bool const counts = batches_ > kUncounted && seconds_ >= kUncountedSeconds * stretch_;
  seconds_ += seconds;
  if (!counts || !window_.add(keys, seconds, stretch_)) return Verdict::open;
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

/// A challenger whose windows so far all took much too long need not go on to the block's end.
bool SplitContest::is_hopeless() const {
  if (!is_of_challenger(block_) || windows_done_ < kHopelessWindows) return false;
  double const most = kHopeless * each_[0][done_[0] - 1];
  return std::all_of(windows_.begin(), windows_.begin() + windows_done_,
                     [&](double one) { return one > most; });
}

/// Beside the middle block of the way that stays.
bool SplitContest::costs_too_much() const {
  if (terms_.most_cost == 0 || done_[0] == 0) return false;
  return sums_[1].seconds > terms_.most_cost + sums_[1].keys * sum(false).each;
}

void SplitContest::end_block() {
  ++block_;
  batches_ = 0;
  seconds_ = 0;
  window_ = {};
  windows_done_ = 0;
}

SplitContest::Verdict SplitContest::verdict() const {
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
  // One pair is enough where every window was slow; else it may have been the machine.
  bool const clear = ratio > kClear && (pairs >= kFewPairs || least_ > kClear * each_[0][0]);
  if (clear || (slower >= kFewPairs && 4 * slower >= 3 * pairs)) return Verdict::stays;
  if (faster >= kFewPairs && faster == pairs) return Verdict::challenger;
  if (pairs < most_pairs_) return Verdict::open;
  return ratio < terms_.below ? Verdict::challenger : Verdict::stays;
}

SplitContest::Sum SplitContest::sum(bool of_challenger) const {
  std::size_t const side = of_challenger ? 1 : 0;
  Sum sum = sums_[side];
  if (done_[side] > 0)
    sum.each = middle_of(each_[side], done_[side]);
  else if (sum.keys > 0)
    sum.each = sum.seconds / sum.keys;
  return sum;
}

}  // namespace perdure::exec
