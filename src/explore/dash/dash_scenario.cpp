#include "explore/dash/dash_scenario.hpp"

#include <algorithm>
#include <random>
#include <sstream>

#include "index/dash/keys.hpp"

namespace perdure::explore {
namespace {

constexpr std::uint32_t kBuckets = 4;

std::uint64_t hash_of_key(std::uint64_t key) {
  return dash::InlineKeys(8).key(reinterpret_cast<std::byte const*>(&key)).hash;
}

/// Keys whose target bucket is one of the first `targets`, and whose hashes are in the lower half
/// unless `halves` is 2, so that few of them fill what they can reach.
std::uint64_t draw_key(std::mt19937_64& draw, std::uint32_t targets, std::uint64_t halves) {
  for (;;) {
    std::uint64_t const key = draw() % 100000, hash = hash_of_key(key);
    if (dash::bucket_of(hash, kBuckets) < targets && hash >> 63 < halves) return key;
  }
}

OpKind draw_dash_kind(std::mt19937_64& draw, bool shrinks) {
  switch (draw() % 8) {
    case 0: return OpKind::get;
    case 1: return OpKind::update;
    case 2: return shrinks ? OpKind::put : OpKind::erase;
    default: return shrinks ? OpKind::erase : OpKind::put;
  }
}

/// A key that is none of `taken` and that `selects(hash)` picks.
template <class Selects>
std::uint64_t fresh_key(std::mt19937_64& draw, std::vector<std::uint64_t> const& taken,
                        Selects selects) {
  for (;;) {
    std::uint64_t const key = draw() % 100000;
    if (selects(hash_of_key(key)) && std::find(taken.begin(), taken.end(), key) == taken.end())
      return key;
  }
}

/// Of Dash-LH: segment 0 has two to four buckets chained, which its next split releases. What
/// that split moves away came first, and fills segment 0's own buckets and its stash; so what is
/// chained finds room in these when it has gone. One thread reads what stays, some of it chained,
/// while others want what moves.
void chain_buckets(DashScenario& s, std::mt19937_64& draw, std::uint32_t most_operations) {
  constexpr std::uint64_t kFull = (kBuckets + 1) * dash::kSlots;
  std::vector<std::uint64_t> taken;
  // Hashes that begin with 01 are segment 2's; of segment 0 those remain that begin with 0000,
  // however it is split.
  auto const fresh = [&](std::uint64_t first_bits, std::uint32_t bits, std::uint64_t bucket) {
    taken.push_back(fresh_key(draw, taken, [&](std::uint64_t hash) {
      return hash >> (64 - bits) == first_bits &&
             dash::bucket_of(hash, kBuckets) == bucket % kBuckets;
    }));
    return taken.back();
  };
  s.shape = {kBuckets, 1};
  s.depth = 1;
  s.chained = true;
  std::uint64_t const chained = 2 + draw() % 3;
  for (std::uint64_t i = 0; i < kFull - 2; ++i) s.fillers.push_back(fresh(1, 2, i));
  for (std::uint64_t i = 0; i < (chained - 1) * dash::kSlots + 3; ++i)
    s.fillers.push_back(fresh(0, 4, i));
  for (std::uint64_t i = 0; i < 6; ++i)
    s.keys.push_back(i % 2 == 0 ? fresh(0, 4, draw()) : fresh(1, 2, draw()));
  auto const threads = 2 + draw() % 2;
  for (std::uint64_t t = 0; t < threads; ++t) {
    auto& mine = s.operations.emplace_back();
    for (std::uint64_t n = 1 + draw() % most_operations; n > 0; --n) {
      std::uint64_t const last = s.fillers[s.fillers.size() - 1 - draw() % 8];
      std::uint64_t const key = s.keys[draw() % 3 * 2 + (t == 0 ? 0 : 1)];
      bool const filler = t == 0 && draw() % 2 == 0;
      mine.push_back(
          {t == 0 ? OpKind::get : draw_dash_kind(draw, false), filler ? last : key, draw() % 1000});
    }
  }
}

/// Of Dash-EH: the lower half of all hashes is two segments that hold next to nothing, the upper
/// half is one that is full. One thread erases, so that the two are merged and the directory has no
/// use for its second bit; the others put, so that the upper segment wants that bit.
void oppose(DashScenario& s, std::mt19937_64& draw, std::uint32_t most_operations) {
  auto const looks_to_merge = [](std::uint64_t hash) { return (hash >> 24) % 8 == 0; };
  std::vector<std::uint64_t> taken;
  auto const fresh = [&](auto selects) {
    taken.push_back(fresh_key(draw, taken, selects));
    return taken.back();
  };
  auto const upper = [](std::uint64_t hash) {
    return hash >> 63 == 1 && dash::bucket_of(hash, kBuckets) == 0;
  };
  s.shape = {kBuckets, 1};
  s.depth = 1;
  s.split = true;
  for (std::uint64_t i = 0; i < 4 * dash::kSlots; ++i)
    s.ghosts.push_back(fresh([&](std::uint64_t hash) {
      return hash >> 62 == i % 2 && dash::bucket_of(hash, kBuckets) == 0 && !looks_to_merge(hash);
    }));
  for (std::uint64_t i = 0; i < 4 * dash::kSlots; ++i) s.fillers.push_back(fresh(upper));
  for (int i = 0; i < 3; ++i) {
    s.keys.push_back(
        fresh([&](std::uint64_t hash) { return hash >> 63 == 0 && looks_to_merge(hash); }));
    s.there.push_back(s.keys.back());
  }
  for (int i = 0; i < 3; ++i) s.keys.push_back(fresh(upper));
  auto const threads = 2 + draw() % 2;
  for (std::uint64_t t = 0; t < threads; ++t) {
    auto& mine = s.operations.emplace_back();
    bool const erases = t == 1;  // the first to begin is the one to be held up
    for (std::uint64_t n = 1 + draw() % most_operations; n > 0; --n) {
      std::uint64_t const key = s.keys[draw() % 3 + (erases ? 0 : 3)];
      mine.push_back({erases ? OpKind::erase : OpKind::put, key, draw() % 1000});
    }
  }
  s.entered = true;
}

/// One key is written, read and written again, by a thread each, and then another key: where the
/// record that was replaced is free by then, it is taken for that, under the reader's eyes.
void take_turns(DashScenario& s, std::mt19937_64& draw) {
  s.shape = {kBuckets, 1};
  s.depth = 1;
  for (int i = 0; i < 6; ++i)
    s.keys.push_back(fresh_key(draw, s.keys, [](std::uint64_t) { return true; }));
  auto const value = [&] { return draw() % 1000; };
  s.operations.push_back({{OpKind::put, s.keys[0], value()}});
  s.operations.push_back({{OpKind::get, s.keys[0], 0}});
  s.operations.push_back({{OpKind::put, s.keys[0], value()}, {OpKind::put, s.keys[1], value()}});
  s.entered = true;
}

}  // namespace

DashScenario make_dash_scenario(std::uint64_t seed, dash::Kind kind,
                                std::uint32_t most_operations) {
  std::mt19937_64 draw(seed * 2654435761u + (kind == dash::Kind::linear));
  DashScenario s;
  if (seed % 8 == 5) {
    kind == dash::Kind::linear ? chain_buckets(s, draw, most_operations)
                               : oppose(s, draw, most_operations);
    return s;
  }
  if (kind == dash::Kind::extendible && seed % 16 == 7) {
    take_turns(s, draw);
    return s;
  }
  s.shape = {kBuckets, static_cast<std::uint32_t>(1 + draw() % 2)};
  bool const shrinks = kind == dash::Kind::extendible && draw() % 3 == 0;
  s.depth = static_cast<std::uint32_t>(shrinks ? 1 + draw() % 2 : 1);
  std::uint64_t const halves = shrinks ? 2 : 1 + draw() % 2;
  std::uint32_t const targets = static_cast<std::uint32_t>(1 + draw() % 3);
  std::uint64_t const each = (targets + 1 + s.shape.stash) * dash::kSlots;
  std::uint64_t const fillers = shrinks ? draw() % 6 : each * halves * (85 + draw() % 40) / 100;
  auto const fresh = [&] {
    for (;;) {
      std::uint64_t const key = draw_key(draw, shrinks ? kBuckets : targets, halves);
      // Erasures look for a merge at some hashes only.
      if (shrinks && draw() % 4 != 0 && (hash_of_key(key) >> 24) % 8 != 0) continue;
      bool const known = std::find(s.fillers.begin(), s.fillers.end(), key) != s.fillers.end() ||
                         std::find(s.keys.begin(), s.keys.end(), key) != s.keys.end();
      if (!known) return key;
    }
  };
  for (std::uint64_t i = 0; i < fillers; ++i) s.fillers.push_back(fresh());
  // Of one half of all hashes and for one bucket, so that they fill what they can reach.
  std::uint64_t const ghosts = shrinks && draw() % 2 == 0 ? 3 * dash::kSlots + each : 0;
  while (s.ghosts.size() < ghosts) {
    std::uint64_t const key = 100000 + draw() % 100000, hash = hash_of_key(key);
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
      mine.push_back({reads ? OpKind::get : draw_dash_kind(draw, shrinks),
                      s.keys[draw() % s.keys.size()], draw() % 1000});
  }
  s.entered = draw() % 2 == 0;
  return s;
}

std::string DashScenario::describe() const {
  static constexpr char const* kNames[] = {"get", "put", "erase", "update"};
  std::ostringstream text;
  text << shape.buckets << " + " << shape.stash << " buckets, depth " << depth << ", "
       << fillers.size() << " fillers, there:";
  for (std::uint64_t const key : there) text << ' ' << key;
  for (auto const& mine : operations) {
    text << "\n  thread:";
    for (DashOp const& op : mine)
      text << ' ' << kNames[static_cast<std::size_t>(op.kind)] << ' ' << op.key << '=' << op.value;
  }
  return text.str();
}

}  // namespace perdure::explore
