#include "explore/dash_scenario.hpp"

#include <algorithm>
#include <random>
#include <sstream>

#include "index/dash/keys.hpp"

namespace perdure::explore {
namespace {

constexpr std::uint32_t kBuckets = 4;

std::uint64_t hash_of(std::uint64_t key) {
  return dash::InlineKeys(8).key(reinterpret_cast<std::byte const*>(&key)).hash;
}

/// Keys whose home bucket is one of the first `homes`, and whose hashes are in the lower half unless `halves` is 2, so
/// that few of them fill what they can reach.
std::uint64_t draw_key(std::mt19937_64& draw, std::uint32_t homes, std::uint64_t halves) {
  for (;;) {
    std::uint64_t const key = draw() % 100000, hash = hash_of(key);
    if (dash::bucket_of(hash, kBuckets) < homes && hash >> 63 < halves) return key;
  }
}

OpKind draw_kind(std::mt19937_64& draw, bool shrinks) {
  switch (draw() % 8) {
    case 0: return OpKind::get;
    case 1: return OpKind::update;
    case 2: return shrinks ? OpKind::put : OpKind::erase;
    default: return shrinks ? OpKind::erase : OpKind::put;
  }
}

/// Of Dash-LH: segment 0 has two buckets chained, which its next split lets go of. What that split moves away came
/// first and fills segment 0's own buckets. One thread reads what stays while others want what moves.
void chain_buckets(DashScenario& s, std::mt19937_64& draw, std::uint32_t most_operations) {
  auto const fresh = [&](std::uint64_t first_bits, std::vector<std::uint64_t> const& taken) {
    for (;;) {
      std::uint64_t const key = draw() % 100000, hash = hash_of(key);
      // Segment 2 has the hashes that begin with 01; of segment 0 those remain that begin with 000.
      bool const there = std::find(taken.begin(), taken.end(), key) != taken.end();
      if (hash >> 61 == first_bits && dash::bucket_of(hash, kBuckets) < 2 && !there) return key;
    }
  };
  s.shape = {kBuckets, 1};
  s.depth = 1;
  s.chained = true;
  for (std::uint64_t i = 0; i < 3 * dash::kSlots - 2; ++i) s.fillers.push_back(fresh(2 + draw() % 2, s.fillers));
  for (std::uint64_t i = 0; i < 2 * dash::kSlots + 3; ++i) s.fillers.push_back(fresh(0, s.fillers));
  for (std::uint64_t i = 0; i < 6; ++i) {
    std::vector<std::uint64_t> taken = s.fillers;
    taken.insert(taken.end(), s.keys.begin(), s.keys.end());
    s.keys.push_back(fresh(i % 2 == 0 ? 0 : 2, taken));
  }
  auto const threads = 2 + draw() % 2;
  for (std::uint64_t t = 0; t < threads; ++t) {
    auto& mine = s.operations.emplace_back();
    for (std::uint64_t n = 1 + draw() % most_operations; n > 0; --n) {
      std::uint64_t const key = s.keys[draw() % 3 * 2 + (t == 0 ? 0 : 1)];
      mine.push_back({t == 0 ? OpKind::get : draw_kind(draw, false), key, draw() % 1000});
    }
  }
}

}  // namespace

DashScenario make_dash_scenario(std::uint64_t seed, dash::Kind kind, std::uint32_t most_operations) {
  std::mt19937_64 draw(seed * 2654435761u + (kind == dash::Kind::linear));
  DashScenario s;
  if (kind == dash::Kind::linear && seed % 8 == 5) {
    chain_buckets(s, draw, most_operations);
    return s;
  }
  s.shape = {kBuckets, static_cast<std::uint32_t>(1 + draw() % 2)};
  bool const shrinks = kind == dash::Kind::extendible && draw() % 3 == 0;
  s.depth = static_cast<std::uint32_t>(shrinks ? 1 + draw() % 2 : 1);
  std::uint64_t const halves = shrinks ? 2 : 1 + draw() % 2;
  std::uint32_t const homes = static_cast<std::uint32_t>(1 + draw() % 3);
  std::uint64_t const each = (homes + 1 + s.shape.stash) * dash::kSlots;
  std::uint64_t const fillers = shrinks ? draw() % 6 : each * halves * (85 + draw() % 40) / 100;
  auto const fresh = [&] {
    for (;;) {
      std::uint64_t const key = draw_key(draw, shrinks ? kBuckets : homes, halves);
      // Erasures look for a merge at some hashes only.
      if (shrinks && draw() % 4 != 0 && (hash_of(key) >> 24) % 8 != 0) continue;
      bool const known = std::find(s.fillers.begin(), s.fillers.end(), key) != s.fillers.end() ||
                         std::find(s.keys.begin(), s.keys.end(), key) != s.keys.end();
      if (!known) return key;
    }
  };
  for (std::uint64_t i = 0; i < fillers; ++i) s.fillers.push_back(fresh());
  // Of one half of all hashes and for one bucket, so that they fill what they can reach.
  std::uint64_t const ghosts = shrinks && draw() % 2 == 0 ? 3 * dash::kSlots + each : 0;
  while (s.ghosts.size() < ghosts) {
    std::uint64_t const key = 100000 + draw() % 100000, hash = hash_of(key);
    bool const known = std::find(s.ghosts.begin(), s.ghosts.end(), key) != s.ghosts.end();
    if (!known && hash >> 63 == 0 && dash::bucket_of(hash, kBuckets) == 0) s.ghosts.push_back(key);
  }
  for (int i = 0; i < 6; ++i) s.keys.push_back(fresh());
  for (std::uint64_t const key : s.keys)
    if (draw() % 4 < (shrinks ? 3 : 2)) s.there.push_back(key);
  auto const threads = 1 + draw() % 3;
  for (std::uint64_t t = 0; t < threads; ++t) {
    auto& mine = s.operations.emplace_back();
    bool const reads = t > 0 && draw() % 4 == 0;
    for (std::uint64_t n = 1 + draw() % most_operations; n > 0; --n)
      mine.push_back({reads ? OpKind::get : draw_kind(draw, shrinks), s.keys[draw() % s.keys.size()], draw() % 1000});
  }
  s.entered = draw() % 2 == 0;
  return s;
}

std::string DashScenario::describe() const {
  static constexpr char const* kNames[] = {"get", "put", "erase", "update"};
  std::ostringstream text;
  text << shape.buckets << " + " << shape.stash << " buckets, depth " << depth << ", " << fillers.size()
       << " fillers, there:";
  for (std::uint64_t const key : there) text << ' ' << key;
  for (auto const& mine : operations) {
    text << "\n  thread:";
    for (DashOp const& op : mine)
      text << ' ' << kNames[static_cast<std::size_t>(op.kind)] << ' ' << op.key << '=' << op.value;
  }
  return text.str();
}

}  // namespace perdure::explore
