#include "explore/btree/store_scenario.hpp"

#include <algorithm>
#include <random>
#include <sstream>

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

}  // namespace

StoreScenario make_store_scenario(std::uint64_t seed, bool in_log, std::uint32_t most_batches) {
  Draw draw(seed * 2654435761u + in_log);
  StoreScenario s;
  if (in_log && seed % 16 == 3) {
    cross_segments(s, draw);
    return s;
  }
  if (in_log && seed % 16 == 4) {
    erase_what_moves(s);
    return s;
  }
  if (!in_log && seed % 16 == 5) {
    reuse_a_record(s);
    return s;
  }
  s.grows = draw() % 8 == 0 && !in_log;
  for (std::uint64_t i = draw() % 3; i > 0; --i) s.fillers.push_back(1000 + i);
  for (std::uint64_t i = 1 + draw() % 4; i > 0; --i) s.keys.push_back(i);
  for (std::uint64_t const key : s.keys)
    if (draw() % 2 == 0) s.there.push_back(key);
  if (s.grows) s.there = s.fillers = {};
  if (in_log) draw_log(s, draw);
  s.log.collectors_last = seed % 32 >= 24;
  for (std::uint64_t threads = 2 + draw() % 2; threads > 0; --threads) {
    auto& mine = s.batches.emplace_back();
    bool const reads = draw() % 4 == 0;
    for (std::uint64_t n = 1 + draw() % most_batches; n > 0; --n) {
      StoreBatch& batch = mine.emplace_back();
      for (std::uint64_t k = draw() % 4 == 0 ? 2 + draw() % 2 : 1; k > 0; --k)
        batch.push_back(draw_operation(draw, s, reads));
    }
  }
  return s;
}

std::string StoreScenario::describe() const {
  static constexpr char const* kNames[] = {"get", "put", "erase", "update"};
  std::ostringstream text;
  text << fillers.size() << " fillers, there:";
  for (std::uint64_t const key : there) text << ' ' << key;
  if (log.cancelled) text << ", a segment of cancelled records";
  for (Filled const& each : log.filled)
    text << ", a segment with " << each.left << " bytes left"
         << (each.stay ? " of what stays" : " of what is outdated");
  if (grows) text << "; a superblock is added";
  for (auto const& mine : batches) {
    text << "\n  thread:";
    for (StoreBatch const& batch : mine) {
      text << " [";
      for (StoreOp const& op : batch)
        text << ' ' << kNames[static_cast<std::size_t>(op.kind)] << ' ' << op.key << '='
             << op.value;
      text << " ]";
    }
  }
  return text.str();
}

}  // namespace perdure::explore
