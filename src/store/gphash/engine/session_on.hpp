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
#include "store/gphash/engine/plans_on.hpp"
#include "store/gphash/engine/replayed_cells_on.hpp"
#include "store/gphash/engine/statuses_on.hpp"
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
        statuses_(launcher_),
        leased_(state, launcher_, writes_, lists_),
        gets_(state, launcher_, lists_),
        plans_(state, launcher_, batch_, writes_, lists_, gets_),
        replayed_(state, launcher_) {}

  Status upload(Call const& call, std::span<std::uint8_t const> status) override {
    Machine& machine = launcher_.machine;
    PERDURE_ASSERT(status.empty() || status.size() == call.keys.count);
    step_ = Step::uploaded;
    ordered_ = sorted_ = false;
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
    return statuses_.bring(batch_, status);
  }

  Status get() override {
    PERDURE_ASSERT(step_ == Step::uploaded && batch_.kinds == nullptr);
    bool const few = Machine::kPoolIsFar && batch_.all_pending && batch_.n <= kFewStatuses &&
                     call_.device_statuses == nullptr;
    if (few)
      batch_.status = statuses_.buffer().twin();  // which the host reads without another copy
    if (Status s = gets_.copy(batch_, call_.out); !s.ok()) return s;
    if (few) {
      statuses_.told();
      if (Status s = launcher_.machine.wait(); !s.ok()) return s;
    }
    if (Status s = gets_.mark_corrupt(statuses_.buffer(), few); !s.ok()) return s;
    if (call_.device_statuses == nullptr) return {};
    return launcher_.machine.copy(reinterpret_cast<std::uint8_t*>(call_.device_statuses),
                                  statuses_.buffer().data(), batch_.n);
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
      ordered_ = sorted_ = from_lease_ = false;
      statuses_.change();
      if (Status s = replayed_.bring(cells, batch_, writes_, statuses_.buffer()); !s.ok()) return s;
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
    statuses_.change();
    chained_ = chained_ && state_->table.mirror.identities != nullptr;  // a growth may drop them
    if (chained_) return {};  // see pass_counts()
    if (Status s = launcher_.begin_counts(); !s.ok()) return s;
    if (Status s = launcher_.machine.fill(writes_.counters.data(), 0, 2); !s.ok()) return s;
    ahead_ = may_go_ahead();
    return plans_.plan(ahead_);
  }

  Status log_undo(wal::UndoRegion const& region) override {
    PERDURE_ASSERT(step_ == Step::planned && !ordered_ && !batch_.displacement);
    undo_ = region;
    if (chained_) return {};
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

  Status publish(bool statuses) override {
    PERDURE_ASSERT(step_ == Step::planned &&
                   (ordered_ || Ops::kLogged || mutated("no_order_after_plan")));
    step_ = Step::published;
    ordered_ = false;
    if (chained_) return {};
    bool const early = statuses && !Ops::kPublishNeedsWarp;  // else phase two decides some
    if (early && ahead_) {
      if (Status s = launcher_.machine.begin_fetch(writes_.counters, 1); !s.ok()) return s;
    }
    if (Status s = early ? statuses_.begin_early(batch_.n) : Status{}; !s.ok()) return s;
    if (Status s = publish_changes(); !s.ok()) return s;
    if (Status s = mutated("gets_outlive_batch") ? Status{} : launcher_.machine.rejoin(); !s.ok())
      return s;
    if (Status s = statuses && !early ? statuses_.begin_fetch(batch_.n) : Status{}; !s.ok())
      return s;
    return releases() ? give_back_when_done() : Status{};
  }

  Result<std::span<std::uint8_t const>> early_statuses() override {
    PERDURE_ASSERT(step_ == Step::published);
    auto const early = statuses_.wait_early(batch_.n);
    // What lanes have left comes first, and may change some.
    bool const left = early && statuses_.early() && ahead_ && *writes_.counters.twin() != 0;
    return left ? std::span<std::uint8_t const>() : early;
  }
  [[nodiscard]] bool early_statuses_stand() const override { return statuses_.early(); }

  Result<exec::Counts> pass_counts() override {
    PERDURE_ASSERT(step_ == Step::published);
    if constexpr (kChains) {
      if (chained_) return run_chain();
    }
    auto counts = launcher_.counts();
    if (!counts) return counts;
    if (std::uint64_t const items = ahead_ ? (*counts)[BatchCounts::left] : 0)
      return publish_left(items);
    released_ = released(*counts);
    // Perhaps of values that were gathered meanwhile.
    if (statuses_.early() && (*counts)[BatchCounts::corrupt] != 0) statuses_.change();
    return counts;
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
        case Download::statuses: {
          auto const fetched = statuses_.fetch(batch_.n);
          if (fetched) result.statuses = fetched.value();
          return fetched.status();
        }
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
    // Its last pass has been waited for.
    bool const quiet = released_ && !Machine::must_be_downloaded(call_.out);
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
    auto const status = statuses_.fetch(batch_.n);
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
    if (Status s = statuses_.buffer().need_twin(batch_.n); !s.ok()) return s;
    if (Status s = plans_.make_room(has(call_, OpKind::get)); !s.ok()) return s;
    writes_.show(batch_);
    grouped_ = released_ = false;
    if constexpr (kChains) {
      chained_ = batch_.n <= machine.most_chained() && plans_.by_lanes() && !batch_.replays;
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
    Chain const chain{std::exchange(grouped_, true) ? 0 : batch_.n,
                      plans_.left(),
                      writes_.counters.data(),
                      plans_.gets(),
                      undo_.value_or(wal::UndoRegion{}),
                      undo_.has_value(),
                      changes_to_follow(),
                      releases(),
                      undo_ || batch_.undoable,
                      statuses_.buffer().twin()};
    if (Status s = launch_chain<Ops>(launcher_, *state_, batch_, chain); !s.ok()) return s;
    if (Status s = machine.wait(); !s.ok()) return s;
    statuses_.told();
    exec::Counts const counts = *launcher_.counts_twin();
    released_ = released(counts);
    return counts;
  }

  /// Records that the batch may replace in the cache.
  [[nodiscard]] std::uint64_t changes_to_follow() const {
    bool const cached = Ops::kMirrored && state_->table.mirror.entries != nullptr;
    return cached && !batch_.replays ? items_of(batch_.n) : 0;
  }

  /// Whether phase two may be launched before it is known that lanes have left nothing; it does
  /// nothing where they have.
  [[nodiscard]] bool may_go_ahead() const {
    return Machine::kLaunchesAhead && Ops::kLogged && plans_.by_lanes() && !batch_.replays &&
           batch_.rmw == Rmw::replace && plans_.gets().entries == nullptr &&
           changes_to_follow() == 0 && !entries_apart<Machine, Ops>(batch_);
  }
  [[nodiscard]] std::uint64_t const* left_count() { return ahead_ ? plans_.left_count() : nullptr; }

  Status publish_changes() {
    if (std::uint64_t const items = changes_to_follow()) {
      FollowChangesBody<Ops> const follow{batch_, state_->table};
      if (Status s = launcher_.template run<Warp>(follow, items); !s.ok()) return s;
    }
    if (Status s = log_entries_apart<Ops>(launcher_, batch_, state_->table); !s.ok()) return s;
    PublishBody<Ops> body = phase_two<Machine, Ops>(batch_, state_->table);
    body.unless = left_count();
    return launcher_.template count<PublishWarp>(body, batch_.n);
  }

  /// What lanes have left, after all.
  Result<exec::Counts> publish_left(std::uint64_t items) {
    ahead_ = false;
    statuses_.change();
    if (Status s = mutated("left_positions_forgotten") ? Status{} : plans_.plan_left(items);
        !s.ok())
      return s;
    if (Status s = publish_changes(); !s.ok()) return s;
    return launcher_.counts();
  }

  /// Whether a pass gives the batch's records back at its end, if nothing of it is pending then.
  /// One that may be undone, in its first pass alone: of those that have found room nothing but a
  /// damaged record refuses any, for records of a lease have one size, and each pass counts those
  /// for itself.
  [[nodiscard]] bool releases() const {
    bool const undoable = undo_ || batch_.undoable;
    return Machine::kChains && from_lease_ && !kept_ && state_->records.bits != nullptr &&
           (!undoable || batch_.pass == 1);
  }
  [[nodiscard]] bool released(exec::Counts const& counts) const {
    bool const undoable = undo_ || batch_.undoable;
    return releases() && counts[BatchCounts::pending] == 0 &&
           (!undoable || counts[BatchCounts::corrupt] == 0);
  }
  Status give_back_when_done() {
    GiveBackWhenDoneBody const body{
        {state_->records, batch_.reserved, batch_.unlinked, batch_.used},
        launcher_.counts_here(),
        undo_ || batch_.undoable,
        true,
        left_count()};
    return launcher_.template run<Solo>(body, batch_.n);
  }

  // a packet for 32 of them, across the link: fewer take less time than a copy's beginning
  static constexpr std::uint64_t kFewStatuses = std::uint64_t{1} << 16;

  enum class Step : std::uint8_t { none, uploaded, prepared, planned, published };
  EngineState<Machine>* state_;
  Launcher<Machine> launcher_;
  Step step_ = Step::none;  // the last that began, for assertions
  bool ordered_ = false;  // since then
  bool from_lease_ = false;
  bool kept_ = false;  // see Reservation
  bool chained_ = false;  // each pass is one launch: see run_chain()
  bool grouped_ = false;  // by its first pass
  bool sorted_ = false;
  bool ahead_ = false;  // see may_go_ahead(), of this pass
  bool released_ = false;  // and so are its records, by its last
  std::optional<wal::UndoRegion> undo_;  // of this pass
  Call call_;
  WriteView batch_;
  StatusesOn<Machine> statuses_;
  WriteBuffers<Machine> writes_;
  Lists<Machine> lists_;
  LeasedRecords<Machine> leased_;
  GetOn<Machine, Ops> gets_;
  PlansOn<Machine, Ops> plans_;
  ReplayedCellsOn<Machine, Ops> replayed_;
};

}  // namespace perdure
