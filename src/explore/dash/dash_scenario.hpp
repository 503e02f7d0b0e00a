// A scenario of Dash's tables, from one number: a table of small segments that is nearly full or
// nearly empty, and what a few threads do to it. Invariant: filler keys are there all the while;
// operations are on the other keys.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "index/dash/layout.hpp"
#include "perdure/batch.h"

namespace perdure::explore {

struct DashOp {
  OpKind kind = OpKind::get;  // put, update, erase, get
  std::uint64_t key = 0;
  std::uint64_t value = 0;
};

struct DashScenario {
  dash::SegmentShape shape;
  std::uint32_t depth = 0;  // segments to begin with: 2^depth
  std::vector<std::uint64_t>
      fillers;  // there from the beginning, key = value; fewer where they do not fit
  bool chained = false;  // fillers chain buckets to a segment; else the table is as it was made
                         // when the run begins
  std::vector<std::uint64_t>
      ghosts;  // there for a while before the run, so that it begins with what splits leave
  bool split = false;  // by ghosts, in the half that fillers are not in
  std::vector<std::uint64_t> keys;  // what operations are on
  std::vector<std::uint64_t> there;  // of those, there from the beginning
  std::vector<std::vector<DashOp>> operations;  // of each thread
  bool entered = false;  // every segment has been looked up before the run
  [[nodiscard]] std::string describe() const;
};

[[nodiscard]] DashScenario make_dash_scenario(std::uint64_t seed, dash::Kind kind,
                                              std::uint32_t most_operations);

}  // namespace perdure::explore
