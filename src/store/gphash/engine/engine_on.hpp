// An engine on a machine: one table, and the units that work on it. Ordering points of a write
// batch are the store's to set (Session::order); everything else that changes durable words orders
// itself.
#pragma once

#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <type_traits>
#include <utility>

#include "base/assert.hpp"
#include "base/hooks.hpp"
#include "pm/host_verbs.hpp"
#include "store/gphash/engine/cache_loads_on.hpp"
#include "store/gphash/engine/device_run_on.hpp"
#include "store/gphash/engine/engine.hpp"
#include "store/gphash/engine/engine_state.hpp"
#include "store/gphash/engine/entries_on.hpp"
#include "store/gphash/engine/session_on.hpp"
#include "store/gphash/engine/units_on.hpp"

namespace perdure {

/// The map of leased records, in the machine's memory.
template <class Machine>
class RecordLeaseOn final : public RecordLease {
 public:
  explicit RecordLeaseOn(EngineState<Machine>& state) : state_(&state) {}

  Status begin(pm::RecordHeap::Lease const& lease) override {
    Machine machine(state_->machines);
    PERDURE_ASSERT(lease.stride > 0 && lease.bits.size() == lease.leased.size() * lease.words_each);
    auto& bits = state_->record_bits;
    auto& leased = state_->record_leased;
    if (Status s = machine.begin(nullptr); !s.ok()) return s;
    if (Status s = bits.resize(lease.bits.size()); !s.ok()) return s;
    if (Status s = leased.resize(lease.leased.size()); !s.ok()) return s;
    if (Status s = machine.send(bits.data(), lease.bits.data(), lease.bits.size()); !s.ok())
      return s;
    if (Status s = machine.send(leased.data(), lease.leased.data(), lease.leased.size()); !s.ok())
      return s;
    if (Status s = need_next(machine); !s.ok()) return s;
    state_->records = {bits.data(),  leased.data(),    lease.leased.size(),       lease.shape,
                       lease.stride, lease.words_each, state_->next_record.data()};
    state_->free_records = 0;
    return machine.wait();
  }

  Status end(pm::RecordHeap::Lease& lease) override {
    Machine machine(state_->machines);
    if (Status s = machine.begin(nullptr); !s.ok()) return s;
    PERDURE_ASSERT(state_->records.bits == state_->record_bits.data() &&
                   state_->records.superblocks == lease.leased.size());
    if (Status s = state_->stash.give_back(machine, state_->records, state_->free_records,
                                           pm::Memory(state_->options.base));
        !s.ok())
      return s;
    auto bits = machine.fetch(state_->record_bits, lease.bits.size());
    if (!bits) return bits.status();
    lease.bits.assign(bits->begin(), bits->end());
    state_->records = {};
    return {};
  }

 private:
  /// Which outlives the lease: taking goes on where it was.
  Status need_next(Machine& machine) {
    if (state_->next_record.data() != nullptr) return {};
    if (Status s = state_->next_record.resize(2); !s.ok()) return s;
    return machine.fill(state_->next_record.data(), 0, 2);
  }

  EngineState<Machine>* state_;
};

template <class Machine, class Ops>
class EngineOn final : public Engine {
  using CacheLoads = std::conditional_t<Ops::kCachesBuckets, BucketCacheLoads<Machine>,
                                        RecordCacheLoads<Machine, Ops>>;

 public:
  EngineOn(EngineOptions const& options, typename Machine::Shared machine)
      : state_(options, std::move(machine)) {}

  Status set_table(gphash::TableView const& view, std::uint64_t slots) override {
    Machine machine(state_.machines);
    if (Status s = machine.begin(nullptr); !s.ok()) return s;
    PERDURE_ASSERT(view.levels > 0 && slots % 32 == 0);  // claims of a level are whole words
    if (Status s = state_.need_bits(view, slots); !s.ok()) return s;
    state_.words_changed = true;
    gphash::TableView const before = std::exchange(state_.table, view);
    bool const had_none = state_.mirror == nullptr && before.levels != 0;
    if constexpr (Ops::kMirrored) {
      if (Status s = state_.lay_out_mirror(machine, before, slots); !s.ok()) {
        if (Ops::kLogged) state_.table = before;  // whose words are nowhere else
        return s;
      }
    }
    if constexpr (Ops::kCachesBuckets) {
      Status const s = state_.buckets.lay_out(machine, state_.options, before, state_.table, slots,
                                              state_.mirror_report);
      if (!s.ok()) return s;
    }
    if (Status s = state_.lay_out_bits(machine, slots); !s.ok()) return s;
    // There may be room for a mirror now, and it knows nothing of the levels that stay.
    return had_none ? refresh() : Status{};
  }

  Status refresh() override {
    if constexpr (Ops::kMirrored) {
      Machine machine(state_.machines);
      if (Status s = machine.begin(nullptr); !s.ok()) return s;
      if (Ops::kLogged || state_.mirror == nullptr || mutated("mirror_not_refreshed")) return {};
      PERDURE_ASSERT(state_.mirror_slots > 0 && state_.table.mirror.words != nullptr);
      RefreshBody<Ops> const body{state_.table, state_.options.base};
      if (Status s = machine.threads(state_.mirror_slots, body); !s.ok()) return s;
      return machine.wait();
    }
    return {};
  }

  void set_pool_bytes(std::uint64_t bytes) override {
    PERDURE_ASSERT(bytes >= state_.table.pool_bytes);
    state_.table.pool_bytes = bytes;
  }

  Result<std::unique_ptr<Session>> session() override {
    return std::unique_ptr<Session>(new SessionOn<Machine, Ops>(state_));
  }
  UnitMover& units() override { return units_; }
  Result<gphash::Mirror> mirror() override { return state_.mirror_of_host(); }

  Result<exec::Counts> copy_entries(std::span<std::uint64_t const> segments,
                                    wal::EntryRegion region) override {
    if constexpr (Ops::kLogged) return entries_.copy(segments, region);
    return Status{Code::unsupported, "this layout has no log of entries"};
  }

  Result<MarkedRecords> mark_records(pm::RecordHeap::Lease& maps) override {
    if constexpr (Ops::kLogged) return entries_.mark(maps);
    return Status{Code::unsupported, "this layout marks records on the host"};
  }

  RecordLease* lease() override {
    return Ops::kMirrored || Machine::kPoolIsFar ? &lease_ : nullptr;
  }
  CacheLoader& cache() override { return cache_; }

  Result<std::unique_ptr<DeviceRun>> device_run() override {
    if constexpr (Ops::kMirrored) {
      if (state_.mirror != nullptr)
        return std::unique_ptr<DeviceRun>(new DeviceRunOn<Machine, Ops>(state_));
    }
    return Status{
        Code::unsupported,
        "device sessions need residency mirrored, and a memory_budget that has room for the slots"};
  }

  Status save(std::span<PoolCopy const> copies, CUstream_st* stream) override {
    return copy_each(copies, stream, [](Machine& machine, PoolCopy const& copy) {
      Status const sent = machine.download_bytes(copy.pool, copy.array, copy.bytes);
      pm::wrote(copy.pool, copy.bytes);
      return sent;
    });
  }

  Status load(std::span<PoolCopy const> copies, CUstream_st* stream) override {
    return copy_each(copies, stream, [](Machine& machine, PoolCopy const& copy) {
      pm::will_read(copy.pool, copy.bytes);
      return machine.send(copy.array, copy.pool, copy.bytes);
    });
  }

  EngineReport report() override {
    std::lock_guard const lock(state_.mutex);
    EngineReport report{state_.machines.describe(), state_.mirror_report,
                        std::exchange(state_.get_counts, {}), state_.gather.report()};
    for (GatherSize size : state_.gather_to_host.report()) {
      size.to_host = true;
      report.gathers.push_back(size);
    }
    Gather const gather = state_.options.gather;
    bool const by_host = gather == Gather::by_host || gather == Gather::shared;
    if (by_host && AddressesSorted::in(state_.table).shift > 0) {
      std::string& lacks = report.mirror.lacks;
      if (!lacks.empty()) lacks += "; ";
      lacks +=
          "gathering by the host, which pools above 64 GiB do not have: values are read in order "
          "instead";
    }
    return report;
  }

  [[nodiscard]] bool is_learning(std::uint64_t n) const override {
    auto const& tuner = Machine::kPoolIsFar ? state_.gather_to_host : state_.gather;
    return tuner.is_learning(state_.options.gather, n);
  }

 private:
  /// By the machine's own copying, so that arrays in its memory need no way round.
  template <class F>
  Status copy_each(std::span<PoolCopy const> copies, CUstream_st* stream, F one) {
    if constexpr (Machine::kPoolIsFar) {
      std::unique_ptr<Machine> machine;
      {
        std::lock_guard const lock(state_.mutex);
        machine = std::move(copier_);
      }
      if (machine == nullptr) machine = std::make_unique<Machine>(state_.machines);
      if (Status s = machine->begin(stream); !s.ok()) return s;
      for (PoolCopy const& copy : copies) {
        PERDURE_ASSERT(copy.bytes > 0 && copy.pool > state_.options.base);
        if (Status s = one(*machine, copy); !s.ok()) return s;
      }
      if (Status s = machine->wait(); !s.ok()) return s;
      std::lock_guard const lock(state_.mutex);
      copier_ = std::move(machine);
      return {};
    }
    return {Code::unsupported, "this machine has no memory of its own"};
  }

  EngineState<Machine> state_;
  UnitsOn<Machine, Ops> units_{state_};
  RecordLeaseOn<Machine> lease_{state_};
  EntriesOn<Machine, Ops> entries_{state_};
  CacheLoads cache_{state_};
  std::unique_ptr<Machine> copier_;  // that no copy_each() has now; the state's mutex guards it
};

}  // namespace perdure
