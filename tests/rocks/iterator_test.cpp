// Iterators over memtables and RocksDB, against one plain RocksDB with the same writes: at every
// step of a walk both are valid or not, with the same key, value, columns and status.
//
// RC_PARAMS="seed=... max_success=..." repeats a run, or makes it longer.
#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <array>
#include <sstream>

#include "rocks/iterator_world.hpp"

namespace perdure::lsm::test {
namespace {

// ------------------------------------------------------------------------------------------------
// What is generated: writes, options and a walk

enum class Move { first, last, seek, seek_for_prev, next, prev, bounds };
constexpr std::array kMoveNames{"first", "last", "seek", "seek_for_prev", "next", "prev", "bounds"};

struct Step {
  Move move = Move::next;
  std::string key;  // seek, seek_for_prev; bounds: the lower one
  std::string end;  // bounds: the upper one
};

std::ostream& operator<<(std::ostream& os, Step const& s) {
  return os << kMoveNames[static_cast<std::size_t>(s.move)] << ' ' << s.key << ' ' << s.end;
}

// Few keys with few prefixes, so that writes and steps meet; as targets, also what lies between.
rc::Gen<std::string> key(bool short_ones) {
  static std::vector<std::string> const all{"aa",  "aa0", "aa1", "aa11",   "ab", "ab0",
                                            "ab1", "b0",  "b00", "b0\xff", "b1", "b12"};
  static std::vector<std::string> const more{"", "a", "b", "b", "c"};
  std::vector<std::string> keys = all;
  if (short_ones) keys.insert(keys.end(), more.begin(), more.end());
  return rc::gen::elementOf(keys);
}

rc::Gen<std::string> target(bool short_ones) {
  return rc::gen::map(rc::gen::pair(key(short_ones), rc::gen::element("", "", "", "-", "z")),
                      [](auto const& parts) { return parts.first + parts.second; });
}

rc::Gen<Writes> writes(bool short_keys, bool failing) {
  std::vector<std::string> values{"v", "w", "x", "y=", "", "some longer value that is not inline"};
  if (failing) values.insert(values.end(), {"!", "!"});
  auto const kind = rc::gen::element(Kind::put, Kind::put, Kind::erase, Kind::merge);
  return rc::gen::container<Writes>(
      rc::gen::construct<Write>(key(short_keys), kind, rc::gen::elementOf(values)));
}

rc::Gen<Plan> plan(bool short_keys, bool failing) {
  auto const some = writes(short_keys, failing);
  auto const runs =
      rc::gen::scale(0.15, rc::gen::container<std::vector<Writes>>(rc::gen::scale(4, some)));
  return rc::gen::build<Plan>(
      rc::gen::set(&Plan::older, some),
      rc::gen::set(&Plan::flush_older, failing ? rc::gen::just(false) : rc::gen::arbitrary<bool>()),
      rc::gen::set(&Plan::runs, runs), rc::gen::set(&Plan::unseen, rc::gen::scale(0.3, some)),
      rc::gen::set(&Plan::junk, rc::gen::scale(0.3, some)));
}

rc::Gen<std::vector<Step>> walk(bool short_keys) {
  auto const move = rc::gen::weightedElement<Move>({{1, Move::first},
                                                    {1, Move::last},
                                                    {2, Move::seek},
                                                    {2, Move::seek_for_prev},
                                                    {8, Move::next},
                                                    {8, Move::prev},
                                                    {1, Move::bounds}});
  auto const step = rc::gen::construct<Step>(move, target(short_keys), target(short_keys));
  return rc::gen::resize(160, rc::gen::container<std::vector<Step>>(step));
}

// ------------------------------------------------------------------------------------------------
// The walk

struct Bounds {
  std::string lower_bytes;
  std::string upper_bytes;
  rocksdb::Slice lower;
  rocksdb::Slice upper;

  void set(std::string const& from, std::string const& to) {
    lower_bytes = std::min(from, to);
    upper_bytes = std::max(from, to);
    lower = lower_bytes;
    upper = upper_bytes;
  }
};

void make(rocksdb::Iterator& iterator, Step const& step) {
  switch (step.move) {
    case Move::first: return iterator.SeekToFirst();
    case Move::last: return iterator.SeekToLast();
    case Move::seek: return iterator.Seek(step.key);
    case Move::seek_for_prev: return iterator.SeekForPrev(step.key);
    case Move::next: return iterator.Next();
    case Move::prev: return iterator.Prev();
    case Move::bounds: return iterator.SeekToFirst();
  }
}

std::string complaint(World& world, rocksdb::ReadOptions options, Bounds& bounds,
                      std::vector<Step> const& steps) {
  auto const tested = world.tested(options);
  if (!options.prefix_same_as_start && !options.auto_prefix_mode) options.total_order_seek = true;
  auto const truth = world.true_one(options);
  std::ostringstream told;
  for (Step const& step : steps) {
    bool const relative = step.move == Move::next || step.move == Move::prev;
    if (relative && !truth->Valid()) continue;
    if (step.move == Move::bounds) bounds.set(step.key, step.end);
    make(*truth, step);
    make(*tested, step);
    told << step << ": " << seen(*truth) << "\n";
    if (seen(*truth) != seen(*tested)) return told.str() + "but it was " + seen(*tested);
  }
  return "";
}

void walks_alike(bool prefixes, bool failing) {
  auto const made = *plan(!prefixes, failing).as("writes");
  auto const steps = *walk(!prefixes);
  World world(made, small_blocks(prefixes));
  world.engine.direct_from =
      *rc::gen::elementOf(std::vector<std::size_t>{CountingEngine::kNever, 0, 0, 1, 2, 5, 9});
  rocksdb::ReadOptions options;
  Bounds bounds;
  bounds.set(prefixes ? "aa" : "", "zz");
  if (*rc::gen::arbitrary<bool>()) options.iterate_lower_bound = &bounds.lower;
  if (*rc::gen::arbitrary<bool>()) options.iterate_upper_bound = &bounds.upper;
  options.pin_data = *rc::gen::arbitrary<bool>();
  options.prefix_same_as_start = prefixes && *rc::gen::arbitrary<bool>();
  options.auto_prefix_mode = prefixes && *rc::gen::arbitrary<bool>();
  options.total_order_seek = *rc::gen::arbitrary<bool>();
  std::string const wrong = complaint(world, options, bounds, steps);
  if (!wrong.empty()) RC_FAIL(wrong);
}

RC_GTEST_PROP(RocksIterator, WalksAsRocksDbDoes, ()) { walks_alike(false, false); }
RC_GTEST_PROP(RocksIterator, WalksAsRocksDbDoesWithPrefixes, ()) { walks_alike(true, false); }
RC_GTEST_PROP(RocksIterator, WalksAsRocksDbDoesOverOperandsThatFail, ()) {
  walks_alike(false, true);
}

}  // namespace
}  // namespace perdure::lsm::test
