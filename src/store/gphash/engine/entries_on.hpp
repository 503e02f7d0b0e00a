// Over a machine's whole table: writes the log's entries anew from it, and marks the records that
// its words lead to (kernels/entry_ops.hpp). Invariant: no session is running; the region has room
// for an entry a key.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <utility>

#include "store/gphash/engine/launcher.hpp"
#include "store/gphash/kernels/entry_ops.hpp"

namespace perdure {

template <class Machine, class Ops>
class EntriesOn {
 public:
  explicit EntriesOn(EngineState<Machine>& state) : state_(&state), launcher_(state) {}

  Result<exec::Counts> copy(std::span<std::uint64_t const> segments, wal::EntryRegion region) {
    PERDURE_ASSERT(!segments.empty() && state_->table.mirror.identities != nullptr);
    if (Status s = launcher_.begin(nullptr); !s.ok()) return s;
    if (Status s = launcher_.send(segments_, segments); !s.ok()) return s;
    if (Status s = count_.resize(1); !s.ok()) return s;
    if (Status s = launcher_.machine.fill(count_.data(), 0, 1); !s.ok()) return s;
    region.segments = segments_.data();
    CopyEntriesBody<Ops> const body{state_->table, state_->mirror_slots, region, count_.data()};
    return launcher_.template counted<typename Machine::Warp>(body, items_of(state_->mirror_slots));
  }

  Result<MarkedRecords> mark(pm::RecordHeap::Lease& maps) {
    if (Status s = launcher_.begin(nullptr); !s.ok()) return s;
    typename Machine::template Buffer<std::uint32_t> bits;  // for this once
    typename Machine::template Buffer<std::uint8_t> leased;
    if (Status s = launcher_.send(bits, std::span(std::as_const(maps.bits))); !s.ok()) return s;
    if (Status s = launcher_.send(leased, std::span(std::as_const(maps.leased))); !s.ok()) return s;
    RecordMap const map{bits.data(),     leased.data(), maps.leased.size(), maps.shape, maps.stride,
                        maps.words_each, nullptr};
    MarkRecordsBody<Ops> const body{state_->table, state_->mirror_slots, map};
    auto const counts =
        launcher_.template counted<typename Machine::Warp>(body, items_of(state_->mirror_slots));
    if (!counts) return counts.status();
    auto const marked = launcher_.machine.fetch(bits, maps.bits.size());
    if (!marked) return marked.status();
    std::ranges::copy(marked.value(), maps.bits.begin());
    exec::Counts const& n = counts.value();
    return MarkedRecords{n[BatchCounts::used], n[BatchCounts::left], n[BatchCounts::corrupt],
                         n[BatchCounts::entry_sum]};
  }

 private:
  EngineState<Machine>* state_;
  Launcher<Machine> launcher_;
  typename Machine::template Buffer<std::uint64_t> segments_, count_;
};

}  // namespace perdure
