// One batch on a machine, step by step, once for all machines: what is launched, over what. The
// store calls the steps in order (store/gphash/batch_writer.cpp, batch_reader.cpp).
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <type_traits>
#include <utility>

#include "base/assert.hpp"
#include "base/hooks.hpp"
#include "pm/host_verbs.hpp"
#include "store/gphash/engine/batch_entries_on.hpp"
#include "store/gphash/engine/chain_on.hpp"
#include "store/gphash/engine/engine.hpp"
#include "store/gphash/engine/get_on.hpp"
#include "store/gphash/engine/launcher.hpp"
#include "store/gphash/engine/leased_records.hpp"
#include "store/gphash/engine/replayed_cells_on.hpp"
#include "store/gphash/engine/write_buffers.hpp"
#include "store/gphash/kernels/batch_ops.hpp"
#include "store/gphash/kernels/lane_per_key_plan.hpp"
#include "store/gphash/kernels/mirror_ops.hpp"

namespace perdure {

template <class Machine, class Ops>
class SessionOn final : public Session {
  template <class T>
  using Buffer = typename Machine::template Buffer<T>;
  using Warp = typename Machine::Warp;
  using Solo = typename Machine::Solo;
  using PublishWarp = std::conditional_t<Ops::kPublishNeedsWarp, Warp, Solo>;
  static constexpr bool kChains =
      Machine::kChains && Ops::kMirrored && (Ops::kUndoable || Ops::kLogged) && !Ops::kHashed;

 public:
  explicit SessionOn(EngineState<Machine>& state)
      : state_(&state),
        launcher_(state),
        leased_(state, launcher_, writes_, lists_),
        gets_(state, launcher_, lists_),
        replayed_(state, launcher_) {}

  Status upload(Call const& call, std::span<std::uint8_t const> status) override {
    Machine& machine = launcher_.machine;
    PERDURE_ASSERT(status.empty() || status.size() == call.keys.count);
    step_ = Step::uploaded;
    ordered_ = statuses_here_ = sorted_ = false;
    chained_ = released_ = false;  // else finish() would not wait for a get
    call_ = call;
    gets_.begin();
    batch_ = {};
    batch_.n = call.keys.count;
    batch_.kind = call.kind;
    batch_.rmw = computes(call) ? call.rmw : Rmw::replace;
    batch_.element = call.element;
    batch_.verify = state_->options.verify_reads;
    if (Status s = launcher_.begin(call.stream); !s.ok()) return s;
    if (call.keep) {  // goes on beside the batch
      if (Status s = machine.stage(call.keys, 0); !s.ok()) return s;
      if (Status s = machine.stage(call.values, 1); !s.ok()) return s;
    }
    if (Status s = machine.upload(call.keys, batch_.keys, 0); !s.ok()) return s;
    if (Status s = machine.upload(call.values, batch_.values, 1); !s.ok()) return s;
    if (Status s = machine.map_output(call.out, batch_.out); !s.ok()) return s;
    return upload_statuses(status);
  }

  Status get() override {
    PERDURE_ASSERT(step_ == Step::uploaded && batch_.kinds == nullptr);
    bool const few = Machine::kPoolIsFar && batch_.all_pending && batch_.n <= kFewStatuses &&
                     call_.device_statuses == nullptr;
    if (few) batch_.status = status_.twin();  // which the host reads without another copy
    if (Status s = gets_.copy(batch_, call_.out); !s.ok()) return s;
    statuses_here_ = few;
    if (few) {
      if (Status s = launcher_.machine.wait(); !s.ok()) return s;
    }
    if (Status s = gets_.mark_corrupt(status_, few); !s.ok()) return s;
    if (call_.device_statuses == nullptr) return {};
    return launcher_.machine.copy(reinterpret_cast<std::uint8_t*>(call_.device_statuses),
                                  status_.data(), batch_.n);
  }

  Result<VariableValues> get_variable() override {
    PERDURE_ASSERT(step_ == Step::uploaded && batch_.kind == OpKind::get);
    return gets_.variable(batch_);
  }

  /// What needs memory comes first: once records are taken, nothing is left that could fail but the
  /// device.
  Result<bool> prepare(Reservation const& reservation) override {
    // Once more where too few records were free; but not once anything has been planned.
    PERDURE_ASSERT(step_ == Step::uploaded || (step_ == Step::prepared && batch_.pass == 0));
    PERDURE_ASSERT(reservation.from_lease ? reservation.leased <= batch_.n
                                          : reservation.records.size() == batch_.n);
    PERDURE_ASSERT(reservation.sequence > 0);
    batch_.sequence = reservation.sequence;
    from_lease_ = reservation.from_lease;
    kept_ = reservation.kept;
    PERDURE_ASSERT(reservation.segments.empty() || Ops::kLogged);
    if (Status s = show_entries(launcher_, writes_, reservation, batch_); !s.ok()) return s;
    Status const room = from_lease_ ? leased_.make_room(batch_.n, reservation.leased)
                                    : launcher_.send(writes_.reserved, reservation.records);
    if (!room.ok()) return room;
    if (!from_lease_ || reservation.told) {
      if (Status s = writes_.need_twins(batch_.n); !s.ok()) return s;
    }
    batch_.any_fits = from_lease_ ? leased_.any_fits() : reservation.any_fits;
    if (Status s = group_by_key(); !s.ok()) return s;
    if (Status s = send_kinds(); !s.ok()) return s;
    step_ = Step::prepared;
    return from_lease_ ? leased_.take(batch_) : Result<bool>(true);
  }

  Status replay(CellsToReplay const& cells) override {
    if constexpr (Ops::kLogged) {
      PERDURE_ASSERT(cells.count > 0 && !cells.segments.empty());
      if (Status s = launcher_.begin(nullptr); !s.ok()) return s;
      call_ = {};
      batch_ = {};
      batch_.kind = OpKind::put;
      batch_.sequence = 1;
      batch_.replays = true;
      ordered_ = statuses_here_ = sorted_ = from_lease_ = false;
      if (Status s = replayed_.bring(cells, batch_, writes_, status_); !s.ok()) return s;
      step_ = Step::prepared;
      return group_by_key();
    }
    return {Code::unsupported, "this layout has no log of entries"};
  }

  Status plan(bool displace) override {
    PERDURE_ASSERT(step_ == Step::prepared ||
                   (step_ == Step::published &&
                    (ordered_ || Ops::kLogged || mutated("no_order_after_publish"))));
    PERDURE_ASSERT(batch_.pass + 1 < BatchView::kExcluded);  // passes are told from it
    step_ = Step::planned;
    ordered_ = false;
    state_->words_changed = true;
    ++batch_.pass;
    undo_ = {};
    batch_.displacement = displace && state_->options.displacement;
    statuses_here_ = false;
    chained_ = chained_ && state_->table.mirror.identities != nullptr;  // a growth may drop them
    if (chained_) return {};  // see pass_counts()
    if (Status s = launcher_.begin_counts(); !s.ok()) return s;
    if (Status s = launcher_.machine.fill(writes_.counters.data(), 0, 2); !s.ok()) return s;
    nothing_left_ = false;
    Status const planned = plan_groups();
    return planned.ok() && batch_.pieces != nullptr ? answer_pieces() : planned;
  }

  Status log_undo(wal::UndoRegion const& region) override {
    PERDURE_ASSERT(step_ == Step::planned && !ordered_ && !batch_.displacement);
    if (chained_) {
      undo_ = region;
      return {};
    }
    if constexpr (Ops::kUndoable) {
      // later passes have few changes
      UndoBody<Ops> const body{batch_, region, Machine::kPoolIsFar && batch_.pass == 1};
      return launcher_.template count<PublishWarp>(body, batch_.n);
    } else {
      return Status{Code::unsupported, "this layout cannot undo a batch"};
    }
  }

  Status order_steps() override {
    PERDURE_ASSERT(step_ == Step::planned);
    ordered_ = true;
    return chained_ ? Status{} : launcher_.machine.order_launches();
  }

  Status publish() override {
    PERDURE_ASSERT(step_ == Step::planned &&
                   (ordered_ || Ops::kLogged || mutated("no_order_after_plan")));
    step_ = Step::published;
    ordered_ = false;
    if (chained_) return {};
    if (std::uint64_t const items = changes_to_follow()) {
      FollowChangesBody<Ops> const follow{batch_, state_->table};
      if (Status s = launcher_.template run<Warp>(follow, items); !s.ok()) return s;
    }
    if (Status s = log_entries_apart<Ops>(launcher_, batch_, state_->table); !s.ok()) return s;
    PublishBody<Ops> const body = phase_two<Machine, Ops>(batch_, state_->table);
    if (Status s = launcher_.template count<PublishWarp>(body, batch_.n); !s.ok()) return s;
    return mutated("planned_gets_follow_publish") ? gather_planned() : Status{};
  }

  Result<exec::Counts> pass_counts(bool statuses) override {
    PERDURE_ASSERT(step_ == Step::published);
    if constexpr (kChains) {
      if (chained_) return run_chain();
    }
    if (statuses) {
      if (Status s = launcher_.machine.begin_fetch(status_, batch_.n); !s.ok()) return s;
    }
    statuses_here_ = statuses;
    return launcher_.counts();
  }

  Status order() override {
    PERDURE_ASSERT(step_ == Step::planned || step_ == Step::published);
    ordered_ = true;
    if constexpr (Machine::kPoolIsFar && Ops::kLogged)
      pm::order();  // an extent's head is the host's
    if (chained_ && !fault::kTraps) return {};  // as the launch's end did, and it was waited for
    return launcher_.machine.order();
  }

  Status release_records() override {
    PERDURE_ASSERT(step_ == Step::published && (ordered_ || mutated("no_order_after_publish") ||
                                                mutated("no_order_after_extent")));
    PERDURE_ASSERT(state_->records.bits != nullptr);  // the lease has not ended
    if (released_) return {};
    return launcher_.template run<Solo>(
        GiveBackBody{state_->records, batch_.reserved, batch_.unlinked, batch_.used}, batch_.n);
  }

  Status keep_records() override {
    PERDURE_ASSERT(step_ == Step::published && from_lease_ && !released_);
    if (Status s = download_values(); !s.ok()) return s;
    Status const kept = mutated("stash_not_copied") ? Status{} : leased_.keep(batch_);
    if (!kept.ok()) return kept;
    call_ = {};
    if (Status s = launcher_.machine.wait(); !s.ok()) return s;
    gets_.ended();
    return {};
  }

  Result<Downloaded> download(Download what) override {
    PERDURE_ASSERT(step_ != Step::none && (what != Download::columns || call_.keep));
    PERDURE_ASSERT(what == Download::statuses || what == Download::columns ||
                   step_ == Step::published);
    Downloaded result;
    Status const done = [&]() -> Status {
      switch (what) {
        case Download::statuses:
          if (!statuses_here_) return fetch(status_, result.statuses);
          result.statuses = {status_.twin(), batch_.n};
          return {};
        case Download::reserved:
          if (from_lease_) {
            if (Status s = leased_.keep(batch_); !s.ok()) return s;
          }
          return fetch(writes_.reserved, result.reserved);
        case Download::columns: return fetch_columns(result.columns);
        case Download::outcome: break;
      }
      Status const fetched = fetch(writes_.used, result.used);
      return fetched.ok() ? fetch(writes_.unlinked, result.unlinked) : fetched;
    }();
    if (!done.ok()) return done;
    return result;
  }

  Status finish() override {
    PERDURE_ASSERT(step_ == Step::uploaded || step_ == Step::published);
    step_ = Step::none;
    // A chain has been waited for.
    bool const quiet = chained_ && released_ && !Machine::must_be_downloaded(call_.out);
    if (!quiet) {
      if (Status s = download_values(); !s.ok()) return s;
      if (Status s = launcher_.machine.wait(); !s.ok()) return s;
    }
    gets_.ended();
    return {};
  }

 private:
  template <class T>
  Status fetch(Buffer<T>& from, std::span<T const>& to) {
    auto const fetched = launcher_.machine.fetch(from, batch_.n);
    if (!fetched) return fetched.status();
    PERDURE_ASSERT(fetched.value().size() == batch_.n);
    to = fetched.value();
    return {};
  }

  Status download_values() {
    if (!Machine::must_be_downloaded(call_.out) || gets_.delivered_all()) return {};
    Machine& machine = launcher_.machine;
    auto const status = statuses_here_ ? std::span<std::uint8_t const>(status_.twin(), batch_.n)
                                       : machine.fetch(status_, batch_.n);
    if (!status) return status.status();
    return machine.download_output(call_.out, [&](std::size_t i) {
      OpKind const kind = call_.kinds.empty() ? call_.kind : call_.kinds[i];
      return kind == OpKind::get && status.value()[i] == code(KeyStatus::ok) && !gets_.delivered(i);
    });
  }

  Status fetch_columns(Call& call) {
    call = call_;
    Status const keys = launcher_.machine.staged(call.keys, 0);
    return keys.ok() ? launcher_.machine.staged(call.values, 1) : keys;
  }

  Status upload_statuses(std::span<std::uint8_t const> status) {
    batch_.all_pending = status.empty();
    if (!batch_.all_pending) {
      if (Status s = launcher_.send(status_, status); !s.ok()) return s;
    } else {
      if (Status s = status_.resize(batch_.n); !s.ok()) return s;
      if (Status s = status_.need_twin(batch_.n); !s.ok()) return s;
    }
    batch_.status = status_.data();
    return {};
  }

  /// While the machine sorts, which needs none.
  Status send_kinds() {
    if (call_.kinds.empty() || batch_.kinds != nullptr) return {};
    exec::ByteColumn kinds;
    Status const sent = launcher_.machine.upload(Column::of(call_.kinds), kinds, 2);
    batch_.kinds = reinterpret_cast<std::uint8_t const*>(kinds.data);
    return sent;
  }

  /// Sorts the operations by hash. All that planning and the end of the batch will need is there
  /// afterwards: in between, nothing may fail for want of memory.
  Status group_by_key() {
    Machine& machine = launcher_.machine;
    if (Status s = writes_.resize(batch_.n); !s.ok()) return s;
    if (Status s = status_.need_twin(batch_.n); !s.ok()) return s;
    if constexpr (Ops::kMirrored) {
      if (Status s = lists_.entries.resize(batch_.n); !s.ok()) return s;
      if (Status s = make_room_for_gets(); !s.ok()) return s;
    }
    writes_.show(batch_);
    grouped_ = released_ = false;
    if constexpr (kChains) {
      chained_ = batch_.n <= machine.most_chained() && state_->table.mirror.identities != nullptr &&
                 alike() && !batch_.replays;
    }
    if (chained_) return {};
    if (std::exchange(sorted_, true)) return {};  // it is prepared once more
    if (Status s = replayed_.hash(batch_); !s.ok()) return s;
    // Numbers of what is replayed share their upper halves (OrderPairsBody).
    return batch_.replays ? machine.sort(batch_.order, batch_.n)
                          : machine.sort_hashed(batch_.order, batch_.n);
  }

  Result<exec::Counts> run_chain() {
    Machine& machine = launcher_.machine;
    bool const undoable = undo_ || batch_.undoable;
    // Of several passes each counts for itself what an undoable batch is refused for.
    bool const releases =
        from_lease_ && !kept_ && state_->records.bits != nullptr && (!undoable || batch_.pass == 1);
    Chain const chain{std::exchange(grouped_, true) ? 0 : batch_.n,
                      lists_.entries.data(),
                      writes_.counters.data(),
                      planned_,
                      undo_.value_or(wal::UndoRegion{}),
                      undo_.has_value(),
                      changes_to_follow(),
                      releases,
                      undoable,
                      status_.twin()};
    if (Status s = launch_chain<Ops>(launcher_, *state_, batch_, chain); !s.ok()) return s;
    if (Status s = machine.wait(); !s.ok()) return s;
    statuses_here_ = true;
    exec::Counts const counts = *launcher_.counts_twin();
    released_ = releases && counts[BatchCounts::pending] == 0 &&
                (!undoable || counts[BatchCounts::corrupt] == 0);
    return counts;
  }

  /// Records that the batch may replace in the cache.
  [[nodiscard]] std::uint64_t changes_to_follow() const {
    bool const cached = Ops::kMirrored && state_->table.mirror.entries != nullptr;
    return cached && !batch_.replays ? items_of(batch_.n) : 0;
  }

  /// Gets of a mixed batch whose values lanes have planned, by position: see Deferred.
  Status make_room_for_gets() {
    planned_ = {};
    if (Ops::kHashed || !has(call_, OpKind::get)) return {};
    if (Status s = lists_.resize_for_gets(batch_.n); !s.ok()) return s;
    if (Status s = launcher_.machine.need_room_to_sort_words(batch_.n); !s.ok()) return s;
    planned_ = {lists_.gets.data(), nullptr, lists_.slots.data(), gets_.shift()};
    planned_.fresh = lists_.gets.data() + batch_.n;
    return {};
  }

  Status plan_groups() {
    if constexpr (Ops::kHashed) {
      PlanPairsBody<Ops> const pairs{batch_, state_->table};
      if (batch_.replays) return launcher_.template count<Warp>(pairs, batch_.n);
    } else if constexpr (Ops::kMirrored) {
      if (state_->table.mirror.identities != nullptr && alike()) return plan_lane_per_key();
    }
    if (Status s = sum_pieces(); !s.ok()) return s;
    return launcher_.template count<Warp>(PlanBody<Ops>{batch_, state_->table}, batch_.n);
  }

  /// Lanes write records of one size alone.
  [[nodiscard]] bool alike() const { return state_->table.value_bytes != 0 || batch_.replays; }

  /// Of this pass, for groups that have long runs.
  Status sum_pieces() {
    if (batch_.sums == nullptr || batch_.rmw != Rmw::replace) return {};
    SumPiecesBody const body{batch_};
    return launcher_.template run<Warp>(body, body.items());
  }

  Status plan_lane_per_key() {
    std::uint64_t* const left = lists_.entries.data();
    std::uint64_t* const count = writes_.counters.data();
    if (planned_.entries != nullptr) {
      if (Status s = launcher_.machine.fill(planned_.entries, 0xff, 2 * batch_.n); !s.ok())
        return s;
    }
    LanePerKeyPlanBody<Ops> const body{batch_, state_->table, left, count, planned_};
    if (Status s = launcher_.template count<Warp>(body, items_of(batch_.n)); !s.ok()) return s;
    auto const items = items_listed(0);
    if (!items) return items.status();
    PERDURE_ASSERT(items.value() <= batch_.n);
    nothing_left_ = items.value() == 0;
    if (nothing_left_) return gather_unless_late();
    if (Status s = sum_pieces(); !s.ok()) return s;
    PlanBody<Ops> const rest{batch_, state_->table, left, count};
    if (Status s = launcher_.template count<Warp>(rest, items.value()); !s.ok()) return s;
    return gather_unless_late();
  }

  Status gather_unless_late() {
    return mutated("planned_gets_follow_publish") ? Status{} : gather_planned();
  }

  /// Of long runs, which are among what lanes have left.
  Status answer_pieces() {
    if (nothing_left_) return {};
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

  /// The values of gets that lanes have planned: before phase two, for slots lead to them.
  Status gather_planned() {
    if constexpr (Ops::kMirrored && !Ops::kHashed) {
      if (planned_.entries == nullptr || state_->table.mirror.identities == nullptr) return {};
      return gets_.gather_planned(batch_, planned_, lists_.spare.data());
    }
    return {};
  }

  // a packet for 32 of them, across the link: fewer take less time than a copy's beginning
  static constexpr std::uint64_t kFewStatuses = std::uint64_t{1} << 16;

  enum class Step : std::uint8_t { none, uploaded, prepared, planned, published };
  EngineState<Machine>* state_;
  Launcher<Machine> launcher_;
  Step step_ = Step::none;  // the last that began, for assertions
  bool ordered_ = false;  // since then
  bool statuses_here_ = false;  // in their twin
  bool from_lease_ = false;
  bool kept_ = false;  // see Reservation
  bool chained_ = false;  // each pass is one launch: see run_chain()
  bool grouped_ = false;  // by its first pass
  bool sorted_ = false;
  bool nothing_left_ = false;  // by lanes, in this pass
  bool released_ = false;  // and so are its records, by its last
  std::optional<wal::UndoRegion> undo_;  // of a chained pass
  Call call_;
  WriteView batch_;
  Deferred planned_;
  Buffer<std::uint8_t> status_;
  WriteBuffers<Machine> writes_;
  Lists<Machine> lists_;
  LeasedRecords<Machine> leased_;
  GetOn<Machine, Ops> gets_;
  ReplayedCellsOn<Machine, Ops> replayed_;
};

}  // namespace perdure
