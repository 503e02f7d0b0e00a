#include "lsm/rocks/run_direct.hpp"

namespace perdure::lsm {
std::uint32_t DirectRun::pass_backward(std::uint32_t gap, Target const& target, RequestId limit,
                                       VersionChain& chain) const {
  if (target.side != 0) return gap;
  std::uint32_t begin = gap;
  while (begin > 0 && gap - begin < kManyVersions && target.is(*view_, begin - 1)) --begin;
  if (gap - begin == kManyVersions) {
    Search one = {*view_, target.key, target.size};
    search(HostWarp{}, &one, 1);
    begin = first_bound(*view_, target, one.at, false);
  }
  add(begin, gap, limit, chain);
  return begin;
}

}  // namespace perdure::lsm
