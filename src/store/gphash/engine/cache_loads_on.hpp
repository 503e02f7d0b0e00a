// Loads of an engine's cache, of records (GPHash section 3.3, taken further) or, for layout
// `in_place`, of buckets (as published). Invariants: empty() has the store exclusively, so no get
// still reads what it evicts; between choose() and the end of fill() no writer runs.
#pragma once

#include <algorithm>
#include <mutex>

#include "base/assert.hpp"
#include "store/gphash/engine/engine.hpp"
#include "store/gphash/engine/get_on.hpp"
#include "store/gphash/engine/launcher.hpp"
#include "store/gphash/kernels/cache_ops.hpp"

namespace perdure {

/// The bucket cache, whose parts lie in EngineState.
template <class Machine>
class BucketCacheLoads final : public CacheLoader {
 public:
  explicit BucketCacheLoads(EngineState<Machine>& state) : state_(&state) {}

  Status choose() override {
    if (!state_->buckets.has_maps())
      return {Code::no_space, "there is no memory for " + state_->mirror_report.lacks};
    return ended(state_->buckets.choose(state_->machines, state_->options, state_->table));
  }

  Status empty() override {
    return ended(state_->buckets.invalidate(state_->options, state_->table, state_->mirror_report));
  }

  Result<CacheReport> fill() override {
    auto const records = state_->buckets.fetch(state_->table, state_->options.base);
    if (!records) return ended(records.status());
    CacheReport report;
    report.records = records.value();
    std::lock_guard const lock(state_->mutex);
    report.bytes = state_->mirror_report.cache_bytes;
    state_->mirror_report.cache_records = report.records;
    return report;
  }

 private:
  /// A load that fails holds no memory.
  Status ended(Status status) {
    if (!status.ok()) state_->buckets.give_up();
    return status;
  }

  EngineState<Machine>* state_;
};

/// The record cache, which needs a mirror.
template <class Machine, class Ops>
class RecordCacheLoads final : public CacheLoader {
  using Warp = typename Machine::Warp;

 public:
  explicit RecordCacheLoads(EngineState<Machine>& state) : state_(&state) {}

  Status choose() override { return {}; }

  Status empty() override {
    if (!Ops::kMirrored || !state_->options.mirrored)
      return {Code::unsupported, "the record cache needs residency mirrored"};
    if constexpr (Ops::kMirrored) {
      if (state_->mirror == nullptr)
        return {Code::unsupported, "there is no memory for a mirror, which the record cache needs"};
      Machine machine(state_->machines);
      if (Status s = machine.begin(nullptr); !s.ok()) return s;
      if (state_->cache.capacity == 0) return state_->make_cache();
      EmptyCacheBody<Ops> const body{state_->table};
      if (Status s = machine.threads(state_->mirror_slots, body); !s.ok()) return s;
      state_->mirror_report.cache_records = 0;
      return machine.wait();
    }
    return {};
  }

  Result<CacheReport> fill() override {
    CacheReport report;
    if constexpr (Ops::kMirrored) {
      Launcher<Machine> launcher(*state_);
      Lists<Machine> lists;
      auto const counts = copy_best(launcher, lists, report.records);
      if (!counts) return counts.status();
      PERDURE_ASSERT(counts.value()[BatchCounts::corrupt] <= report.records);
      report.corrupt = counts.value()[BatchCounts::corrupt];
      report.records -= report.corrupt;
      state_->gather.forget();  // what is put aside from here on lies elsewhere
      std::lock_guard const lock(state_->mutex);
      report.bytes = state_->mirror_report.cache_bytes;
      state_->mirror_report.cache_records = report.records;
    }
    return report;
  }

 private:
  /// The candidates by score, the best of them by address, their records into the cache.
  Result<exec::Counts> copy_best(Launcher<Machine>& launcher, Lists<Machine>& lists,
                                 std::uint64_t& records) {
    Machine& machine = launcher.machine;
    gphash::TableView const& table = state_->table;
    auto const all = list_candidates(launcher, lists);
    if (!all) return all.status();
    PERDURE_ASSERT(all.value() <= state_->mirror_slots);  // each slot once
    std::uint64_t const n = std::min(all.value(), state_->cache.capacity);
    records = n;
    if (n == 0) return exec::Counts{};
    PERDURE_ASSERT(table.mirror.entries == state_->cache.entries.data());  // empty() showed it
    std::uint64_t* listed = lists.entries.data();
    if (n < all.value()) {
      auto by_score = machine.sort_words(listed, lists.spare.data(), all.value(), 32, 64);
      if (!by_score) return by_score.status();
      listed = *by_score;
    }
    std::uint64_t* const best = listed + (all.value() - n);
    std::uint64_t* const other =
        listed == lists.entries.data() ? lists.spare.data() : lists.entries.data();
    AddressesSorted const order = AddressesSorted::in(table);
    PlaceSlotsBody const place_slots{table, best, lists.slots.data(), order.shift};
    if (Status s = machine.threads(n, place_slots); !s.ok()) return s;
    auto sorted = machine.sort_words(best, other, n, 32, 32 + order.bits);
    if (!sorted) return sorted.status();
    FillCacheBody<Ops> const fill{table,
                                  *sorted,
                                  lists.slots.data(),
                                  n,
                                  state_->cache.entries.data(),
                                  state_->cache.sources.data()};
    return launcher.template counted<Warp>(fill, items_of(n));
  }

  /// How many there are.
  Result<std::uint64_t> list_candidates(Launcher<Machine>& launcher, Lists<Machine>& lists) {
    std::uint64_t const slots = state_->mirror_slots;
    if (Status s = launcher.begin(nullptr); !s.ok()) return s;
    for (auto* const buffer : {&lists.entries, &lists.spare, &lists.slots})
      if (Status s = buffer->resize(slots); !s.ok()) return s;
    if (Status s = lists.count.resize(1); !s.ok()) return s;
    if (Status s = launcher.machine.fill(lists.count.data(), 0, 1); !s.ok()) return s;
    ListMembersBody<SlotMembers> const list{{state_->table},
                                            lists.entries.data(),
                                            lists.count.data(),
                                            slots,
                                            state_->options.cache_policy == CachePolicy::lfu,
                                            state_->batches.load(std::memory_order_relaxed)};
    if (Status s = launcher.template run<Warp>(list, items_of(slots)); !s.ok()) return s;
    state_->gets.store(0, std::memory_order_relaxed);
    auto count = launcher.machine.fetch(lists.count, 1);
    if (!count) return count.status();
    return (*count)[0];
  }

  EngineState<Machine>* state_;
};

}  // namespace perdure
