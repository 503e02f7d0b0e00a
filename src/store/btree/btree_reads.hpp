// What engines of all kinds of trees have alike, wherever nodes lie: the tree, its gets, ranges and
// counts, and who makes the Hosts that they touch memory with. Invariant: who waits in here for
// another thread's operation gives up where that has ended in its midst.
#pragma once

#include <span>
#include <utility>
#include <vector>

#include "exec/epochs.hpp"
#include "index/btree/tree.hpp"
#include "pm/counted_host.hpp"
#include "pm/host.hpp"
#include "store/btree/btree_engine.hpp"
#include "store/btree/btree_load.hpp"
#include "store/btree/btree_ranges.hpp"
#include "store/btree/btree_runs.hpp"
#include "store/threads/gives.hpp"
#include "store/threads/gives_up.hpp"

namespace perdure {

/// Of a tree whose nodes' locks are void after a crash without further ado. What makes Hosts has
/// Plain and plain(), whose accesses nobody counts, and counted().
struct TreeHosts {
  using Plain = threads::GivesUp<pm::OrderedHost>;

  std::atomic<bool>* given_up;
  pm::DurableRange durable;

  [[nodiscard]] Plain plain() const { return Plain(given_up); }
  [[nodiscard]] auto counted() const {
    return threads::GivesUp<pm::CountedHost>(given_up, durable);
  }
};

/// `Hosts`: what makes those of reads.
template <class Keys, class Nodes, class Hosts>
class BtreeReads : public BtreeEngine {
 public:
  using Tree = btree::Tree<Keys, Nodes>;
  using Parts = BtreeParts<Tree, Keys>;

  /// `nodes`: what Nodes is made of.
  template <class... OfNodes>
  BtreeReads(pm::Pool& pool, Keys keys, threads::Space& space, threads::BatchNumbers& numbers,
             BtreeOptions const& options, Hosts hosts, OfNodes&&... nodes)
      : options_(options),
        hosts_(hosts),
        keys_(keys),
        tree_(keys, std::forward<OfNodes>(nodes)...),
        parts_{tree_,
               BtreeRecords(pool.base(), pool.superblock_bytes()),
               BtreeKeyMaker<Keys>(options.key_order),
               options_,
               space,
               numbers} {}

  void get(threads::Batch const& batch, threads::Ops const& ops, threads::Tally& tally) override {
    auto const give = threads::give_into_output(batch);
    on_host(hosts_, tally,
            [&](auto& host) { BtreeGets(parts_, host, batch, tally).run(ops, give); });
  }
  void get_variable(threads::Batch const& batch, threads::Ops const& ops,
                    std::vector<std::byte>& values, std::int64_t* lengths,
                    threads::Tally& tally) override {
    auto const give = threads::give_behind(ops, values, lengths);
    on_host(hosts_, tally,
            [&](auto& host) { BtreeGets(parts_, host, batch, tally).run(ops, give); });
  }
  Status why_damaged() override {
    return {Code::corrupt, "a record that keys are compared with claims more room than it has"};
  }

  BtreePage range(BtreeRange const& range, std::size_t limit, std::uint64_t most_bytes,
                  threads::Visitor const& visit) override {
    auto host = hosts_.plain();
    return BtreeRanges(parts_, keys_, host).page(range, limit, most_bytes, visit);
  }
  std::uint64_t count(BtreeRange const& range) override {
    auto host = hosts_.plain();
    return BtreeRanges(parts_, keys_, host).count(range);
  }
  BtreeShape shape() override {
    auto host = hosts_.plain();
    exec::EpochGuard const guard(tree_.epochs());
    auto const shape = tree_.shape(host);
    return {shape.leaves, shape.leaves * btree::Permutation::kSlots, shape.depth, shape.bytes};
  }

 protected:
  /// f(host): one that `hosts` makes, whose counts the tally gets if anybody asks for them.
  template <class Of, class F>
  void on_host(Of const& hosts, threads::Tally& tally, F f) {
    if (!options_.count_accesses) {
      auto host = hosts.plain();
      return f(host);
    }
    auto host = hosts.counted();
    f(host);
    tally.reads += host.counts().lines_read;
    tally.writes += host.counts().lines_flushed;
    tally.orders += host.counts().fences;
  }
  /// A batch's records into a tree without any; false: that tree, or those records, are others.
  template <class Of>
  bool load_with(Of const& hosts, threads::Batch const& batch, exec::Workers& workers,
                 std::atomic<bool> const* stop, threads::Tally& tally) {
    BtreeLoad<Parts, Keys, typename Of::Plain> load(parts_, batch);
    return !options_.count_accesses && load.rises() &&
           load.run(hosts.plain(), workers, stop, tally);
  }

  BtreeOptions const options_;
  Hosts hosts_;

 private:
  Keys keys_;

 protected:
  Tree tree_;
  Parts parts_;
};

}  // namespace perdure
