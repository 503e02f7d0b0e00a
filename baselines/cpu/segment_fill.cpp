// How full one segment of Dash gets before an insert finds no room in it, part by part (the paper's
// figure 11).
#include <random>
#include <vector>

#include "cpu_baseline.hpp"
#include "index/dash/keys.hpp"
#include "index/dash/segment.hpp"
#include "pm/host.hpp"

namespace perdure::cpu_baselines {
namespace {

struct Bucketized : dash::Knobs {
  static constexpr bool probing = false;
  static constexpr bool balanced = false;
  static constexpr bool displacement = false;
};
struct Probing : dash::Knobs {
  static constexpr bool balanced = false;
  static constexpr bool displacement = false;
};
struct Balanced : dash::Knobs {
  static constexpr bool displacement = false;
};

template <class Knobs>
double fill(std::uint32_t bytes, std::uint32_t stash, std::uint64_t seed) {
  using Ops = dash::SegmentOps<dash::InlineKeys, Knobs>;
  auto const buckets = static_cast<std::uint32_t>(bytes / sizeof(dash::Bucket));
  dash::SegmentShape const shape{buckets, stash};
  Ops const ops(dash::InlineKeys(8), shape);
  std::vector<dash::Bucket> memory(shape.bytes() / sizeof(dash::Bucket));
  dash::Segment const s = dash::Segment::at(reinterpret_cast<std::byte*>(memory.data()));
  pm::OrderedHost host;
  std::mt19937_64 draw(seed);
  std::uint64_t n = 0;
  for (;; ++n) {
    std::uint64_t const key = draw();
    std::optional<dash::Slot> before;
    auto const target = dash::InlineKeys(8).key(reinterpret_cast<std::byte const*>(&key));
    auto const answer =
        ops.write(host, s, target, {key, n}, Ops::Write::put, [] { return true; }, before);
    if (answer == dash::Answer::full) break;
  }
  return static_cast<double>(n) / ((buckets + stash) * dash::kSlots);
}

}  // namespace

std::vector<std::string> segment_techniques() {
  return {"bucketized", "probing", "balanced", "displacement", "stash2", "stash4"};
}

double segment_fill(std::string const& technique, std::uint32_t bytes, std::uint64_t seed) {
  if (technique == "bucketized") return fill<Bucketized>(bytes, 0, seed);
  if (technique == "probing") return fill<Probing>(bytes, 0, seed);
  if (technique == "balanced") return fill<Balanced>(bytes, 0, seed);
  if (technique == "displacement") return fill<dash::Knobs>(bytes, 0, seed);
  if (technique == "stash2") return fill<dash::Knobs>(bytes, 2, seed);
  return fill<dash::Knobs>(bytes, 4, seed);
}

}  // namespace perdure::cpu_baselines
