// One batch on a machine, step by step, once for all machines: what is launched, over what. The
// store calls the steps in order (store/gphash/batch_writer.cpp, batch_reader.cpp).
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <type_traits>

#include "base/assert.hpp"
#include "base/hooks.hpp"
#include "pm/host_verbs.hpp"
#include "store/gphash/engine/engine.hpp"
#include "store/gphash/engine/get_on.hpp"
#include "store/gphash/engine/launcher.hpp"
#include "store/gphash/kernels/ahead_ops.hpp"
#include "store/gphash/kernels/batch_ops.hpp"
#include "store/gphash/kernels/lane_per_key_plan.hpp"
#include "store/gphash/kernels/mirror_ops.hpp"
#include "store/gphash/kernels/record_map.hpp"

namespace perdure {

/// What a batch of writes needs, an element an operation.
template <class Machine>
struct WriteBuffers {
  template <class T>
  using Buffer = typename Machine::template Buffer<T>;

  Buffer<exec::Sorted> order;
  Buffer<gphash::Plan> plans;
  Buffer<std::uint64_t> reserved, unlinked;
  Buffer<std::uint8_t> used, decided;
  Buffer<std::uint32_t> free, before;  // to take records by
  Buffer<std::uint64_t> segments;  // of the log of entries

  Status resize(std::uint64_t n) {
    if (Status s = order.resize(n); !s.ok()) return s;
    if (Status s = plans.resize(n); !s.ok()) return s;
    if (Status s = unlinked.resize(n); !s.ok()) return s;
    if (Status s = used.resize(n); !s.ok()) return s;
    return decided.resize(n);
  }
  void show(WriteView& batch) {
    batch.order = order.data();
    batch.plans = plans.data();
    batch.reserved = reserved.data();
    batch.unlinked = unlinked.data();
    batch.used = used.data();
    batch.decided = decided.data();
  }
};

template <class Machine, class Ops>
class SessionOn final : public Session {
  template <class T>
  using Buffer = typename Machine::template Buffer<T>;
  using Warp = typename Machine::Warp;
  using Solo = typename Machine::Solo;
  using PublishWarp = std::conditional_t<Ops::kPublishNeedsWarp, Warp, Solo>;

 public:
  explicit SessionOn(EngineState<Machine>& state)
      : state_(&state), launcher_(state), gets_(state, launcher_, lists_) {}

  Status upload(Call const& call, std::span<std::uint8_t const> status) override {
    Machine& machine = launcher_.machine;
    PERDURE_ASSERT(status.empty() || status.size() == call.keys.count);
    step_ = Step::uploaded;
    ordered_ = false;
    call_ = call;
    batch_ = {};
    written_ = came_to_ = {};
    batch_.n = call.keys.count;
    batch_.kind = call.kind;
    batch_.rmw = call.rmw;
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
    if (Status s = upload_statuses(status); !s.ok()) return s;
    if (call.kinds.empty()) return {};
    auto const* const kinds = reinterpret_cast<std::uint8_t const*>(call.kinds.data());
    if (Status s = launcher_.send(kinds_, std::span(kinds, call.kinds.size())); !s.ok()) return s;
    batch_.kinds = kinds_.data();
    return {};
  }

  Status get() override {
    PERDURE_ASSERT(step_ == Step::uploaded && batch_.kinds == nullptr);
    Status const got = gets_.copy(batch_);
    if (!got.ok() || call_.device_statuses == nullptr) return got;
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
    batch_.any_fits =
        reservation.from_lease ? reservation.leased == batch_.n : reservation.any_fits;
    batch_.replays = reservation.replays;
    could_write_ahead_ = can_write_ahead(reservation);
    batch_.ahead = could_write_ahead_ && state_->writes_ahead;
    if (Status s = show_entries(reservation); !s.ok()) return s;
    if (Status s = reservation.from_lease ? make_room_to_take() : make_room_to_send(reservation);
        !s.ok())
      return s;
    if (Status s = make_room_to_group(); !s.ok()) return s;
    step_ = Step::prepared;
    if (batch_.ahead) {
      auto taken = take_leased_and_write(reservation.leased);
      if (!taken || !taken.value()) return taken;
    }
    if (Status s = group_by_key(); !s.ok()) return s;
    if (batch_.ahead || !reservation.from_lease) return true;
    return take_leased(reservation.leased);
  }

  Result<exec::Counts> plan(bool displace) override {
    PERDURE_ASSERT(step_ == Step::prepared ||
                   (step_ == Step::published &&
                    (ordered_ || Ops::kLogged || mutated("no_order_after_publish"))));
    PERDURE_ASSERT(batch_.pass + 1 < BatchView::kExcluded);  // passes are told from it
    step_ = Step::planned;
    ordered_ = false;
    state_->words_changed = true;
    ++batch_.pass;
    batch_.displacement = displace && state_->options.displacement;
    auto planned = plan_all();
    if (!planned) return planned;
    if (batch_.pass == 1) planned.value() += written_;
    came_to_ += planned.value();
    return planned;
  }

  Result<exec::Counts> log_undo(wal::UndoRegion const& region) override {
    PERDURE_ASSERT(step_ == Step::planned && !ordered_ && !batch_.displacement);
    if constexpr (Ops::kUndoable)
      return launcher_.template counted<PublishWarp>(UndoBody<Ops>{batch_, region}, batch_.n);
    else
      return Status{Code::unsupported, "this layout cannot undo a batch"};
  }

  Result<exec::Counts> publish() override {
    PERDURE_ASSERT(step_ == Step::planned &&
                   (ordered_ || Ops::kLogged || mutated("no_order_after_plan")));
    step_ = Step::published;
    ordered_ = false;
    return launcher_.template counted<PublishWarp>(PublishBody<Ops>{batch_, state_->table},
                                                   batch_.n);
  }

  Status order() override {
    PERDURE_ASSERT(step_ == Step::planned || step_ == Step::published);
    ordered_ = true;
    if (Status s = launcher_.machine.rejoin(); !s.ok()) return s;
    if constexpr (Machine::kPoolIsFar && Ops::kLogged)
      pm::order();  // an extent's head is the host's
    return launcher_.machine.order();
  }

  Status release_records() override {
    PERDURE_ASSERT(step_ == Step::published && (ordered_ || mutated("no_order_after_publish") ||
                                                mutated("no_order_after_extent")));
    PERDURE_ASSERT(state_->records.bits != nullptr);  // the lease has not ended
    if (batch_.ahead && mutated("records_written_after_order")) {
      if (Status s = write_ahead(); !s.ok()) return s;
    }
    if (could_write_ahead_)
      state_->writes_ahead = came_to_[BatchCounts::used] * kAheadOf >= batch_.n * kAheadUsed;
    bool const all_used =
        (batch_.any_fits || batch_.ahead) && came_to_[BatchCounts::used] == batch_.n;
    if (all_used && came_to_[BatchCounts::unlinked] == 0) return {};
    return launcher_.template run<Solo>(
        GiveBackBody{state_->records, batch_.reserved, batch_.unlinked, batch_.used}, batch_.n);
  }

  Result<Downloaded> download(Download what) override {
    PERDURE_ASSERT(step_ != Step::none && (what != Download::columns || call_.keep));
    PERDURE_ASSERT(what == Download::statuses || step_ == Step::published);
    Downloaded result;
    Status const done = [&]() -> Status {
      switch (what) {
        case Download::statuses: return fetch(status_, result.statuses);
        case Download::reserved: return fetch(writes_.reserved, result.reserved);
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
    Machine& machine = launcher_.machine;
    PERDURE_ASSERT(step_ == Step::uploaded || step_ == Step::published);
    step_ = Step::none;
    if (!Machine::must_be_downloaded(call_.out)) return machine.wait();
    auto const status = machine.fetch(status_, batch_.n);
    if (!status) return status.status();
    auto const answered = [&](std::size_t i) {
      OpKind const kind = call_.kinds.empty() ? call_.kind : call_.kinds[i];
      return kind == OpKind::get && status.value()[i] == code(KeyStatus::ok);
    };
    if (Status s = machine.download_output(call_.out, answered); !s.ok()) return s;
    return machine.wait();
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
      bool const gets = call_.kind == OpKind::get && call_.kinds.empty();
      if (Status s = gets ? Status{} : launcher_.machine.fill(status_.data(), kPending, batch_.n);
          !s.ok())
        return s;
    }
    batch_.status = status_.data();
    return {};
  }

  Status show_entries(Reservation const& reservation) {
    PERDURE_ASSERT(reservation.segments.empty() || Ops::kLogged);
    batch_.entries = reservation.entries;
    if (reservation.segments.empty()) return {};
    if (Status s = launcher_.send(writes_.segments, reservation.segments); !s.ok()) return s;
    batch_.entries.segments = writes_.segments.data();
    return {};
  }

  Status make_room_to_send(Reservation const& reservation) {
    if (Status s = launcher_.send(writes_.reserved, reservation.records); !s.ok()) return s;
    if (Status s = writes_.unlinked.need_twin(batch_.n); !s.ok()) return s;  // for download()
    return writes_.used.need_twin(batch_.n);
  }

  Status make_room_to_take() {
    PERDURE_ASSERT(state_->records.bits != nullptr && state_->records.words() > 0);
    std::uint64_t const most = std::max(state_->records.words(), batch_.n) + 1;
    if (Status s = writes_.reserved.resize(batch_.n); !s.ok()) return s;
    if (Status s = writes_.free.resize(most); !s.ok()) return s;
    return writes_.before.resize(most);
  }

  /// All that grouping, planning and the end of the batch will need: in between, nothing may fail
  /// for want of memory.
  Status make_room_to_group() {
    if (Status s = writes_.resize(batch_.n); !s.ok()) return s;
    if (Status s = status_.need_twin(batch_.n); !s.ok()) return s;
    if constexpr (Ops::kMirrored) {
      if (Status s = lists_.entries.resize(batch_.n); !s.ok()) return s;
      if (Status s = lists_.count.resize(1); !s.ok()) return s;
    }
    writes_.show(batch_);
    return launcher_.machine.make_room_to_sort(batch_.order, batch_.n);
  }

  /// Sorts the operations by hash.
  Status group_by_key() {
    Machine& machine = launcher_.machine;
    if (Status s = machine.fill(batch_.used, 0, batch_.n); !s.ok()) return s;
    if (Status s = machine.threads(batch_.n, HashBody{batch_}); !s.ok()) return s;
    return machine.sort(batch_.order, batch_.n);
  }

  /// Where every operation is to write a record, all of the same size, and none depends on what was
  /// there.
  [[nodiscard]] bool can_write_ahead(Reservation const& reservation) const {
    return Ops::kLogged && Machine::kWritesAhead && reservation.from_lease &&
           reservation.leased == batch_.n && batch_.rmw == Rmw::replace;
  }

  Result<bool> take_leased_and_write(std::uint64_t records) {
    batch_.any_fits = false;  // each operation has its own
    auto const taken = take_records(launcher_.machine, state_->records, records, writes_.free,
                                    writes_.before, writes_.reserved);
    if (!taken || !taken.value() || mutated("records_written_after_order")) return taken;
    if (Status s = write_ahead(); !s.ok()) return s;
    return true;
  }

  /// Beside what is launched until order(). Who counts accesses waits for it.
  Status write_ahead() {
    WriteAheadBody const body{batch_, state_->table};
    if (!state_->options.count_accesses) {
      return launcher_.machine.beside(
          [&] { return launcher_.template run<Warp>(body, items_of(batch_.n)); });
    }
    auto const written = launcher_.template counted<Warp>(body, items_of(batch_.n));
    if (written) written_ = written.value();
    return written.status();
  }

  Result<exec::Counts> plan_all() {
    if constexpr (Ops::kMirrored) {
      if (state_->table.mirror.identities != nullptr) return plan_lane_per_key();
    }
    return launcher_.template counted<Warp>(PlanBody<Ops>{batch_, state_->table}, batch_.n);
  }

  Result<bool> take_leased(std::uint64_t records) {
    if (records > 0) {
      auto& into = batch_.any_fits ? writes_.reserved : lists_.spare;
      auto const taken = take_records(launcher_.machine, state_->records, records, writes_.free,
                                      writes_.before, into);
      if (!taken || !taken.value()) return taken;
    }
    if (batch_.any_fits) return true;
    if (Status s = deal_records(records); !s.ok()) return s;
    return true;
  }

  /// To the operations that may write; the others get none.
  Status deal_records(std::uint64_t records) {
    Machine& machine = launcher_.machine;
    if (records == 0) return machine.fill(batch_.reserved, 0, batch_.n);
    PERDURE_ASSERT(batch_.kinds != nullptr);  // else any fits, or there are none
    FlagWritersBody const flag{batch_.kinds, batch_.n, writes_.free.data()};
    if (Status s = machine.threads(batch_.n + 1, flag); !s.ok()) return s;
    if (Status s = machine.sums_before(writes_.free.data(), writes_.before.data(), batch_.n + 1);
        !s.ok())
      return s;
    return machine.threads(
        batch_.n, DealRecordsBody{writes_.before.data(), lists_.spare.data(), batch_.reserved});
  }

  Result<exec::Counts> plan_lane_per_key() {
    std::uint64_t* const left = lists_.entries.data();
    if (Status s = launcher_.machine.fill(lists_.count.data(), 0, 1); !s.ok()) return s;
    LanePerKeyPlanBody<Ops> const body{batch_, state_->table, left, lists_.count.data()};
    auto planned = launcher_.template counted<Warp>(body, items_of(batch_.n));
    if (!planned) return planned;
    std::uint64_t const n = planned.value()[BatchCounts::left];
    PERDURE_ASSERT(n <= batch_.n);
    if (n == 0) return planned;
    auto rest = launcher_.template counted<Warp>(PlanBody<Ops>{batch_, state_->table, left}, n);
    if (rest) rest.value() += planned.value();
    return rest;
  }

  // Records are written ahead while so many of the last batch's were used: others cost the link
  // what they would have saved.
  static constexpr std::uint64_t kAheadUsed = 3, kAheadOf = 4;

  enum class Step : std::uint8_t { none, uploaded, prepared, planned, published };

  EngineState<Machine>* state_;
  Launcher<Machine> launcher_;
  Step step_ = Step::none;  // the last that began, for assertions
  bool ordered_ = false;  // since then
  bool could_write_ahead_ = false;
  exec::Counts written_;  // ahead
  exec::Counts came_to_;  // by all of the batch's passes
  Call call_;
  WriteView batch_;
  Buffer<std::uint8_t> status_, kinds_;
  WriteBuffers<Machine> writes_;
  Lists<Machine> lists_;
  GetOn<Machine, Ops> gets_;
};

}  // namespace perdure
