#include "exec/split_contest.hpp"

#include <cmath>
#include <numeric>

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
/// The last `n` of so many come first.
template <std::size_t kMost>
std::array<double, kMost> last_of(std::array<double, kMost> values, std::uint32_t count,
                                  std::uint32_t n) {
  std::rotate(values.begin(), values.begin() + (count - n), values.begin() + count);
  return values;
}

}  // namespace

void SplitContest::begin(SplitWay stays, SplitWay challenger, std::uint32_t settling,
                         double below) {
  PERDURE_ASSERT(!open_ && stays != challenger && settling > 0);
  *this = {};
  open_ = true;
  stays_ = stays;
  challenger_ = challenger;
  settling_ = settling;
  below_ = below;
}

SplitContest::Verdict SplitContest::noted(std::uint32_t block, std::size_t keys, double seconds) {
  PERDURE_ASSERT(open_ && block <= block_ && keys > 0);
  std::size_t const side = is_of_challenger(block) ? 1 : 0;
  double const each = seconds / static_cast<double>(keys);
  fastest_[side] = tried_[side]++ == 0 ? each : std::min(fastest_[side], each);
  Sum& sum = sums_[side];
  sum.seconds += seconds;
  sum.keys += static_cast<double>(keys);
  if (block != block_) return Verdict::open;  // it ran beside others, and ended after its block
  ++batches_;
  if (side == 1 && is_hopeless()) return Verdict::stays;
  if (block == kSettlingBlock) {
    if (batches_ == settling_) end_block();
    return Verdict::open;
  }
  bool const counts = batches_ > kUncounted && seconds_ >= kUncountedSeconds * length();
  seconds_ += seconds;
  double const most = kSlow * fastest_[side] * static_cast<double>(keys);
  if (!counts || !window_.add(keys, std::min(seconds, most), length())) return Verdict::open;
  windows_[windows_done_++] = window_.each();
  window_ = {};
  if (windows_done_ < kWindows) return Verdict::open;
  each_[side][done_[side]++] = std::accumulate(windows_.begin(), windows_.end(), 0.0) / kWindows;
  end_block();
  return side == 1 ? verdict() : Verdict::open;
}

/// Of batches of some milliseconds, which few are enough to tell. The first one makes buffers.
bool SplitContest::is_hopeless() const {
  PERDURE_ASSERT(done_[0] > 0);  // of the way that stays
  return tried_[1] > 1 && fastest_[1] > kHopeless * each_[0][0];
}

double SplitContest::length() const {
  return std::min(std::ldexp(1.0, static_cast<int>(pair_of(block_))), kLongest);
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
  std::uint32_t const last = std::min(pairs, kLastPairs);
  double const ratio = middle_of(last_of(ratios, pairs, last), last);
  if (ratio > kClear) return Verdict::stays;
  if (pairs >= kFewPairs) {
    double const plain = kPlain[std::min<std::size_t>(pairs - kFewPairs, kPlain.size() - 1)];
    auto const slower = std::count_if(ratios.begin(), ratios.begin() + pairs,
                                      [&](double one) { return one > plain; });
    auto const faster = std::count_if(ratios.begin(), ratios.begin() + pairs,
                                      [&](double one) { return one < 1 / plain; });
    // That a challenger lost by chance costs little: it comes again.
    if (4 * slower >= 3 * std::ptrdiff_t{pairs}) return Verdict::stays;
    if (faster == std::ptrdiff_t{pairs}) return Verdict::challenger;
  }
  if (pairs < kPairs) return Verdict::open;
  return ratio < below_ ? Verdict::challenger : Verdict::stays;
}

SplitContest::Sum SplitContest::sum(bool of_challenger) const {
  std::size_t const side = of_challenger ? 1 : 0;
  Sum sum = sums_[side];
  std::uint32_t const last = std::min(done_[side], kLastPairs);
  sum.each = middle_of(last_of(each_[side], done_[side], last), last);
  if (of_challenger && last == 0) sum.each = fastest_[1];
  return sum;
}

}  // namespace perdure::exec
