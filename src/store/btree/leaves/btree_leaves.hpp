// What openings, closes and checks ask of a tree whose leaves are durable. Behind it there is one
// tree for each kind of keys (btree_leaves_on.hpp). Invariant: look() and build() change nothing in
// the pool.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "exec/workers.hpp"
#include "index/btree/chain.hpp"

namespace perdure {

/// Where the pool's root names the first leaf.
inline constexpr char const* kBtreeLeaves = "btree_leaves";

/// The records that leaves lead to.
class BtreeLeafRecords {
 public:
  virtual ~BtreeLeafRecords() = default;
  /// Notes that the one there is in use, from any number of threads.
  virtual btree::RecordMark use(std::uint64_t word) = 0;
  /// Whether a record may lie there.
  [[nodiscard]] virtual bool is_record(std::uint64_t word) const = 0;
};

/// What an opening found, and is to do before anybody writes.
struct BtreeLeavesFound {
  std::vector<std::uint64_t> leaves;
  btree::ChainFound chain;
  std::vector<btree::Unlinked> unlinked;
};

class BtreeLeaves {
 public:
  virtual ~BtreeLeaves() = default;

  /// Of a tree that has been made: what the root is to name.
  [[nodiscard]] virtual std::uint64_t first() = 0;
  /// Goes through all leaves of an earlier tree, of which this is the first, and notes which blocks
  /// and records they use.
  virtual BtreeLeavesFound look(std::uint64_t first, exec::Workers& workers) = 0;
  /// The tree has them from now on. Not ok: there is no memory.
  virtual Status build(BtreeLeavesFound& found) = 0;
  /// Before the first write: what a crash left half done.
  virtual void settle(BtreeLeavesFound const& found) = 0;
  /// Mends what look() found wrong, or something of it, after which the caller looks again.
  /// `noted`: the sum that the last close left, if it did. What was done is in `lines`. Answers how
  /// many entries were dropped. There are some leaves.
  virtual std::uint64_t repair(BtreeLeavesFound const& found, std::optional<std::uint64_t> noted,
                               std::vector<std::string>& lines) = 0;
  /// Of the tree's leaves as they are, while nobody writes: what a close notes.
  virtual btree::ChainFound sum(exec::Workers& workers) = 0;
};

}  // namespace perdure
