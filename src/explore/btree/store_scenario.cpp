#include "explore/btree/store_scenario.hpp"

#include <algorithm>
#include <random>
#include <sstream>

#include "explore/btree/btree_scenario.hpp"

namespace perdure::explore {
namespace {

using Draw = std::mt19937_64;

OpKind draw_kind(Draw& draw) {
  switch (draw() % 8) {
    case 0: return OpKind::get;
    case 1: return OpKind::update;
    case 2:
    case 3: return OpKind::erase;
    default: return OpKind::put;
  }
}

StoreOp draw_operation(Draw& draw, StoreScenario const& s, bool reads) {
  return {reads ? OpKind::get : draw_kind(draw), s.keys[draw() % s.keys.size()], draw() % 1000};
}

/// Segments are nearly full of what is outdated; so a few records more make one due.
void draw_log(StoreScenario& s, Draw& draw) {
  for (std::uint64_t const key : s.keys)
    if (std::ranges::find(s.there, key) == s.there.end() && draw() % 2 == 0)
      s.log.erased.push_back(key);
  for (std::uint64_t n = draw() % 4; n > 0; --n)
    s.log.filled.push_back({draw() % 4 * 60, draw() % 3 == 0});
  bool const collected = draw() % 3 == 0;
  for (Filled& each : s.log.filled) each.collected = collected;
  s.log.closed = draw() % 4 == 0;
  s.log.collectors = static_cast<std::uint32_t>(1 + draw() % 2);
  s.log.most_queued = draw() % 2 == 0 ? 1 : 4;
  s.log.superblocks = draw() % 4 == 0 ? 6 : 10;
}

/// One key is read while it is written, and then another key: where the record that was replaced is
/// free by then, it is taken for that, under the reader's eyes.
void reuse_a_record(StoreScenario& s) {
  s.keys = {1, 2};
  s.there = {1};
  s.batches = {{{{OpKind::get, 1, 0}}}, {{{OpKind::put, 1, 7}}, {{OpKind::put, 2, 8}}}};
}

/// A piece of three large values, which goes on in the next segment.
void cross_segments(StoreScenario& s, Draw& draw) {
  s.keys = {1, 2, 3};
  s.there = {2};
  s.log.filled = {{draw() % 100, draw() % 2 == 0}};
  auto& mine = s.batches.emplace_back();
  mine.emplace_back();
  for (std::uint64_t const key : s.keys) mine[0].push_back({OpKind::put, key, 500 + key, 1600});
  s.batches.push_back({{{OpKind::get, 2, 0}}});
}

/// A collector moves key 1 out of a segment that is due for what was cancelled, and in which
/// nothing has died. Before it frees that, key 1 is erased, what was moved is collected, and so is
/// the tombstone, in a segment where all else has died after it.
void erase_what_moves(StoreScenario& s) {
  s.keys = {1};
  s.there = {1};
  s.log.cancelled = true;
  s.log.filled = {{0, false}, {16, true}};
  s.log.superblocks = 12;
  s.log.writer_collects = true;
  s.batches = {{{{OpKind::erase, 1, 0}}}};
}

/// All segments are full of what stays, but for the last, which has no reserve beside it: one
/// thread has it for a put when the other wants to leave a tombstone there, and waits.
void wait_for_a_put(StoreScenario& s) {
  s.keys = {1, 2};
  s.there = {1};
  s.log.collectors = 1;
  s.log.superblocks = 2;
  s.batches = {{{{OpKind::put, 2, 7}}}, {{{OpKind::erase, 1, 0}}}};
}

/// Two pieces of the same keys, in opposite orders.
void put_crosswise(StoreScenario& s) {
  s.keys = {1, 2};
  s.batches = {{{{OpKind::put, 1, 5}, {OpKind::put, 2, 6}}},
               {{{OpKind::put, 2, 7}, {OpKind::put, 1, 8}}}};
}

/// A segment is collected while a reader has an item of it.
void hold_a_segment(StoreScenario& s) {
  s.keys = {1, 2};
  s.there = {1};
  s.log.filled = {{0, false}, {60, false}};
  s.holds = 1;
  s.batches = {{{{OpKind::get, 1, 0}}}, {{{OpKind::put, 2, 7}}, {{OpKind::put, 2, 8}}}};
}

/// One transaction that replaces records so often that the epochs look at what was unlinked.
void replace_again(StoreScenario& s) {
  s.keys = s.there = {1, 2, 3};
  auto& mine = s.batches.emplace_back();
  mine.emplace_back();
  for (std::uint64_t n = 0; n < 72; ++n)
    mine[0].push_back({OpKind::put, s.keys[n % s.keys.size()], 100 + n});
}

/// A store that is empty, and a sorted batch that fills two leaves or three.
void load_in_bulk(StoreScenario& s, Draw& draw) {
  s.loads = true;
  auto& mine = s.batches.emplace_back();
  mine.emplace_back();
  // Of so many digits each that strings rise as the numbers do.
  for (std::uint64_t n = 16 + draw() % 16, key = 1000; n > 0; --n, key += 3)
    mine[0].push_back({OpKind::put, key, draw() % 1000});
  for (StoreOp const& op : mine[0]) s.keys.push_back(op.key);
  for (std::uint64_t threads = 1 + draw() % 2; threads > 0; --threads)
    s.batches.push_back({{draw_operation(draw, s, draw() % 2 == 0)}});
}

/// Updates of a batch add, or take the less or the greater of two.
void compute(StoreScenario& s, Draw& draw) {
  for (auto& mine : s.batches)
    for (StoreBatch& batch : mine) {
      auto const rmw = static_cast<Rmw>(1 + draw() % 3);
      for (StoreOp& op : batch) {
        if (op.kind == OpKind::put && draw() % 2 == 0) op.kind = OpKind::update;
        if (op.kind == OpKind::update) op.rmw = rmw;
      }
    }
}

/// One key, to which two threads add side by side.
void add_side_by_side(StoreScenario& s) {
  s.keys = s.there = {1};
  StoreOp add{OpKind::update, 1, 10};
  add.rmw = Rmw::add;
  s.batches = {{{add}}, {{add}}};
}

/// Leaves that are nearly full, or nearly empty, so that operations split them and join them.
StoreScenario change_leaves(std::uint64_t seed, Draw& draw, std::uint32_t most_batches) {
  // A root without room takes too many records to look at.
  bool const large = seed % 16 == 2 || seed % 64 == 15;
  BTreeScenario const tree = make_btree_scenario(large ? seed + 1 : seed, most_batches);
  StoreScenario s;
  s.fillers = tree.fillers;
  s.keys = tree.keys;
  s.there = tree.there;
  s.erased = tree.erased;
  for (auto const& operations : tree.operations) {
    auto& mine = s.batches.emplace_back();
    for (BTreeOp const& op : operations) {
      bool const more = !mine.empty() && draw() % 4 == 0;
      if (!more) mine.emplace_back();
      mine.back().push_back({op.kind, op.key, op.value});
    }
  }
  return s;
}

/// `s` has keys and says which are there; threads do to them what comes.
void draw_batches(StoreScenario& s, Draw& draw, std::uint32_t most_batches) {
  for (std::uint64_t threads = 2 + draw() % 2; threads > 0; --threads) {
    auto& mine = s.batches.emplace_back();
    bool const reads = draw() % 4 == 0;
    for (std::uint64_t n = 1 + draw() % most_batches; n > 0; --n) {
      StoreBatch& batch = mine.emplace_back();
      for (std::uint64_t k = draw() % 4 == 0 ? 2 + draw() % 2 : 1; k > 0; --k)
        batch.push_back(draw_operation(draw, s, reads));
    }
  }
}

/// Those of one race each; false: this seed's is none.
bool draw_race(StoreScenario& s, Draw& draw, std::uint64_t seed, StoreKind kind) {
  std::uint64_t const which = seed % 16;
  if (which == 6 && !kind.log) return load_in_bulk(s, draw), true;
  if (which == 7 && !kind.transactions) return add_side_by_side(s), true;
  if (which == 3 && kind.log) return cross_segments(s, draw), true;
  if (which == 4 && kind.log) return erase_what_moves(s), true;
  if (which == 8 && kind.log) return hold_a_segment(s), true;
  if (which == 12 && kind.log && !kind.leaves) return wait_for_a_put(s), true;
  if (which == 13 && kind.log) return put_crosswise(s), true;
  if (which == 11 && kind.transactions) return replace_again(s), true;
  if (which == 5 && !kind.log && !kind.transactions) return reuse_a_record(s), true;
  return false;
}

}  // namespace

StoreScenario make_store_scenario(std::uint64_t seed, StoreKind kind, std::uint32_t most_batches) {
  Draw draw(seed * 2654435761u + kind.log);
  StoreScenario s;
  if (draw_race(s, draw, seed, kind)) {
    s.strings = seed % 32 >= 16;
    return s;
  }
  bool const in_log = kind.log;
  if ((kind.leaves && (!in_log || seed % 2 == 0)) || kind.transactions) {
    s = change_leaves(seed, draw, most_batches);
  } else {
    s.grows = draw() % 8 == 0 && !in_log;
    for (std::uint64_t i = draw() % 3; i > 0; --i) s.fillers.push_back(1000 + i);
    for (std::uint64_t i = 1 + draw() % 4; i > 0; --i) s.keys.push_back(i);
    for (std::uint64_t const key : s.keys)
      if (draw() % 2 == 0) s.there.push_back(key);
    if (s.grows) s.there = s.fillers = {};
    if (in_log) draw_log(s, draw);
    s.log.collectors_last = seed % 32 >= 24;
    draw_batches(s, draw, most_batches);
  }
  if (seed % 8 == 1) compute(s, draw);
  s.strings = seed % 4 == 2;
  return s;
}

std::string StoreScenario::describe() const {
  static constexpr char const* kNames[] = {"get", "put", "erase", "update"};
  static constexpr char const* kComputes[] = {"=", "+=", " min ", " max "};
  std::ostringstream text;
  text << fillers.size() << " fillers, keys are " << (strings ? "strings" : "words") << ", there:";
  for (std::uint64_t const key : there) text << ' ' << key;
  if (log.cancelled) text << ", a segment of cancelled records";
  for (Filled const& each : log.filled)
    text << ", a segment with " << each.left << " bytes left"
         << (each.stay ? " of what stays" : " of what is outdated");
  if (grows) text << "; a superblock is added";
  if (loads) text << "; the first batch is loaded in bulk";
  for (auto const& mine : batches) {
    text << "\n  thread:";
    for (StoreBatch const& batch : mine) {
      text << " [";
      for (StoreOp const& op : batch)
        text << ' ' << kNames[static_cast<std::size_t>(op.kind)] << ' ' << op.key
             << kComputes[static_cast<std::size_t>(op.rmw)] << op.value;
      text << " ]";
    }
  }
  return text.str();
}

}  // namespace perdure::explore
