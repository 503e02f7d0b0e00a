// Writes the log's entries anew from a machine's table (kernels/entry_ops.hpp). Invariant: no
// session is running; the region has room for an entry a key.
#pragma once

#include <cstdint>
#include <span>

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

 private:
  EngineState<Machine>* state_;
  Launcher<Machine> launcher_;
  typename Machine::template Buffer<std::uint64_t> segments_, count_;
};

}  // namespace perdure
