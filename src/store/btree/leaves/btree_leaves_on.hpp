// The leaves of each kind of keys, and the engine that has them. Invariant: as btree_leaves.hpp.
#pragma once

#include <mutex>
#include <utility>

#include "index/btree/pool_nodes.hpp"
#include "store/btree/btree_engine_on.hpp"
#include "store/btree/leaves/btree_leaves.hpp"
#include "store/btree/leaves/btree_leaves_repair.hpp"

namespace perdure {

/// Records of the heap.
class HeapLeafRecords final : public BtreeLeafRecords {
 public:
  explicit HeapLeafRecords(threads::Space& space) : space_(space) {}
  btree::RecordMark use(std::uint64_t word) override {
    switch (space_.note_used(word)) {
      case pm::RecordHeap::Mark::first: return btree::RecordMark::first;
      case pm::RecordHeap::Mark::again: return btree::RecordMark::again;
      default: return btree::RecordMark::invalid;
    }
  }
  [[nodiscard]] bool is_record(std::uint64_t word) const override { return space_.is_record(word); }

 private:
  threads::Space& space_;
};

template <class Parts, class Host>
class BtreeLeavesOn final : public BtreeLeaves {
 public:
  BtreeLeavesOn(Parts& parts, BtreeLeafRecords& records, Host const& host)
      : parts_(parts), records_(records), host_(host) {}

  std::uint64_t first() override {
    exec::EpochGuard const guard(parts_.table.epochs());
    return parts_.table.first_leaf(host_);
  }
  BtreeLeavesFound look(std::uint64_t first, exec::Workers& workers) override {
    BtreeLeavesFound found;
    auto const mark = [&](std::uint64_t at) { return parts_.table.nodes().mark(at); };
    found.leaves = parts_.table.chain().walk(host_, first, mark, found.chain);
    Host host = host_;
    InUse records{parts_, records_, host};
    check(found.leaves, workers, records, found.chain);
    return found;
  }
  Status build(BtreeLeavesFound& found) override {
    bool const built = parts_.table.chain().build(host_, found.leaves, found.chain, found.unlinked);
    return built ? Status{} : Status{Code::no_space, "there is no memory for its inner nodes"};
  }
  void settle(BtreeLeavesFound const& found) override {
    parts_.table.chain().settle(host_, found.chain, found.unlinked);
    auto& nodes = parts_.table.nodes();
    for (btree::Unlinked const& each : found.unlinked)
      for (std::uint64_t const leaf : each.leaves) nodes.give(nodes.at(leaf));
  }
  std::uint64_t repair(BtreeLeavesFound const& found, std::optional<std::uint64_t> noted,
                       std::vector<std::string>& lines) override {
    BtreeLeavesRepair<Parts, Host> repair(parts_, records_, host_, lines);
    if (found.chain.broken != 0)
      repair.mend_next(found.chain.broken);
    else if (!noted || !repair.mend_bit(found.leaves, *noted - found.chain.sum))
      repair.mend_entries(found.leaves, found.chain);
    return repair.dropped();
  }
  btree::ChainFound sum(exec::Workers& workers) override {
    btree::ChainFound found;
    std::uint64_t left = parts_.table.nodes().most();
    auto const mark = [&](std::uint64_t) {
      return left-- > 0 ? pm::Blocks::Mark::first : pm::Blocks::Mark::again;
    };
    auto const leaves = parts_.table.chain().walk(host_, first(), mark, found);
    Trusted records;
    check(leaves, workers, records, found);
    return found;
  }

 private:
  static constexpr std::size_t kChunk = 1024;  // leaves that a worker takes at a time

  /// Marks records.
  struct InUse {
    Parts& parts;
    BtreeLeafRecords& records;
    Host& host;
    btree::RecordMark use(std::uint64_t word) { return records.use(word); }
    bool intact(std::uint64_t word) {
      if (!records.is_record(word)) return false;
      pm::SequencedRecord const record = parts.records.view(host, word);
      return !record.free() && pm::intact(record);
    }
  };
  /// Of a tree in use, whose records nobody doubts.
  struct Trusted {
    static btree::RecordMark use(std::uint64_t) { return btree::RecordMark::first; }
    static bool intact(std::uint64_t) { return true; }
  };

  template <class Records>
  void check(std::vector<std::uint64_t> const& leaves, exec::Workers& workers, Records& records,
             btree::ChainFound& found) {
    std::mutex mutex;
    workers.for_chunks(leaves.size(), kChunk, [&](std::size_t from, std::size_t end) {
      btree::ChainFound mine;
      Host host = host_;
      parts_.table.chain().check(host, leaves, from, end, records, mine);
      std::lock_guard const lock(mutex);
      found.add(mine);
    });
  }

  Parts& parts_;
  BtreeLeafRecords& records_;
  Host host_;
};

template <class Keys>
class BtreeIndexEngineOn final : public BtreeEngineOn<Keys, btree::PoolNodes> {
  using Base = BtreeEngineOn<Keys, btree::PoolNodes>;
  using typename Base::OrderedHost;

 public:
  BtreeIndexEngineOn(pm::Pool& pool, Keys keys, threads::Space& space,
                     threads::BatchNumbers& numbers, BtreeOptions const& options,
                     pm::Blocks& leaves)
      : Base(pool, keys, space, numbers, options, pool, leaves),
        records_(space),
        leaves_(this->parts_, records_, OrderedHost(options.given_up)) {}

  [[nodiscard]] BtreeLeaves* leaves() override { return &leaves_; }

 private:
  HeapLeafRecords records_;
  BtreeLeavesOn<typename Base::Parts, OrderedHost> leaves_;
};

}  // namespace perdure
