// A scenario of the B+-tree, from one number: a small tree whose leaves are nearly full, or nearly
// empty, or whose root is full, and what a few threads do to it. Invariant: filler keys are there
// all the while; operations are on the other keys.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "perdure/batch.h"

namespace perdure::explore {

struct BTreeOp {
  OpKind kind = OpKind::get;  // put, update, erase, get; an arithmetic one stands for none
  std::uint64_t key = 0;
  std::uint64_t value = 0;
  bool scans = false;  // all keys, upwards or, where the value is odd, downwards
};

struct BTreeScenario {
  std::vector<std::uint64_t> loaded;  // in leaves of 14, by a bulk load
  std::vector<std::uint64_t> erased;  // of those, so that slots hold what was there
  std::vector<std::uint64_t> fillers;  // there from the beginning, key = value
  std::vector<std::uint64_t> keys;  // what operations are on
  std::vector<std::uint64_t> there;  // of those, there from the beginning
  std::vector<std::vector<BTreeOp>> operations;  // of each thread
  [[nodiscard]] std::string describe() const;
};

[[nodiscard]] BTreeScenario make_btree_scenario(std::uint64_t seed, std::uint32_t most_operations);

}  // namespace perdure::explore
