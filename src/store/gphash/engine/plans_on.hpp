// Phase one of a write batch on a machine: what plans its groups, in which launches, and where the
// values of its gets come from. Invariant: once plan() and, where lanes may have left some,
// plan_left() have been called, each group is planned, answered or pending.
#pragma once

#include <cstdint>

#include "base/assert.hpp"
#include "store/gphash/engine/get_on.hpp"
#include "store/gphash/engine/launcher.hpp"
#include "store/gphash/engine/write_buffers.hpp"
#include "store/gphash/kernels/batch_ops.hpp"
#include "store/gphash/kernels/hash_replay_ops.hpp"
#include "store/gphash/kernels/lane_per_key_plan.hpp"

namespace perdure {

template <class Machine, class Ops>
class PlansOn {
  using Warp = typename Machine::Warp;
  static constexpr bool kByLanes = Ops::kMirrored && !Ops::kHashed;

 public:
  PlansOn(EngineState<Machine>& state, Launcher<Machine>& launcher, WriteView& batch,
          WriteBuffers<Machine>& writes, Lists<Machine>& lists, GetOn<Machine, Ops>& gets)
      : state_(&state),
        launcher_(launcher),
        batch_(batch),
        writes_(writes),
        lists_(lists),
        gets_(gets) {}

  /// Memory for planning, of a batch with gets or without.
  Status make_room(bool gets) {
    planned_ = {};
    if constexpr (Ops::kMirrored) {
      if (Status s = lists_.entries.resize(batch_.n); !s.ok()) return s;
    }
    if (!kByLanes || !gets) return {};
    if (Status s = lists_.resize_for_gets(batch_.n); !s.ok()) return s;
    if (Status s = launcher_.machine.need_room_to_sort_words(batch_.n); !s.ok()) return s;
    if (Status s = launcher_.machine.need_beside(); !s.ok()) return s;
    planned_ = {lists_.gets.data(), nullptr, lists_.values.data(), gets_.shift()};
    planned_.fresh = lists_.gets.data() + batch_.n;
    return {};
  }
  /// Gets whose values lanes have planned, by position: see Deferred.
  [[nodiscard]] Deferred const& gets() const { return planned_; }
  /// Positions that lanes have left to whole warps, in this pass.
  [[nodiscard]] std::uint64_t* left() { return lists_.entries.data(); }
  [[nodiscard]] std::uint64_t* left_count() { return writes_.counters.data(); }

  /// Whether lanes plan, a key each.
  [[nodiscard]] bool by_lanes() const {
    // they write records of one size alone
    bool const alike = state_->table.value_bytes != 0 || batch_.replays;
    return kByLanes && state_->table.mirror.identities != nullptr && alike;
  }

  /// With `ahead`, it is not known yet whether lanes have left some: plan_left() comes once that
  /// is.
  Status plan(bool ahead) {
    if constexpr (Ops::kHashed) {
      PlanPairsBody<Ops> const pairs{batch_, state_->table};
      if (batch_.replays) return with_pieces(launcher_.template count<Warp>(pairs, batch_.n));
    }
    if constexpr (kByLanes) {
      if (by_lanes()) return plan_lane_per_key(ahead);
    }
    if (Status s = sum_pieces(); !s.ok()) return s;
    return with_pieces(
        launcher_.template count<Warp>(PlanBody<Ops>{batch_, state_->table}, batch_.n));
  }

  /// What lanes have left: so many positions.
  Status plan_left(std::uint64_t items) {
    PERDURE_ASSERT(items <= batch_.n && by_lanes());
    if (items == 0) return gather_gets();
    if (Status s = sum_pieces(); !s.ok()) return s;
    PlanBody<Ops> const rest{batch_, state_->table, left(), left_count()};
    if (Status s = launcher_.template count<Warp>(rest, items); !s.ok()) return s;
    return with_pieces(gather_gets());  // now: PlanBody would want the link, too
  }

 private:
  Status plan_lane_per_key(bool ahead) {
    if (planned_.entries != nullptr) {
      if (Status s = launcher_.machine.fill(planned_.entries, 0xff, 2 * batch_.n); !s.ok())
        return s;
    }
    LanePerKeyPlanBody<Ops> const body{batch_, state_->table, left(), left_count(), planned_};
    if (Status s = launcher_.template count<Warp>(body, items_of(batch_.n)); !s.ok()) return s;
    PERDURE_ASSERT(!ahead || planned_.entries == nullptr);
    if (ahead) return {};
    if (Status s = sort_gets(); !s.ok()) return s;
    auto const items = items_listed(0);
    return items ? plan_left(items.value()) : items.status();
  }

  /// Of this pass, for groups that have long runs.
  Status sum_pieces() {
    if (batch_.sums == nullptr || batch_.rmw != Rmw::replace) return {};
    SumPiecesBody const body{batch_};
    return launcher_.template run<Warp>(body, body.items());
  }

  /// Answers the pieces of long runs, which whole warps have listed.
  Status with_pieces(Status const& planned) {
    if (!planned.ok() || batch_.pieces == nullptr) return planned;
    auto const items = items_listed(1);
    if (!items) return items.status();
    PERDURE_ASSERT(items.value() <= most_pieces(batch_.n));
    if (items.value() == 0) return {};
    return launcher_.template count<Warp>(AnswerPiecesBody{batch_, state_->table.value_bytes},
                                          items.value());
  }

  /// How many items a list has that a launch before made. To wait for that costs less than launches
  /// with nothing to do, which large batches of puts would have.
  Result<std::uint64_t> items_listed(std::size_t which) {
    auto const counted = launcher_.machine.fetch(writes_.counters, 2);
    if (!counted) return counted.status();
    return counted.value()[which];
  }

  /// The gets that lanes have planned, beside what else phase one does; and their values, beside
  /// phase two: records stay where they are until the pass has ended.
  Status sort_gets() {
    if (planned_.entries == nullptr) return {};
    return launcher_.machine.beside([this]() -> Status {
      auto const sorted = gets_.sort_planned(batch_, planned_, lists_.spare.data());
      if (sorted) sorted_gets_ = sorted.value();
      return sorted.status();
    });
  }
  Status gather_gets() {
    if constexpr (kByLanes) {
      if (planned_.entries == nullptr) return {};
      return launcher_.machine.beside(
          [this] { return gets_.gather_planned(batch_, planned_, sorted_gets_); });
    }
    return {};
  }

  EngineState<Machine>* state_;
  Launcher<Machine>& launcher_;
  WriteView& batch_;
  WriteBuffers<Machine>& writes_;
  Lists<Machine>& lists_;
  GetOn<Machine, Ops>& gets_;
  Deferred planned_;
  std::uint64_t* sorted_gets_ = nullptr;  // its entries
};

}  // namespace perdure
