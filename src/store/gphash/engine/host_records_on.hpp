// Records of puts whose keys and values lie in host memory, written by the host's threads before a
// device plans the batch: they write as fast as the link would carry the values to the device, from
// which these would have to cross it once more. Invariant: nothing leads to the records yet, so it
// does not matter which of them a batch comes to use.
#pragma once

#include <chrono>
#include <cstdint>
#include <utility>

#include "base/assert.hpp"
#include "store/gphash/engine/launcher.hpp"
#include "store/gphash/kernels/batch_ops.hpp"
#include "store/gphash/kernels/record_writes.hpp"

namespace perdure {

template <class Machine>
class HostRecordsOn {
 public:
  template <class T>
  using Buffer = typename Machine::template Buffer<T>;

  HostRecordsOn(EngineState<Machine>& state, Launcher<Machine>& launcher)
      : state_(&state), launcher_(&launcher) {}

  /// Chooses who writes the records of a batch that begins.
  void begin(Call const& call, bool mirrored) {
    began_ = Clock::now();
    trial_ = {};
    bool const either = mirrored && state_->options.record_writer != nullptr &&
                        state_->table.mirror.identities != nullptr && writes_values(call) &&
                        call.keys.space == MemorySpace::host &&
                        call.values.space == MemorySpace::host && call.keys.count >= kFewest;
    if (either) trial_ = state_->writers.next(call.keys.count);
    takes_ = either && trial_.way == RecordWriters::Way::host;
  }
  /// Whether the host does: then the device needs no values.
  [[nodiscard]] bool takes() const { return takes_; }

  /// All memory that will be needed, for where the records lie as well.
  Status make_room(std::uint64_t operations, Buffer<std::uint64_t>& reserved) {
    if (!takes_) return {};
    if (Status s = reserved.need_twin(operations); !s.ok()) return s;
    if (Status s = sums_.resize(operations); !s.ok()) return s;
    return sums_.need_twin(operations);
  }

  /// The record of each operation at reserved[i], which is in host memory.
  Status write(Call const& call, std::uint64_t const* reserved, WriteView& batch) {
    PERDURE_ASSERT(takes_ && call.keys.count == batch.n && batch.sequence > 0);
    gphash::TableView const& table = state_->table;
    RecordWrites writes;
    writes.keys = {call.keys.data, call.keys.offsets, call.keys.width};
    writes.values = {call.values.data, call.values.offsets, call.values.width};
    writes.reserved = reserved;
    writes.sums = sums_.twin();
    writes.n = batch.n;
    writes.header = {0, table.value_bytes, table.key_bytes, 0, batch.sequence};
    writes.shape = table.records;
    writes.reach = table.records.reach(table.max_record);
    if (Status s = state_->options.record_writer->write_records(writes); !s.ok()) return s;
    std::uint32_t const* const sums = sums_.twin();
    if (Status s = launcher_->machine.send(sums_.data(), sums, batch.n); !s.ok()) return s;
    batch.written_sums = sums_.data();
    batch.any_fits = false;  // each record is its operation's
    return {};
  }

  /// The batch that began has ended.
  void ended() {
    if (!trial_.timed) return;
    double const seconds = std::chrono::duration<double>(Clock::now() - began_).count();
    state_->writers.noted(std::exchange(trial_, {}), seconds);
  }

 private:
  using Clock = std::chrono::steady_clock;
  // fewer take less time than waking the host's threads
  static constexpr std::uint64_t kFewest = std::uint64_t{1} << 13;

  EngineState<Machine>* state_;
  Launcher<Machine>* launcher_;
  RecordWriters::Trial trial_;
  Clock::time_point began_;
  bool takes_ = false;
  Buffer<std::uint32_t> sums_;
};

}  // namespace perdure
