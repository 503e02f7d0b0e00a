// An opened store of each kind of keys and of nodes, on simulated threads: its tree, and the runs
// and ranges over it. Invariant: as opened_store.hpp.
#pragma once

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "exec/workers.hpp"
#include "explore/btree/opened_store.hpp"
#include "index/btree/tree.hpp"
#include "store/btree/btree_load.hpp"
#include "store/btree/btree_ranges.hpp"
#include "store/btree/btree_runs.hpp"

namespace perdure::explore {

using StringKeys = btree::ByteKeys<BtreeRecords>;

template <class Keys>
[[nodiscard]] Keys keys_of(pm::Pool const& pool) {
  if constexpr (Keys::kTails)
    return Keys(BtreeRecords(pool.base(), pool.superblock_bytes()));
  else
    return Keys();
}

template <class Keys, class Nodes>
class OpenedOn : public OpenedStore {
 public:
  using Table = btree::Tree<Keys, Nodes>;
  using Parts = BtreeParts<Table, Keys>;

  OpenedOn(pm::Pool opened, Keeps keeps)
    requires(!Nodes::kDurable)
      : OpenedStore(std::move(opened), keeps, KeyForm(Keys::kTails)),
        table_(keys_of<Keys>(pool_)),
        parts_(made_parts()) {}
  OpenedOn(pm::Pool opened, Keeps keeps)
    requires Nodes::kDurable
      : OpenedStore(std::move(opened), keeps, KeyForm(Keys::kTails)),
        table_(keys_of<Keys>(pool_), pool_, leaf_blocks_),
        parts_(made_parts()) {}

  Answers apply(StoreBatch const& operations) override {
    StoreCall of(operations, form_);
    threads::Batch batch{&of.call, of.answers.statuses.data(), 0};
    threads::Ops const ops{nullptr, 0, of.count()};
    if (of.reads()) {
      threads::Tally tally;
      auto const give = [&](std::size_t i, std::span<std::byte const> value) {
        exec::sim_point();
        of.answers.values[i] = word_of(value);
        return KeyStatus::ok;
      };
      BtreeGets(parts_, host_, batch, tally).run(ops, give);
    } else {
      batch.sequence = numbers_.take(of.count());
      write(batch, ops);
    }
    epochs().collect();
    return std::move(of.answers);
  }

 protected:
  virtual void write(threads::Batch const& batch, threads::Ops const& ops) = 0;
  [[nodiscard]] exec::Epochs& epochs() { return table_.epochs(); }

  BtreePage all(Visit const& visit) override {
    Keys const order = keys_of<Keys>(pool_);
    return BtreeRanges(parts_, order, host_).page({}, ~std::size_t{0}, ~std::uint64_t{0}, visit);
  }
  /// The words of all entries.
  std::vector<std::uint64_t> words() {
    std::vector<std::uint64_t> all;
    exec::EpochGuard const guard(epochs());
    table_.ascend(host_, nullptr, true, [&](std::uint64_t, std::uint64_t word) {
      all.push_back(word);
      return true;
    });
    std::ranges::sort(all);
    return all;
  }

  exec::Workers workers_{1};
  Table table_;
  Parts parts_;

 private:
  Parts made_parts() {
    return {table_,
            BtreeRecords(pool_.base(), pool_.superblock_bytes()),
            BtreeKeyMaker<Keys>(options_.key_order),
            options_,
            space_,
            numbers_};
  }
};

/// With its records in the heap.
template <class Keys, class Nodes>
class OpenedInHeap : public OpenedOn<Keys, Nodes> {
  using Base = OpenedOn<Keys, Nodes>;

 public:
  using Base::Base;

  Answers load(StoreBatch const& operations) override {
    StoreCall of(operations, this->form_);
    of.call.kinds = {};
    of.call.kind = OpKind::put;
    threads::Batch const batch{&of.call, of.answers.statuses.data(),
                               this->numbers_.take(of.count())};
    threads::Tally tally;
    BtreeLoad<typename Base::Parts, Keys, StoreHost> load(this->parts_, batch);
    PERDURE_ASSERT(load.rises());
    bool const loaded = load.run(this->host_, this->workers_, nullptr, tally);
    PERDURE_ASSERT(loaded);
    return std::move(of.answers);
  }
  void make_room(std::vector<std::uint64_t> const& keys) override {
    for (std::uint64_t const key : keys) {
      std::uint64_t const bytes = pm::record_bytes(this->form_.bytes(key).size(), 8);
      std::vector<std::uint64_t> one;
      if (this->space_.take(pm::stride_for(bytes), 1, one).ok()) this->space_.give(one);
    }
    static_cast<void>(this->numbers_.take(1));
  }

 protected:
  void write(threads::Batch const& batch, threads::Ops const& ops) override {
    threads::Tally tally;
    BtreeWrites(this->parts_, this->host_, batch, tally).run(ops);
  }
  /// What an entry leads to is in use, and nothing else; `is_free`: what its bytes say, if they do.
  template <class IsFree>
  std::optional<std::string> fault_of_records(IsFree is_free) {
    auto const all = this->words();
    if (std::ranges::adjacent_find(all) != all.end()) return "two entries lead to one record";
    std::uint64_t found = 0;
    for (auto const& superblock : this->space_.superblocks()) {
      for (std::uint64_t i = 0; i < this->space_.shape().capacity(superblock.stride); ++i) {
        std::uint64_t const at = superblock.at + this->space_.shape().address(superblock.stride, i);
        bool const led_to = std::ranges::binary_search(all, at);
        found += led_to;
        if (is_free(at, led_to) == led_to)
          return this->named(at) + (led_to ? " is free, and an entry leads to it"
                                           : " is valid, and no entry leads to it");
        if (this->space_.in_use(at) != led_to)
          return this->named(at) +
                 (led_to ? " is in use, and counts as free" : " is free, and counts as in use");
      }
    }
    return found == all.size() ? std::nullopt
                               : std::optional<std::string>("an entry leads to no record");
  }
};

}  // namespace perdure::explore
