// Cells of the log of entries as the columns of a batch of writes, made by the machine that replays
// them: an operation a cell, or, of entries that have hashes, two. Invariant: what is there of a
// batch is made anew from the cells alone.
#pragma once

#include <cstddef>
#include <cstdint>

#include "store/gphash/engine/engine.hpp"
#include "store/gphash/engine/launcher.hpp"
#include "store/gphash/engine/write_buffers.hpp"
#include "store/gphash/kernels/batch_ops.hpp"
#include "store/gphash/kernels/entry_ops.hpp"
#include "store/gphash/kernels/hash_replay_ops.hpp"

namespace perdure {

template <class Machine, class Ops>
class ReplayedCellsOn {
 public:
  template <class T>
  using Buffer = typename Machine::template Buffer<T>;

  ReplayedCellsOn(EngineState<Machine>& state, Launcher<Machine>& launcher)
      : state_(&state), launcher_(&launcher) {}

  /// The batch's keys, kinds, statuses, and as `reserved` what the entries say.
  Status bring(CellsToReplay const& cells, WriteView& batch, WriteBuffers<Machine>& writes,
               Buffer<std::uint8_t>& status) {
    batch.n = cells.count * (Ops::kHashed ? 2 : 1);
    if (Status s = keys_.resize(batch.n * key_bytes()); !s.ok()) return s;
    if (Status s = kinds_.resize(batch.n); !s.ok()) return s;
    if (Status s = status.resize(batch.n); !s.ok()) return s;
    if (Status s = writes.reserved.resize(batch.n); !s.ok()) return s;
    if (Status s = writes.segments.send(*launcher_, cells.segments); !s.ok()) return s;
    if (Status s = launcher_->send(heads_, cells.heads); !s.ok()) return s;
    batch.keys = {keys_.data(), nullptr, key_bytes()};
    batch.values = {nullptr, nullptr, state_->table.value_bytes};
    batch.kinds = kinds_.data();
    batch.status = status.data();
    salt_ = cells.salt;
    wal::EntryRegion region = cells.region;
    region.segments = writes.segments.data();
    if constexpr (Ops::kHashed) return read_pairs(cells, region, writes, status);
    return read_keys(cells, region, writes, status);
  }

  /// Numbers for `order`, of any batch of writes.
  Status hash(WriteView const& batch) {
    if constexpr (Ops::kHashed) {
      if (batch.replays) return launcher_->machine.threads(batch.n, OrderPairsBody{batch, salt_});
    }
    return launcher_->machine.threads(batch.n, HashBody{batch});
  }

 private:
  [[nodiscard]] std::uint32_t key_bytes() const {
    return Ops::kHashed ? sizeof(HashedRecord) : state_->table.key_bytes;
  }

  Status read_keys(CellsToReplay const& cells, wal::EntryRegion const& region,
                   WriteBuffers<Machine>& writes, Buffer<std::uint8_t>& status) {
    Machine& machine = launcher_->machine;
    ReplayView const view{region,
                          cells.count,
                          key_bytes(),
                          keys_.data(),
                          kinds_.data(),
                          status.data(),
                          writes.reserved.data(),
                          cells.takes_out};
    if (Status s = machine.threads(cells.count, ReplayCellsBody{view, state_->options.base});
        !s.ok())
      return s;
    if (cells.heads.empty()) return {};
    return machine.threads(cells.heads.size(), SkipHeadsBody{view, heads_.data()});
  }

  Status read_pairs(CellsToReplay const& cells, wal::EntryRegion const& region,
                    WriteBuffers<Machine>& writes, Buffer<std::uint8_t>& status) {
    Machine& machine = launcher_->machine;
    auto* const pairs = reinterpret_cast<HashedRecord*>(keys_.data());
    ReplayPairsBody const body{region,        cells.count,   state_->options.base,  pairs,
                               kinds_.data(), status.data(), writes.reserved.data()};
    if (Status s = machine.threads(cells.count, body); !s.ok()) return s;
    if (cells.heads.empty()) return {};
    return machine.threads(cells.heads.size(), SkipHeadsOfPairsBody{body, heads_.data()});
  }

  EngineState<Machine>* state_;
  Launcher<Machine>* launcher_;
  Buffer<std::byte> keys_;
  Buffer<std::uint8_t> kinds_;
  Buffer<std::uint32_t> heads_;  // among the cells
  std::uint64_t salt_ = 0;
};

}  // namespace perdure
