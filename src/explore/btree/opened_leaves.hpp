// What openings of stores with durable leaves share (store/btree/btree_open.cpp): the look at the
// chain of leaves, what the last close noted of them, and links that a repair puts right.
// Invariant: nothing here writes to the pool, save what plants damage.
#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "pm/blocks.hpp"
#include "pm/host_verbs.hpp"
#include "pm/pool.hpp"
#include "store/btree/leaves/btree_leaves_on.hpp"

namespace perdure::explore {

/// What a run's first operation would else do: the tree knows of a leaf that is free.
inline void make_room_for_leaf(btree::PoolNodes& nodes) {
  if (btree::Leaf* const leaf = nodes.take()) nodes.give(leaf);
}

class LeavesOpening {
 public:
  LeavesOpening(pm::Pool& pool, BtreeLeaves& leaves) : pool_(pool), leaves_(leaves) {}

  /// In a pool that is being made: the root names the first leaf.
  void announce() {
    pm::Root root = pool_.root();
    root.set(kBtreeLeaves, leaves_.first(), 0);
    pool_.publish_root(root);
  }
  /// Whoever calls this has begun the sweeps of leaves and of records.
  std::optional<std::string> look() {
    pm::RootEntry const* const entry = pool_.root().find(kBtreeLeaves);
    if (entry == nullptr) return "the root names no leaves";
    found = leaves_.look(entry->offset, workers_);
    if (found.chain.faults != 0) return found.chain.wrong.front();
    return std::nullopt;
  }
  /// What a close noted of the leaves that look() found.
  [[nodiscard]] std::optional<std::string> fault_of_close() const {
    if (pool_.root().clean != 1) return std::nullopt;
    if (!found.chain.locked.empty()) return "a leaf says that it is locked after a close";
    auto note = pool_.closing_note();
    if (!note || !*note || (*note)->records != found.chain.records)
      return "there are " + std::to_string(found.chain.records) +
             " records, and a close left others";
    if ((*note)->sum != found.chain.sum) return "a close left leaves of another sum";
    return std::nullopt;
  }
  void close() {
    btree::ChainFound const now = leaves_.sum(workers_);
    pm::ClosingNote note{};
    note.records = now.records;
    note.sum = now.sum;
    pool_.publish_clean(note);
  }
  /// Where nobody writes, and the tree has so many entries.
  std::optional<std::string> fault_of_chain(std::size_t entries) {
    btree::ChainFound const now = leaves_.sum(workers_);
    if (now.faults != 0) return now.wrong.front();
    if (!now.leftovers.empty()) return "a leaf has keys of the next one";
    if (!now.locked.empty()) return "a leaf says that it is locked, and nobody writes";
    return now.records == entries ? std::nullopt
                                  : std::optional<std::string>("the chain has other entries");
  }
  /// Of leaves as look() found them: each link that one bit leads back is put right, where a leaf
  /// has its own keys, and where a crash left those of the next one in it as well. `again`: to look
  /// once more.
  template <class Again>
  std::optional<std::string> fault_of_mended_links(Again again) {
    std::vector<std::uint64_t> const leaves = found.leaves;
    for (std::size_t i = 0; i + 1 < leaves.size(); ++i) {
      if (auto wrong = fault_of_mended_link(leaves, i, again)) return wrong;
      btree::Leaf const whole = leaf_at(leaves[i]);
      if (!leave_in_two(leaf_at(leaves[i]), leaf_at(leaves[i + 1]))) continue;
      if (auto wrong = fault_of_mended_link(leaves, i, again)) return "left in two, " + *wrong;
      pm::write_bytes(reinterpret_cast<std::byte*>(&leaf_at(leaves[i])), &whole, sizeof whole);
    }
    return std::nullopt;
  }

  BtreeLeavesFound found;

 private:
  [[nodiscard]] btree::Leaf& leaf_at(std::uint64_t at) const {
    return *reinterpret_cast<btree::Leaf*>(pool_.base() + at);
  }
  /// As a crash in the midst of a split or a merge leaves a leaf; false: it has no room.
  static bool leave_in_two(btree::Leaf& leaf, btree::Leaf const& next) {
    btree::Leaf both = leaf;
    btree::Permutation order(leaf.permutation);
    btree::Permutation const more(next.permutation);
    if (more.count() == 0 || order.count() + more.count() > btree::Permutation::kSlots)
      return false;
    for (unsigned rank = 0; rank < more.count(); ++rank) {
      both.entries[order.free_slot()] = next.entries[more.slot(rank)];
      order = order.inserted(order.count());
    }
    both.permutation = order.word();
    pm::write_bytes(reinterpret_cast<std::byte*>(&leaf), &both, sizeof both);
    return true;
  }
  template <class Again>
  std::optional<std::string> fault_of_mended_link(std::vector<std::uint64_t> const& leaves,
                                                  std::size_t i, Again again) {
    auto const before = leaves.begin() + static_cast<std::ptrdiff_t>(i) + 1;
    for (std::uint64_t bit = sizeof(btree::Leaf); bit < pool_.bytes(); bit *= 2) {
      if (std::find(leaves.begin(), before, leaves[i + 1] ^ bit) == before) continue;
      pm::store_word(&leaf_at(leaves[i]).next, leaves[i + 1] ^ bit);
      again();
      std::vector<std::string> lines;
      if (found.chain.broken != leaves[i]) return "a leaf leads back, and nobody says so";
      leaves_.repair(found, std::nullopt, lines);
      if (auto wrong = again()) return "a repaired link: " + *wrong;
      if (found.leaves != leaves) return "a repair leads to another leaf than before";
    }
    return std::nullopt;
  }

  pm::Pool& pool_;
  BtreeLeaves& leaves_;
  exec::Workers workers_{1};
};

}  // namespace perdure::explore
