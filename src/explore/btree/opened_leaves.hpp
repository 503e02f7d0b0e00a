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
  /// Of leaves as look() found them: each link that one bit leads back is put right. `again`: to
  /// look once more.
  template <class Again>
  std::optional<std::string> fault_of_mended_links(Again again) {
    std::vector<std::uint64_t> const leaves = found.leaves;
    for (std::size_t i = 0; i + 1 < leaves.size(); ++i) {
      for (std::uint64_t bit = sizeof(btree::Leaf); bit < pool_.bytes(); bit *= 2) {
        auto const before = leaves.begin() + static_cast<std::ptrdiff_t>(i) + 1;
        if (std::find(leaves.begin(), before, leaves[i + 1] ^ bit) == before) continue;
        pm::store_word(reinterpret_cast<std::uint64_t*>(pool_.base() + leaves[i] +
                                                        offsetof(btree::Leaf, next)),
                       leaves[i + 1] ^ bit);
        again();
        std::vector<std::string> lines;
        if (found.chain.broken != leaves[i]) return "a leaf leads back, and nobody says so";
        leaves_.repair(found, std::nullopt, lines);
        if (auto wrong = again()) return "a repaired link: " + *wrong;
        if (found.leaves != leaves) return "a repair leads to another leaf than before";
      }
    }
    return std::nullopt;
  }

  BtreeLeavesFound found;

 private:
  pm::Pool& pool_;
  BtreeLeaves& leaves_;
  exec::Workers workers_{1};
};

}  // namespace perdure::explore
