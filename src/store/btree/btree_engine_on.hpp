// The engine of each kind of keys: runs of operations (btree_runs.hpp), ranges (btree_ranges.hpp)
// and looks at all records (btree_look.hpp), each on a Host that counts accesses, or that does not.
// Invariant: who waits in here for another thread's operation gives up where that has ended in its
// midst.
#pragma once

#include <cstring>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "base/assert.hpp"
#include "exec/epochs.hpp"
#include "index/btree/tree.hpp"
#include "pm/counted_host.hpp"
#include "pm/host.hpp"
#include "store/btree/btree_engine.hpp"
#include "store/btree/btree_load.hpp"
#include "store/btree/btree_look.hpp"
#include "store/btree/btree_ranges.hpp"
#include "store/btree/btree_runs.hpp"
#include "store/threads/gives_up.hpp"

namespace perdure {

template <class Keys, class Nodes = btree::DramNodes>
class BtreeEngineOn : public BtreeEngine {
 public:
  /// `nodes`: what Nodes is made of.
  template <class... OfNodes>
  BtreeEngineOn(pm::Pool& pool, Keys keys, threads::Space& space, threads::BatchNumbers& numbers,
                BtreeOptions const& options, OfNodes&&... nodes)
      : options_(options),
        keys_(keys),
        durable_(pool.addresses()),
        table_(keys, std::forward<OfNodes>(nodes)...),
        parts_{table_,
               BtreeRecords(pool.base(), pool.superblock_bytes()),
               BtreeKeyMaker<Keys>(options.key_order),
               options_,
               space,
               numbers} {}

  Status create() override {
    OrderedHost host(options_.given_up);
    return table_.create(host) == btree::Answer::done ? Status{} : table_.why_full();
  }

  void get(threads::Batch const& batch, threads::Ops const& ops, threads::Tally& tally) override {
    MutableColumn const& out = batch.call->out;
    auto const give = [&](std::size_t i, std::span<std::byte const> value) {
      PERDURE_ASSERT(!kCostlyAssertions || (value.size() == out.width && i < out.count));
      std::memcpy(out.data + i * out.width, value.data(), value.size());
    };
    on_host(tally, [&](auto& host) { BtreeGets(parts_, host, batch, tally).run(ops, give); });
  }
  void get_variable(threads::Batch const& batch, threads::Ops const& ops,
                    std::vector<std::byte>& values, std::int64_t* lengths,
                    threads::Tally& tally) override {
    for (std::size_t k = 0; k < ops.count; ++k) lengths[ops[k]] = 0;
    auto const give = [&](std::size_t i, std::span<std::byte const> value) {
      values.insert(values.end(), value.begin(), value.end());
      lengths[i] = static_cast<std::int64_t>(value.size());
    };
    on_host(tally, [&](auto& host) { BtreeGets(parts_, host, batch, tally).run(ops, give); });
  }
  void write(threads::Batch const& batch, threads::Ops const& ops, threads::Tally& tally) override {
    on_host(tally, [&](auto& host) { BtreeWrites(parts_, host, batch, tally).run(ops); });
  }
  bool load(threads::Batch const& batch, exec::Workers& workers, std::atomic<bool> const* stop,
            threads::Tally& tally) override {
    BtreeLoad<decltype(parts_), Keys, OrderedHost> load(parts_, batch);
    return !options_.count_accesses && load.rises() &&
           load.run(OrderedHost(options_.given_up), workers, stop, tally);
  }
  Status why_damaged() override {
    return {Code::corrupt, "a record that keys are compared with claims more room than it has"};
  }

  void rebuild(std::span<Superblock const> superblocks, BtreeFound& found) override {
    OrderedHost host(options_.given_up);
    BtreeLook(parts_, host).rebuild(superblocks, found);
  }
  void free_records(std::span<std::uint64_t const> records) override {
    OrderedHost host(options_.given_up);
    for (std::uint64_t const record : records) pm::make_free(host, parts_.records.at(record));
  }
  BtreePage range(BtreeRange const& range, std::size_t limit, std::uint64_t most_bytes,
                  threads::Visitor const& visit) override {
    OrderedHost host(options_.given_up);
    return BtreeRanges(parts_, keys_, host).page(range, limit, most_bytes, visit);
  }
  std::uint64_t count(BtreeRange const& range) override {
    OrderedHost host(options_.given_up);
    return BtreeRanges(parts_, keys_, host).count(range);
  }
  void check(std::span<Superblock const> superblocks, threads::Faults& faults) override {
    OrderedHost host(options_.given_up);
    BtreeLook(parts_, host).check(superblocks, faults);
  }
  BtreeShape shape() override {
    OrderedHost host(options_.given_up);
    exec::EpochGuard const guard(table_.epochs());
    auto const shape = table_.shape(host);
    return {shape.leaves, shape.leaves * btree::Permutation::kSlots, shape.depth, shape.bytes};
  }

 protected:
  using OrderedHost = threads::GivesUp<pm::OrderedHost>;

  template <class F>
  void on_host(threads::Tally& tally, F f) {
    if (!options_.count_accesses) {
      OrderedHost host(options_.given_up);
      return f(host);
    }
    threads::GivesUp<pm::CountedHost> host(options_.given_up, durable_);
    f(host);
    tally.reads += host.counts().lines_read;
    tally.writes += host.counts().lines_flushed;
    tally.orders += host.counts().fences;
  }

  BtreeOptions const options_;

 private:
  Keys keys_;
  pm::DurableRange durable_;
  btree::Tree<Keys, Nodes> table_;

 protected:
  using Parts = BtreeParts<btree::Tree<Keys, Nodes>, Keys>;
  Parts parts_;
};

}  // namespace perdure
