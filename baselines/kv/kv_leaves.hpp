// What designs whose leaves are durable have alike: a pool's root names the first leaf, and an
// opening goes through all of them. Invariants: one thread looks with the opening's own Host, so
// that it is timed and counted; several look with plain copies of it, which nobody measures.
#pragma once

#include <variant>

#include "kv_current.hpp"
#include "kv_design.hpp"
#include "pm/root.hpp"
#include "store/btree/leaves/btree_leaves_on.hpp"

namespace perdure::kv_baselines {

template <class Parts>
class DurableLeaves {
 public:
  DurableLeaves(pm::Pool& pool, pm::Blocks& blocks, Parts& parts, BtreeLeafRecords& records)
      : pool_(pool), blocks_(blocks), parts_(parts), records_(records) {}

  /// Of an empty tree that has been made.
  void name_first() {
    pm::FlushedHost host;
    pm::Root root = pool_.root();
    root.set(kBtreeLeaves, BtreeLeavesOn<Parts, pm::FlushedHost>(parts_, records_, host).first(),
             0);
    pool_.publish_root(root);
  }

  /// Before records are asked which of them are in use.
  Status begin() {
    pm::RootEntry const* const entry = pool_.root().find(kBtreeLeaves);
    if (entry == nullptr) return {Code::corrupt, "the pool's root names no leaves"};
    first_ = entry->offset;
    blocks_.find_superblocks_later();
    blocks_.begin_sweep();
    return {};
  }
  /// The tree has the leaves from here on; how many records.
  Result<std::uint64_t> take(AnyHost& host, exec::Workers& workers) {
    if (workers.threads() > 1) return take_with(host, std::get<Flushed>(host), workers);
    return std::visit(
        [&]<class Host>(Host& h) {
          WithCurrent<Host> const lent(h);
          return take_with(host, Current<Host>(), workers);
        },
        host);
  }
  void finish() { blocks_.finish_sweep(); }

 private:
  template <class Host>
  Result<std::uint64_t> take_with(AnyHost& any, Host const& host, exec::Workers& workers) {
    BtreeLeavesOn<Parts, Host> leaves(parts_, records_, host);
    BtreeLeavesFound found = leaves.look(first_, workers);
    if (found.chain.faults != 0) return Status{Code::corrupt, found.chain.wrong.front()};
    enters(any, pm::Part::index);
    if (Status s = leaves.build(found); !s.ok()) return s;
    leaves.settle(found);
    return found.chain.records;
  }

  pm::Pool& pool_;
  pm::Blocks& blocks_;
  Parts& parts_;
  BtreeLeafRecords& records_;
  std::uint64_t first_ = 0;
};

}  // namespace perdure::kv_baselines
