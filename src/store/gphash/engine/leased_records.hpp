// Records for a batch of writes, from the engine's lease: of the stash where the batch is small,
// else of the map of free ones (kernels/record_map.hpp). Invariant: what needs memory has it before
// any record is taken.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>

#include "base/assert.hpp"
#include "store/gphash/engine/launcher.hpp"
#include "store/gphash/engine/write_buffers.hpp"

namespace perdure {

template <class Machine>
class LeasedRecords {
 public:
  LeasedRecords(EngineState<Machine>& state, Launcher<Machine>& launcher,
                WriteBuffers<Machine>& writes, Lists<Machine>& lists)
      : state_(&state), launcher_(&launcher), writes_(&writes), lists_(&lists) {}

  /// Of a batch of so many operations, of which `records` may write one.
  Status make_room(std::uint64_t operations, std::uint64_t records) {
    PERDURE_ASSERT(state_->records.bits != nullptr && state_->records.words() > 0);
    operations_ = operations;
    records_ = records;
    stashed_ = operations <= RecordStash<Machine>::kLargestBatch && records > 0;
    std::uint64_t const most = std::max(state_->records.words(), operations) + 1;
    if (Status s = writes_->reserved.resize(operations); !s.ok()) return s;
    if (Status s = writes_->free.resize(most); !s.ok()) return s;
    return writes_->before.resize(most);
  }
  /// A stash has a record for each position, though not each may write: so nobody need count those
  /// that do.
  [[nodiscard]] bool any_fits() const { return stashed_ || records_ == operations_; }

  /// What it took, where no other batch writes: a stash is filled anew now and then.
  Status keep(WriteView& batch) {
    std::uint64_t* const mine = writes_->reserved.data();
    auto const* const taken = std::exchange(batch.reserved, mine);
    return taken == mine ? Status{} : launcher_->machine.copy(mine, taken, batch.n);
  }

  /// For the batch's `reserved`; false: so many are not free.
  Result<bool> take(WriteView& batch) {
    PERDURE_ASSERT(batch.n == operations_);
    if (stashed_) {
      auto const taken = state_->stash.take(launcher_->machine, state_->records,
                                            state_->free_records, pm::Memory(state_->options.base),
                                            batch.n, writes_->free, writes_->before);
      if (!taken) return taken.status();
      batch.reserved = taken.value();
      if (batch.reserved != nullptr) return true;
      stashed_ = false;  // so few are free: those that write
      batch.any_fits = any_fits();
    }
    return take_from_map(batch);
  }

 private:
  Result<bool> take_from_map(WriteView& batch) {
    batch.reserved = writes_->reserved.data();
    if (Status s = state_->make_free(launcher_->machine, records_); !s.ok()) return s;
    if (records_ > 0) {
      auto& into = batch.any_fits ? writes_->reserved : lists_->spare;
      auto const taken = take_records(launcher_->machine, state_->records, state_->free_records,
                                      records_, writes_->free, writes_->before, into);
      if (!taken || !taken.value()) return taken;
    }
    if (batch.any_fits) return true;
    if (Status s = deal(batch); !s.ok()) return s;
    return true;
  }

  /// To the operations that may write; the others get none.
  Status deal(WriteView const& batch) {
    Machine& machine = launcher_->machine;
    if (records_ == 0) return machine.fill(batch.reserved, 0, batch.n);
    PERDURE_ASSERT(batch.kinds != nullptr);  // else any fits, or there are none
    FlagWritersBody const flag{batch.kinds, batch.n, writes_->free.data()};
    if (Status s = machine.threads(batch.n + 1, flag); !s.ok()) return s;
    if (Status s = machine.sums_before(writes_->free.data(), writes_->before.data(), batch.n + 1);
        !s.ok())
      return s;
    return machine.threads(
        batch.n, DealRecordsBody{writes_->before.data(), lists_->spare.data(), batch.reserved});
  }

  EngineState<Machine>* state_;
  Launcher<Machine>* launcher_;
  WriteBuffers<Machine>* writes_;
  Lists<Machine>* lists_;
  std::uint64_t operations_ = 0, records_ = 0;
  bool stashed_ = false;
};

}  // namespace perdure
