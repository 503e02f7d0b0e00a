#include "exec/split_contest.hpp"

#include <vector>

#include "base/assert.hpp"

namespace perdure::exec {
namespace {

/// Of some, all at least 0.
double middle_of(std::vector<double> values) {
  if (values.empty()) return 0;
  auto const at = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), at, values.end());
  return *at;
}

}  // namespace

double SplitContest::Block::middle() const {
  auto sorted = each;
  std::sort(sorted.begin(), sorted.end());
  return sorted[kCounted / 2];
}

void SplitContest::begin(SplitWay stays, SplitWay challenger, std::uint32_t settling,
                         double below) {
  PERDURE_ASSERT(!open_ && stays != challenger);
  *this = {};
  open_ = true;
  stays_ = stays;
  challenger_ = challenger;
  settling_ = settling;
  below_ = below;
}

SplitContest::Step SplitContest::next() {
  PERDURE_ASSERT(open_ && has_next());
  std::uint32_t const number = next_++;
  bool const of_challenger = number < settling_ || (number - settling_) / kBlock % 2 == 1;
  return {of_challenger ? challenger_ : stays_, number};
}

SplitContest::Verdict SplitContest::noted(std::uint32_t step, std::size_t keys, double seconds) {
  PERDURE_ASSERT(open_ && step < next_ && keys > 0);
  std::uint32_t const at = step < settling_ ? 0 : step - settling_;
  std::size_t const side = step < settling_ ? 1 : at / kBlock % 2;
  sums_[side].seconds += seconds;
  sums_[side].keys += static_cast<double>(keys);
  if (step < settling_ || at % kBlock < kUncounted) return Verdict::open;
  Block& block = blocks_[at / (2 * kBlock)][side];
  block.each[at % kBlock - kUncounted] = seconds / static_cast<double>(keys);
  ++block.count;
  return verdict();
}

SplitContest::Verdict SplitContest::verdict() const {
  std::vector<double> ratios;
  for (auto const& [stays, challenger] : blocks_) {
    if (stays.count < kCounted || challenger.count < kCounted) continue;
    ratios.push_back(stays.middle() > 0 ? challenger.middle() / stays.middle() : 1);
  }
  if (ratios.empty()) return Verdict::open;
  double const ratio = middle_of(ratios);
  auto const all = [&](auto holds) { return std::ranges::all_of(ratios, holds); };
  bool const some = ratios.size() >= kFewPairs;
  // That a challenger lost by chance costs little: it comes again.
  if (ratio > kClear || (some && all([](double one) { return one > kPlain; })))
    return Verdict::stays;
  if (some && all([](double one) { return one < 1 / kPlain; })) return Verdict::challenger;
  if (ratios.size() < kPairs) return Verdict::open;
  return ratio < below_ ? Verdict::challenger : Verdict::stays;
}

SplitContest::Sum SplitContest::sum(bool of_challenger) const {
  std::size_t const side = of_challenger ? 1 : 0;
  std::vector<double> counted;
  for (auto const& pair : blocks_)
    if (pair[side].count == kCounted)
      counted.insert(counted.end(), pair[side].each.begin(), pair[side].each.end());
  Sum sum = sums_[side];
  sum.middle = middle_of(std::move(counted));
  return sum;
}

}  // namespace perdure::exec
