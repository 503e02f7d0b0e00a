// Ranges by one of two sides. A merge needs all runs in one place: it is the device's where there
// are many pairs, of many ranges, for a lane merges one; else the host's, if it has all runs.
#include <algorithm>
#include <utility>
#include <vector>

#include "base/caught.hpp"
#include "lsm/engine/two_sided.hpp"

namespace perdure::lsm {
namespace {

/// Ranges without a limit are taken to be so long.
constexpr std::uint64_t kUsualPairs = 256;
/// A run of the host's that is no larger costs little more than a launch to copy.
constexpr std::uint64_t kSmallRun = std::uint64_t{1} << 20;

}  // namespace

Result<RangePairs> TwoSidedEngine::ranges(RunList runs, RangeQuery const& query) {
  std::size_t const n = query.begins.count;
  std::uint64_t const pairs = n * std::min(query.most, kUsualPairs);
  bool const are_few = n < rules_.device_ranges || pairs < rules_.host_pairs;
  Side const wish = are_few ? Side::host : Side::device;
  settle(wish, runs, pairs);
  for (Side const side : {wish, other(wish)}) {
    RunPointers list;
    if (all_on(side, runs, list)) return engine(side).ranges(list.span(), query);
  }
  return caught([&]() -> Result<RangePairs> { return ranges_by_device(runs, query); });
}

/// What the device lacks it gets for this once, where that is little.
Result<RangePairs> TwoSidedEngine::ranges_by_device(RunList runs, RangeQuery const& query) {
  std::vector<RunPtr> copies;
  RunPointers list;
  for (RunPtr const& run : runs) {
    TwoSidedRun const& one = TwoSidedRun::of(*run);
    if (one.on(Side::device) == nullptr) {
      if (run->bytes() > kSmallRun)
        return Status{Code::unsupported, "neither the GPU nor the host has all memtables"};
      auto copy = device_->copy_in(*host_, *one.on(Side::host));
      if (!copy) return copy.status();
      copies.push_back(std::move(*copy));
      list.add(copies.back().get());
    } else {
      list.add(one.on(Side::device));
    }
  }
  return device_->ranges(list.span(), query);
}

}  // namespace perdure::lsm
