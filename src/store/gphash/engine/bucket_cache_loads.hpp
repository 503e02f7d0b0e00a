// The memory of a bucket cache (index/gphash/bucket_cache.hpp), and its loads.
//
// A load takes the steps of GPHash's Figure 4 for all its buckets at once: it chooses, invalidates
// the mappings of what is evicted, waits for the readers of those entries, copies, and publishes
// the new mappings. Waiting is the store's lock, not a count of readers an entry: invalidating owns
// it, so that every get that could have seen an old mapping has ended, and every later one finds
// none. That is what a count of 0 says, and no get pays for it with two atomics a bucket. Members
// that stay are not touched, and serve gets all the while. The store keeps writers out from the
// choice to the last copy.
//
// Invariant: what the table view says of the cache changes only while no session runs.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/assert.hpp"
#include "pm/memory.hpp"
#include "store/gphash/engine/engine.hpp"
#include "store/gphash/kernels/bucket_ops.hpp"

namespace perdure {

template <class Machine>
class BucketCacheOn {
  template <class T>
  using Buffer = typename Machine::template Buffer<T>;
  using Memory = pm::Memory;
  using Warp = typename Machine::Warp;
  using Cache = gphash::BucketCache;

 public:
  /// The table has these levels now. Where they are others than before, buckets have other numbers:
  /// the cache is empty from here on, and counting begins anew. Without memory for the maps there
  /// is none; `report` says so.
  Status lay_out(Machine& machine, EngineOptions const& options, gphash::TableView const& before,
                 gphash::TableView& table, std::uint64_t slots, MirrorReport& report) {
    if (options.cache_bytes == 0) return {};
    bool same = maps_ != nullptr && before.levels == table.levels;
    for (std::uint32_t i = 0; same && i < table.levels; ++i)
      same = same_level(before.level[i], table.level[i]);
    PERDURE_ASSERT(slots % table.slots == 0);
    buckets_ = slots / table.slots;
    if (same) {
      table.buckets = before.buckets;
      return {};
    }
    report.cache_records = 0;
    Status s = make_maps(machine, options, table);
    if (s.code() == Code::no_space) {
      maps_.reset();
      entries_.reset();
      report.lacks = "the bucket cache: " + s.message();
      report.cache_bytes = 0;
      return {};
    }
    report.lacks.clear();
    report.cache_bytes = bytes();
    return s;
  }

  [[nodiscard]] bool has_maps() const { return maps_ != nullptr; }

  /// Chooses the members. Gets may run.
  Status choose(typename Machine::Shared& machines, EngineOptions const& options,
                gphash::TableView const& table) {
    if (Status s = check_budget(options, table); !s.ok()) return s;
    load_ = std::make_unique<Load>(machines);
    bool const counted = options.cache_policy == CachePolicy::lfu;
    return load_->choose(table, buckets_, capacity(options, table), counted, ++loads_);
  }

  /// Lets go of what was not chosen; the first time, makes the cache. No session is running.
  Status invalidate(EngineOptions const& options, gphash::TableView& table, MirrorReport& report) {
    PERDURE_ASSERT(load_ != nullptr);  // choose() came before
    if (entries_ != nullptr) return load_->invalidate(table.buckets);
    Status const made = make_entries(load_->machine(), capacity(options, table), table);
    if (!made.ok()) entries_.reset();
    report.cache_bytes = bytes();
    return made;
  }

  /// Copies what was chosen and is not there yet. Gets may run. The records in all cached buckets.
  Result<std::uint64_t> fetch(gphash::TableView const& table, std::byte* base) {
    PERDURE_ASSERT(load_ != nullptr && entries_ != nullptr);
    auto records = load_->fetch(table, base);
    load_.reset();
    return records;
  }

  void give_up() { load_.reset(); }

 private:
  /// What one load is about: from its choice to its last copy.
  class Load {
   public:
    explicit Load(typename Machine::Shared& machines) : machine_(machines) {}
    [[nodiscard]] Machine& machine() { return machine_; }

    Status choose(gphash::TableView const& table, std::uint64_t buckets, std::uint32_t capacity,
                  bool counted, std::uint64_t seed) {
      capacity_ = capacity;
      if (Status s = machine_.begin(nullptr); !s.ok()) return s;
      for (Buffer<std::uint64_t>* const buffer : {&listed_, &spare_, &incoming_})
        if (Status s = buffer->resize(buckets); !s.ok()) return s;
      if (Status s = vacant_.resize(capacity); !s.ok()) return s;
      if (Status s = kept_.resize(capacity); !s.ok()) return s;
      if (Status s = count_.resize(1); !s.ok()) return s;
      if (Status s = counts_.resize(1); !s.ok()) return s;
      ListMembersBody<BucketMembers> const list{{table}, listed_.data(), count_.data(),
                                                buckets, counted,        seed};
      auto const all = counted_items(items_of(buckets), list);
      if (!all) return all.status();
      std::uint64_t const n = std::min<std::uint64_t>(all.value(), capacity);
      PERDURE_ASSERT(all.value() <= buckets && capacity > 0);
      auto sorted = machine_.sort_words(listed_.data(), spare_.data(), all.value(), 32, 64);
      if (!sorted) return sorted.status();
      std::uint64_t const* const best = sorted.value() + (all.value() - n);
      if (Status s = machine_.fill(kept_.data(), 0, capacity); !s.ok()) return s;
      auto const coming = counted_items(
          items_of(n),
          KeepBucketsBody{table, best, n, kept_.data(), incoming_.data(), count_.data()});
      if (!coming) return coming.status();
      auto const vacant =
          counted_items(items_of(capacity),
                        VacantEntriesBody{kept_.data(), capacity, vacant_.data(), count_.data()});
      if (!vacant) return vacant.status();
      incoming_count_ = coming.value();
      vacant_count_ = vacant.value();
      PERDURE_ASSERT(incoming_count_ <= vacant_count_ && vacant_count_ <= capacity);
      return {};
    }

    Status invalidate(Cache const& cache) {
      if (Status s = machine_.threads(vacant_count_, InvalidateBucketsBody{cache, vacant_.data()});
          !s.ok())
        return s;
      return machine_.wait();
    }

    /// In the order of their numbers, which is that of their places within a level.
    Result<std::uint64_t> fetch(gphash::TableView const& table, std::byte* base) {
      Memory const memory(base);
      auto sorted = machine_.sort_words(incoming_.data(), spare_.data(), incoming_count_, 0, 32);
      if (!sorted) return sorted.status();
      FetchBucketsBody const body{table, sorted.value(), vacant_.data()};
      if (Status s = machine_.template warps<Warp>(incoming_count_, body, memory, nullptr); !s.ok())
        return s;
      if (Status s = machine_.fill(counts_.data(), 0, 1); !s.ok()) return s;
      CountCachedBody const count{table.buckets};
      if (Status s = machine_.template warps<Warp>(capacity_, count, memory, counts_.data());
          !s.ok())
        return s;
      auto counts = machine_.fetch(counts_, 1);
      if (!counts) return counts.status();
      PERDURE_ASSERT((*counts)[0][BatchCounts::cached] <= std::uint64_t{capacity_} * table.slots);
      return (*counts)[0][BatchCounts::cached];
    }

   private:
    /// How many items a body appended.
    template <class Body>
    Result<std::uint64_t> counted_items(std::uint64_t items, Body const& body) {
      if (Status s = machine_.fill(count_.data(), 0, 1); !s.ok()) return s;
      if (Status s = machine_.template warps<Warp>(items, body, Memory(), nullptr); !s.ok())
        return s;
      auto count = machine_.fetch(count_, 1);
      if (!count) return count.status();
      return (*count)[0];
    }

    Machine machine_;
    Buffer<std::uint64_t> listed_, spare_, incoming_, vacant_, count_;
    Buffer<std::uint8_t> kept_;
    Buffer<exec::Counts> counts_;
    std::uint64_t incoming_count_ = 0, vacant_count_ = 0;
    std::uint32_t capacity_ = 0;
  };

  static std::uint32_t key_stride(gphash::TableView const& table) {
    return gphash::in_place::key_stride(table.key_bytes);
  }
  static std::uint32_t entry_bytes(gphash::TableView const& table) {
    return gphash::bucket_entry_bytes(table.slots, key_stride(table));
  }
  /// Of the bytes that the user gave, each entry takes its own and its word of G.
  static std::uint32_t capacity(EngineOptions const& options, gphash::TableView const& table) {
    std::uint64_t const entries =
        options.cache_bytes / (entry_bytes(table) + sizeof(std::uint32_t));
    return static_cast<std::uint32_t>(std::min<std::uint64_t>(entries, Cache::kNone - 1));
  }
  [[nodiscard]] std::uint64_t map_bytes() const {
    return buckets_ * sizeof(std::uint32_t) * (counts_uses_ ? 2 : 1);
  }
  [[nodiscard]] std::uint64_t bytes() const {
    return map_bytes() + (entries_ != nullptr ? entries_->bytes : 0);
  }

  Status check_budget(EngineOptions const& options, gphash::TableView const& table) const {
    std::uint64_t const budget = options.memory_budget;
    if (capacity(options, table) == 0)
      return {Code::invalid_argument, "cache_bytes " + std::to_string(options.cache_bytes) +
                                          " hold no bucket; one takes " +
                                          std::to_string(entry_bytes(table)) + " and 4"};
    if (budget == 0 || entries_ != nullptr ||
        options.cache_bytes <= budget - std::min(budget, map_bytes()))
      return {};
    return {Code::no_space, "a bucket cache of " + std::to_string(options.cache_bytes) +
                                " bytes and its maps of " + std::to_string(map_bytes()) + " for " +
                                std::to_string(buckets_) + " buckets of " +
                                std::to_string(entry_bytes(table)) +
                                " exceed the memory budget of " + std::to_string(budget)};
  }

  /// F says that nothing is cached, and of entries that are there, G too.
  Status make_maps(Machine& machine, EngineOptions const& options, gphash::TableView& table) {
    counts_uses_ = options.cache_policy != CachePolicy::random;
    if (buckets_ >= Cache::kNone)
      return {Code::no_space, "it numbers 2^32 buckets, and this table has more"};
    if (std::uint64_t const budget = options.memory_budget; budget != 0 && map_bytes() > budget)
      return {Code::no_space, "its maps of " + std::to_string(buckets_) + " buckets take " +
                                  std::to_string(map_bytes()) +
                                  " bytes, and the memory budget is " + std::to_string(budget)};
    if (maps_ == nullptr) maps_ = std::make_unique<Maps>();
    Cache& shown = table.buckets;
    shown = {};
    if (Status s = maps_->entry_of.resize(buckets_); !s.ok()) return s;
    shown.entry_of = maps_->entry_of.data();
    if (Status s = machine.fill(shown.entry_of, 0xff, buckets_); !s.ok()) return s;
    if (counts_uses_) {
      if (Status s = maps_->uses.resize(buckets_); !s.ok()) return s;
      shown.uses = maps_->uses.data();
      if (Status s = machine.fill(shown.uses, 0, buckets_); !s.ok()) return s;
    }
    if (entries_ == nullptr) return {};
    show_entries(table);
    return machine.fill(shown.bucket_of, 0xff, shown.capacity);
  }

  /// Empty, but for the entry that stands for all that is not cached.
  Status make_entries(Machine& machine, std::uint32_t capacity, gphash::TableView& table) {
    PERDURE_ASSERT(entries_ == nullptr && maps_ != nullptr && capacity < Cache::kNone);
    entries_ = std::make_unique<Entries>();
    std::uint64_t const each = entry_bytes(table);
    if (Status s = entries_->copies.resize((capacity + std::uint64_t{1}) * each); !s.ok()) return s;
    if (Status s = entries_->bucket_of.resize(capacity); !s.ok()) return s;
    if (Status s = machine.fill(entries_->bucket_of.data(), 0xff, capacity); !s.ok()) return s;
    std::vector<std::uint64_t> const elsewhere(table.slots, gphash::in_place::kInsert);
    auto* const last = reinterpret_cast<std::uint64_t*>(entries_->copies.data() + capacity * each);
    if (Status s = machine.send(last, elsewhere.data(), elsewhere.size()); !s.ok()) return s;
    if (Status s = machine.wait(); !s.ok()) return s;
    entries_->capacity = capacity;
    entries_->bytes = capacity * (each + sizeof(std::uint32_t)) + each;
    show_entries(table);
    return {};
  }

  void show_entries(gphash::TableView& table) {
    Cache& shown = table.buckets;
    shown.entries = entries_->copies.data();
    shown.bucket_of = entries_->bucket_of.data();
    shown.capacity = entries_->capacity;
    shown.entry_bytes = entry_bytes(table);
    shown.slots = table.slots;
    shown.key_stride = key_stride(table);
  }

  struct Maps {  // by bucket number
    Buffer<std::uint32_t> entry_of, uses;
  };
  struct Entries {
    Buffer<std::byte> copies;
    Buffer<std::uint32_t> bucket_of;
    std::uint32_t capacity = 0;
    std::uint64_t bytes = 0;
  };

  std::unique_ptr<Maps> maps_;  // null: there was no memory for them
  std::unique_ptr<Entries> entries_;  // null: nothing has been loaded yet
  std::uint64_t buckets_ = 0;
  bool counts_uses_ = false;
  std::uint64_t loads_ = 0;
  std::unique_ptr<Load> load_;  // under way
};

}  // namespace perdure
