// Cells of the log of entries as the columns of a batch of writes, made by the machine that replays
// them. Invariant: what is there of a batch is made anew from the cells alone.
#pragma once

#include <cstddef>
#include <cstdint>

#include "store/gphash/engine/engine.hpp"
#include "store/gphash/engine/launcher.hpp"
#include "store/gphash/engine/write_buffers.hpp"
#include "store/gphash/kernels/batch_ops.hpp"
#include "store/gphash/kernels/entry_ops.hpp"

namespace perdure {

template <class Machine>
class ReplayedCellsOn {
 public:
  template <class T>
  using Buffer = typename Machine::template Buffer<T>;

  ReplayedCellsOn(EngineState<Machine>& state, Launcher<Machine>& launcher)
      : state_(&state), launcher_(&launcher) {}

  /// The batch's keys, kinds, statuses, and as `reserved` what the entries say.
  Status bring(CellsToReplay const& cells, WriteView& batch, WriteBuffers<Machine>& writes,
               Buffer<std::uint8_t>& status) {
    Machine& machine = launcher_->machine;
    std::uint32_t const width = state_->table.key_bytes;
    if (Status s = keys_.resize(batch.n * width); !s.ok()) return s;
    if (Status s = kinds_.resize(batch.n); !s.ok()) return s;
    if (Status s = status.resize(batch.n); !s.ok()) return s;
    if (Status s = writes.reserved.resize(batch.n); !s.ok()) return s;
    if (Status s = launcher_->send(writes.segments, cells.segments); !s.ok()) return s;
    if (Status s = launcher_->send(heads_, cells.heads); !s.ok()) return s;
    ReplayView view{cells.region,          batch.n,       width,
                    keys_.data(),          kinds_.data(), status.data(),
                    writes.reserved.data()};
    view.region.segments = writes.segments.data();
    ReplayCellsBody const body{view, state_->options.base};
    if (Status s = machine.threads(batch.n, body); !s.ok()) return s;
    batch.keys = {keys_.data(), nullptr, width};
    batch.values = {nullptr, nullptr, state_->table.value_bytes};
    batch.kinds = kinds_.data();
    batch.status = status.data();
    if (cells.heads.empty()) return {};
    return machine.threads(cells.heads.size(), SkipHeadsBody{view, heads_.data()});
  }

 private:
  EngineState<Machine>* state_;
  Launcher<Machine>* launcher_;
  Buffer<std::byte> keys_;
  Buffer<std::uint8_t> kinds_;
  Buffer<std::uint32_t> heads_;  // among the cells
};

}  // namespace perdure
