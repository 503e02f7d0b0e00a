// Values of a large batch of puts, written while its keys are sorted and planned. Values have the
// link to the pool to themselves for most of a batch's time, and where a record has a value alone
// (layout `log`), nothing of it depends on the key: so they go ahead, each into the record that was
// taken for its operation. Invariants: phase two, which makes the entries that lead to them,
// follows the launch (rejoin()), and the batch's ordering point both; a value that comes to
// nothing, for a later operation of the batch has its key, is in a record that the batch gives
// back.
#pragma once

#include <cstdint>

#include "store/gphash/engine/launcher.hpp"
#include "store/gphash/engine/write_buffers.hpp"
#include "store/gphash/kernels/lane_per_key_plan.hpp"

namespace perdure {

template <class Machine, class Ops>
class ValuesAhead {
#if defined(PERDURE_EXPLORE)
  static constexpr bool kCan = Ops::kLogged && !Ops::kHashed;
  static constexpr std::uint64_t kLeast = 1;
  static constexpr bool kAlways = true;
#else
  static constexpr bool kCan = Machine::kPoolIsFar && Ops::kLogged && !Ops::kHashed;
  static constexpr std::uint64_t kLeast = std::uint64_t{1} << 16;
  static constexpr bool kAlways = false;
#endif

 public:
  ValuesAhead(EngineState<Machine>& state, Launcher<Machine>& launcher,
              WriteBuffers<Machine>& writes)
      : state_(&state), launcher_(&launcher), writes_(&writes) {}

  /// Whether nearly all values will be used, as far as the last such batch says.
  [[nodiscard]] bool pays(WriteView const& batch) const {
    return writes_one_each(batch) && (kAlways || state_->keys_differ);
  }
  Status make_room(std::uint64_t operations) {
    if (Status s = writes_->value_sums.resize(operations); !s.ok()) return s;
    return launcher_->machine.need_room_to_sort(operations);
  }
  /// Its records have been taken. From here on each is an operation's.
  Status begin(WriteView& batch) {
    if constexpr (kCan) {
      batch.any_fits = false;
      ValuesAheadBody<Ops> const body{batch, state_->table, writes_->value_sums.data()};
      batch.value_sums = writes_->value_sums.data();
      return launcher_->machine.beside(
          [&] { return launcher_->template run<typename Machine::Warp>(body, items_of(batch.n)); });
    }
    return {};
  }
  void learn(WriteView const& batch, exec::Counts const& counts) {
    if (batch.pass != 1 || !writes_one_each(batch)) return;
    state_->keys_differ = counts[BatchCounts::used] >= batch.n - batch.n / 16;
  }

 private:
  [[nodiscard]] bool writes_one_each(WriteView const& batch) const {
    return kCan && batch.n >= kLeast && batch.kind == OpKind::put && batch.kinds == nullptr &&
           !batch.replays && batch.rmw == Rmw::replace && state_->table.records.bare();
  }

  EngineState<Machine>* state_;
  Launcher<Machine>* launcher_;
  WriteBuffers<Machine>* writes_;
};

}  // namespace perdure
