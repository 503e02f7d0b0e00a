// Moves the units of a growing table on a machine (kernels/rehash_ops.hpp). Invariants: rehash()
// deletes nothing and ends with an ordering point, so a crash before empty() is mended by copying
// again; no session is running.
#pragma once

#include <bit>
#include <span>
#include <vector>

#include "base/assert.hpp"
#include "base/hooks.hpp"
#include "store/gphash/engine/engine.hpp"
#include "store/gphash/engine/launcher.hpp"
#include "store/gphash/kernels/rehash_ops.hpp"

namespace perdure {

template <class Machine, class Ops>
class UnitsOn final : public UnitMover {
  using Warp = typename Machine::Warp;

 public:
  explicit UnitsOn(EngineState<Machine>& state) : state_(&state), launcher_(state) {}

  Result<exec::Counts> rehash(std::span<std::uint32_t const> units) override {
    auto slots = upload(units);
    if (!slots) return slots.status();
    state_->words_changed = true;
    PERDURE_ASSERT(state_->table.retiring == 1);
    if (mutated("rehash_skips_last_slot")) --slots->n;
    exec::Counts done;
    std::uint64_t items = slots->n;
    std::uint64_t const* left = nullptr;  // null: all slots
    if constexpr (Ops::kMirrored) {
      if (state_->table.mirror.identities != nullptr) {
        auto const known = rehash_known(*slots);
        if (!known) return known;
        done = known.value();
        PERDURE_ASSERT(known.value()[BatchCounts::left] <= slots->n);
        items = mutated("rehash_forgets_left") ? 0 : done[BatchCounts::left];
        left = left_.data();
      }
    }
    auto copied =
        launcher_.template counted<Warp>(RehashBody<Ops>{state_->table, *slots, left}, items);
    if (!copied) return copied;
    done += copied.value();
    if (Status s = state_->unclaim(launcher_.machine, units); !s.ok()) return s;
    if (Ops::kLogged || mutated("unit_emptied_before_order")) return done;
    if (Status s = launcher_.machine.order(); !s.ok()) return s;
    ++done[exec::Counts::orders];
    return done;
  }

  Result<exec::Counts> empty(std::span<std::uint32_t const> units) override {
    auto const slots = upload(units);
    if (!slots) return slots.status();
    state_->words_changed = true;
    return launcher_.template counted<Warp>(EmptyUnitsBody<Ops>{state_->table, slots.value()},
                                            items_of(slots.value().n));
  }

  Status clear_copies(std::span<std::uint32_t const> units) override {
    if constexpr (Ops::kLogged) {
      auto const slots = upload(units);
      if (!slots) return slots.status();
      state_->words_changed = true;
      ClearCopiesBody<Ops> const body{state_->table, slots.value()};
      if (Status s = launcher_.template run<typename Machine::Solo>(body, slots.value().n); !s.ok())
        return s;
      return launcher_.machine.wait();
    } else {
      return {Code::unsupported, "the copies of this layout are the host's to clear"};
    }
  }

  Status set_moved(std::span<std::uint32_t const> bits) override {
    Machine& machine = launcher_.machine;
    if (Status s = machine.begin(nullptr); !s.ok()) return s;
    return mutated("unit_not_noted") ? Status{} : state_->set_moved(machine, bits);
  }

  Result<std::vector<std::uint32_t>> take_refused() override {
    Machine& machine = launcher_.machine;
    if (Status s = machine.begin(nullptr); !s.ok()) return s;
    std::uint64_t const words = (state_->unit_count() + 31) / 32;
    auto bits = machine.fetch(state_->refused, words);
    if (!bits) return bits.status();
    PERDURE_ASSERT(bits->size() == words);
    std::vector<std::uint32_t> units;
    for (std::uint32_t unit = 0; unit < state_->unit_count(); ++unit)
      if (((*bits)[unit / 32] >> unit % 32 & 1) != 0) units.push_back(unit);
    if (Status s = machine.fill(state_->refused.data(), 0, words); !s.ok()) return s;
    if (Status s = machine.wait(); !s.ok()) return s;
    return units;
  }

 private:
  Result<UnitSlots> upload(std::span<std::uint32_t const> units) {
    gphash::TableView const& table = state_->table;
    if (Status s = launcher_.begin(nullptr); !s.ok()) return s;
    if (Status s = launcher_.send(units_, units); !s.ok()) return s;
    std::uint64_t const each =
        (std::uint64_t{table.slots} << table.retiring_level().log2_buckets) >> table.unit_bits;
    PERDURE_ASSERT(std::has_single_bit(each) && !units.empty());
    return UnitSlots{units_.data(), static_cast<std::uint32_t>(std::countr_zero(each)),
                     units.size() * each};
  }

  /// Those that the mirror knows; what is left is listed.
  Result<exec::Counts> rehash_known(UnitSlots const& slots) {
    PERDURE_ASSERT(Ops::kHashed || state_->table.key_bytes != 0);
    PERDURE_ASSERT(state_->table.mirror.identity_bytes > 0);
    if (Status s = left_.resize(slots.n); !s.ok()) return s;
    if (Status s = left_count_.resize(1); !s.ok()) return s;
    if (Status s = launcher_.machine.fill(left_count_.data(), 0, 1); !s.ok()) return s;
    LanePerSlotRehashBody<Ops> const body{state_->table, slots, left_.data(), left_count_.data()};
    return launcher_.template counted<Warp>(body, items_of(slots.n));
  }

  EngineState<Machine>* state_;
  Launcher<Machine> launcher_;
  typename Machine::template Buffer<std::uint32_t> units_;
  typename Machine::template Buffer<std::uint64_t> left_, left_count_;
};

}  // namespace perdure
