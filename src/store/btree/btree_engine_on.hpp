// The engine of each kind of keys whose records say themselves whether they count: reads are those
// of every tree (btree_reads.hpp), runs of writes (btree_runs.hpp) and looks at all records
// (btree_look.hpp) come here. Invariant: as btree_reads.hpp.
#pragma once

#include <memory>
#include <span>
#include <utility>

#include "store/btree/btree_look.hpp"
#include "store/btree/btree_reads.hpp"

namespace perdure {

template <class Keys, class Nodes = btree::DramNodes>
class BtreeEngineOn : public BtreeReads<Keys, Nodes, TreeHosts> {
  using Reads = BtreeReads<Keys, Nodes, TreeHosts>;

 public:
  using typename Reads::Superblock;

  /// `nodes`: what Nodes is made of.
  template <class... OfNodes>
  BtreeEngineOn(pm::Pool& pool, Keys keys, threads::Space& space, threads::BatchNumbers& numbers,
                BtreeOptions const& options, OfNodes&&... nodes)
      : Reads(pool, keys, space, numbers, options,
              TreeHosts{options.given_up, pm::DurableRange(pool.addresses())},
              std::forward<OfNodes>(nodes)...) {}

  Status create() override {
    OrderedHost host = hosts_.plain();
    return tree_.create(host) == btree::Answer::done ? Status{} : tree_.why_full();
  }
  void write(threads::Batch const& batch, threads::Ops const& ops, threads::Tally& tally) override {
    this->on_host(hosts_, tally,
                  [&](auto& host) { BtreeWrites(parts_, host, batch, tally).run(ops); });
  }
  bool load(threads::Batch const& batch, exec::Workers& workers, std::atomic<bool> const* stop,
            threads::Tally& tally) override {
    return this->load_with(hosts_, batch, workers, stop, tally);
  }

  void rebuild(std::span<Superblock const> superblocks, BtreeFound& found) override {
    OrderedHost host = hosts_.plain();
    BtreeLook(parts_, host).rebuild(superblocks, found);
  }
  void free_records(std::span<std::uint64_t const> records) override {
    OrderedHost host = hosts_.plain();
    for (std::uint64_t const record : records) pm::make_free(host, parts_.records.at(record));
  }
  void check(std::span<Superblock const> superblocks, threads::Faults& faults) override {
    OrderedHost host = hosts_.plain();
    BtreeLook(parts_, host).check(superblocks, faults);
  }

 protected:
  using OrderedHost = TreeHosts::Plain;
  using Reads::hosts_;
  using Reads::options_;
  using Reads::parts_;
  using Reads::tree_;
  using typename Reads::Parts;
};

}  // namespace perdure
