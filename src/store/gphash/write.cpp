#include "store/gphash/write.hpp"

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

#include "base/assert.hpp"
#include "base/caught.hpp"
#include "base/hooks.hpp"
#include "batch/pieces.hpp"
#include "store/checks.hpp"
#include "store/gphash/gphash_store.hpp"

namespace perdure {
namespace {

using exec::Counts;

constexpr std::uint64_t kManyOperations = 1u << 14;

/// How many operations may write a record.
std::uint64_t records_for(Call const& call) {
  if (call.counted) return call.counted->write_values();
  if (!call.kinds.empty()) return count_kinds(call.kinds).write_values();
  return call.kind == OpKind::put || call.kind == OpKind::update ? call.keys.count : 0;
}

}  // namespace

/// A call that writes, from its arrays to its acknowledgement: alone on the pool and into the log;
/// then, while others go on, until the log is on the disk.
Status GphashStore::write(Call call, std::span<KeyStatus> statuses, CallOptions const& how) {
  call.stream = how.stream;
  LogMoment seen;
  Status done;
  {
    ExclusiveLock store_lock(core_.lock, token_of(how));
    if (store_lock.way() == Way::none) return core_.not_the_transaction();
    PERDURE_ASSERT(core_.lock.is_exclusive());  // by this call, or by what it is inside
    if (Status s = core_.check_open(true); !s.ok()) return s;
    if (Status s = check_batch(path, core_.pool.header(), call, statuses); !s.ok()) return s;
    call.keep = core_.power != nullptr;
    if (store_lock.way() == Way::inside) return transactions_.write(call, statuses, how);
    if (call.keys.count == 0) return {};  // so what can be taken back still can
    done = core_.health.whole_or_failed([&]() -> Status {
      if (Status s = transactions_.keep_last(); !s.ok()) return s;
      return how.atomic ? transactions_.write_atomic(call, statuses)
                        : writer_.write(call, statuses, how.stop);
    });
    seen = log_.moment();
    log_.checkpoint_in_time(store_lock);
  }
  if (mutated("batch_acknowledged_early")) return done;
  Status const durable = seen.wait_durable();
  seen.wait_for_checkpoint();
  return durable.ok() ? done : durable;
}

Status BatchWriter::write(Call const& call, std::span<KeyStatus> statuses,
                          std::atomic<bool> const* stop) {
  return in_pieces(
      call, statuses, core_.power ? nullptr : stop,
      [&](Call const& piece, auto of_piece) { return write_piece(piece, of_piece); },
      [&](Status const& s) { return s.code() == Code::no_space && !core_.health.failed(); });
}

/// The steps of a plain batch.
Status BatchWriter::write_piece(Call const& call, std::span<KeyStatus> statuses) {
  if (call.keys.count == 0) return {};
  PERDURE_ASSERT(core_.is_exclusive() && !core_.pool.read_only());
  PERDURE_ASSERT(statuses.empty() || statuses.size() == call.keys.count);
  Health& health = core_.health;
  health.changing = true;
  if (Status s = growth_.advance(call.keys.count); !s.ok()) return health.fail(s);
  health.changing = false;
  return execute(call, statuses);
}

/// Its columns go into the log meanwhile, where that pays; those of a device once they have come.
Status BatchWriter::execute(Call const& call, std::span<KeyStatus> statuses) {
  Health& health = core_.health;
  WriteBatch batch(call, statuses);
  std::optional<LoggedBeside> beside;  // it goes before the batch, which may have its columns
  if (core_.power) beside.emplace(log_.aside());
  bool const here = LoggedBeside::can_read(call);
  if (Status s = beside && here ? beside->begin(core_.power->log(), call) : Status{}; !s.ok())
    return health.fail(s);
  if (Status s = prepare(batch, records_.can_lease()); !s.ok()) {
    Status const logged = beside && beside->begun() ? beside->end({}) : Status{};
    return logged.ok() ? s : health.fail(logged);
  }
  if (beside && !here) {
    auto const columns = batch.session->download(Download::columns);
    if (!columns) return health.fail(columns.status());
    Status const s = beside->begin(core_.power->log(), columns.value().columns);
    if (!s.ok()) return health.fail(s);
  }
  health.changing = true;
  health.unlogged = core_.power != nullptr;
  if (Status s = passes(batch); !s.ok()) return health.fail(s);
  if (core_.logged()) {
    if (Status s = seal(batch, wal::ExtentKind::batch); !s.ok()) return health.fail(s);
  }
  if (Status s = release_records(batch); !s.ok()) return health.fail(s);
  if (!statuses.empty() || core_.power) {
    auto const status = answer(batch);
    if (!status) return health.fail(status.status());
    bool const begun = beside && beside->begun();
    Status const logged =
        begun ? beside->end(status.value()) : log_.append(*batch.session, status.value());
    if (!logged.ok()) return health.fail(logged);
    health.unlogged = false;
  }
  if (Status s = batch.session->finish(); !s.ok()) return health.fail(s);
  core_.sessions.give(std::move(batch.session));
  return batch.full ? table_is_full(batch) : Status{};
}

Status BatchWriter::table_is_full(WriteBatch const& batch) const {
  std::string const& message = batch.not_grown.message();
  return {Code::no_space, "pool " + core_.path + ": the table is full and could not grow" +
                              (message.empty() ? "" : " (" + message + ")") +
                              "; some operations took no effect (see their statuses)"};
}

// ------------------------------------------------------------------------------------------------
// Before the first pass: records for what it may write, and its operations grouped by key

Status BatchWriter::prepare(WriteBatch& batch, bool from_lease) {
  PERDURE_ASSERT(batch.session == nullptr && batch.reserved.empty());
  batch.from_lease = from_lease;
  if (core_.logged()) {
    std::uint64_t const n = batch.call.keys.count;
    std::uint64_t const entries = batch.undoable ? 2 * n : n;
    if (Status s = core_.of_batch(make_room_for_entries(entries), n); !s.ok()) {
      if (s.code() == Code::no_space)
        std::fill(batch.statuses.begin(), batch.statuses.end(), KeyStatus::no_space);
      return s;
    }
  }
  if (Status s = from_lease ? records_.begin_lease() : records_.end_lease(); !s.ok()) return s;
  PERDURE_ASSERT(records_.leased() == from_lease);  // one of the two hands records out
  return from_lease ? prepare_leased(batch) : prepare_reserved(batch);
}

/// Where nothing else is free, with what the heap has taken and not used.
Status BatchWriter::make_room_for_entries(std::uint64_t entries) {
  Status const s = entries_.make_room(entries);
  if (s.code() != Code::no_space) return s;
  if (Status ended = records_.end_lease(); !ended.ok()) return ended;
  core_.heap.give_back_empty();
  return entries_.make_room(entries);
}

/// With records of the heap.
Status BatchWriter::prepare_reserved(WriteBatch& batch) {
  auto status = first_statuses(core_.pool.header(), batch.call);
  if (!status) return status.status();
  auto const reserve = [&] {
    return records_.reserve(batch.call, *status, batch.reserved, batch.any_fits);
  };
  if (Status s = log_.with_held_space(reserve); !s.ok()) {
    std::fill(batch.statuses.begin(), batch.statuses.end(), KeyStatus::no_space);
    return s;
  }
  PERDURE_ASSERT(batch.reserved.size() == batch.call.keys.count);
  Status const begun = caught([&]() -> Status {
    batch.sequence = core_.next_sequence();
    if (Status s = begin_session(batch, *status); !s.ok()) return s;
    Reservation reservation{
        .records = batch.reserved, .any_fits = batch.any_fits, .sequence = batch.sequence};
    if (core_.logged()) entries_.show_room(batch, reservation);
    return core_.of_batch(batch.session->prepare(reservation).status(), batch.call.keys.count);
  });
  if (!begun.ok()) records_.release(batch.reserved);
  return begun;
}

/// With records that the engine takes from its lease.
Status BatchWriter::prepare_leased(WriteBatch& batch) {
  std::size_t const n = batch.call.keys.count;
  batch.sequence = core_.next_sequence();
  Reservation reservation{.leased = records_for(batch.call),
                          .from_lease = true,
                          .sequence = batch.sequence,
                          .told = batch.undoable,
                          .kept = !batch.alone};
  if (core_.logged()) entries_.show_room(batch, reservation);
  if (Status s = begin_session(batch, {}); !s.ok()) return s;
  Status const taken = records_.take_leased(reservation.leased, [&]() -> Result<bool> {
    auto prepared = batch.session->prepare(reservation);
    return prepared ? prepared : Result<bool>(core_.of_batch(prepared.status(), n));
  });
  if (taken.code() == Code::no_space) {
    std::fill(batch.statuses.begin(), batch.statuses.end(), KeyStatus::no_space);
    core_.sessions.give(std::move(batch.session));
  }
  return taken;
}

/// `status`: see Session::upload.
Status BatchWriter::begin_session(WriteBatch& batch, std::span<std::uint8_t const> status) {
  PERDURE_ASSERT(status.empty() || status.size() == batch.call.keys.count);
  auto session = core_.sessions.take(*core_.engine);
  if (!session) return session.status();
  batch.session = std::move(*session);
  return core_.of_batch(batch.session->upload(batch.call, status), batch.call.keys.count);
}

// ------------------------------------------------------------------------------------------------
// The passes

Result<Counts> BatchWriter::pass(WriteBatch& batch, bool displace, wal::UndoRegion const* undo) {
  PERDURE_ASSERT(batch.session != nullptr && core_.health.changing);
  PERDURE_ASSERT(undo == nullptr || !displace);  // for one key one slot is logged
  Session& session = *batch.session;
  Counts orders;
  if (Status s = session.plan(displace); !s.ok()) return s;
  if (undo != nullptr) {
    if (Status s = session.log_undo(*undo); !s.ok()) return s;
  }
  if (!core_.logged() && !mutated("no_order_after_plan")) {
    ++orders[Counts::orders];
    if (Status s = session.order_steps(); !s.ok()) return s;
  }
  if (undo != nullptr && mutated("epoch_ends_before_publish")) core_.undo.end();
  if (Status s = session.publish(!batch.statuses.empty() || core_.power != nullptr); !s.ok())
    return s;
  if (Status s = answer_early(batch); !s.ok()) return s;
  auto const counted = session.pass_counts();
  if (!counted) {
    if (batch.answered) std::ranges::fill(batch.statuses, KeyStatus::not_tried);  // nobody knows
    return counted;
  }
  if (!core_.logged() && !mutated("no_order_after_publish")) {
    if (Status s = order(batch, orders); !s.ok()) return s;
  }
  Counts counts = counted.value();
  counts += orders;
  PERDURE_ASSERT(counts[BatchCounts::full] <= counts[BatchCounts::pending]);
  PERDURE_ASSERT(counts[BatchCounts::inserted] <=
                 counts[BatchCounts::used]);  // a new key has a record
  batch.answered = batch.answered && session.early_statuses_stand();
  batch.done += counts;
  core_.counters.add(counts);
  return counts;
}

/// Copies a large batch's statuses while phase two goes on.
Status BatchWriter::answer_early(WriteBatch& batch) {
  batch.answered = false;
  if (batch.statuses.empty()) return {};
  auto const early = batch.session->early_statuses();
  if (!early) return early.status();
  std::span<std::uint8_t const> const statuses = early.value();
  if (statuses.empty()) return {};
  PERDURE_ASSERT(statuses.size() >= batch.statuses.size());
  std::memcpy(batch.statuses.data(), statuses.data(), batch.statuses.size());
  batch.answered = true;
  return {};
}

Status BatchWriter::order(WriteBatch& batch, Counts& counts) {
  ++counts[Counts::orders];
  return batch.session->order();
}

/// Until no operation is pending, or the table has no room for those that are.
Status BatchWriter::passes(WriteBatch& batch) {
  std::uint64_t const operations = batch.call.keys.count;
  bool const many = operations >= kManyOperations;
  // else most searches for room may be in vain
  bool displace = !many || growth_.may_take(operations);
  bool refused = false;  // growth
  std::uint64_t waited = 0, last_full = operations;
  for (int number = 0; number < kMostPasses; ++number) {
    auto const counts = pass(batch, displace, nullptr);
    if (!counts) return counts.status();
    if (counts.value()[BatchCounts::displaced] != 0 && !mutated("scan_ignores_displacement"))
      ++core_.generation;
    std::uint64_t const pending = counts.value()[BatchCounts::pending];
    std::uint64_t const full = counts.value()[BatchCounts::full];
    if (pending == 0) return {};
    if (full == 0) continue;
    if (many && !growth_.is_bulk(full)) {
      // Others of the batch have claimed all slots of some keys; now some of those can be
      // displaced.
      bool const fewer = full <= std::exchange(last_full, full) / 2;
      if (!std::exchange(displace, true) || fewer) {
        auto const units = core_.engine->units().take_refused();  // by keys that may yet find room
        if (!units) return units.status();
        continue;
      }
    }
    if (!refused) {
      auto const grow = [&] { return growth_.make_room(full); };
      bool const may_grow = core_.options.grow || batch.replays;
      Status const s = may_grow ? log_.with_held_space(grow) : Status{Code::no_space, ""};
      if (!s.ok() && s.code() != Code::no_space) return s;
      refused = !s.ok();
      batch.not_grown = s;
    } else if (pending >= waited || number > kMostPasses / 2) {
      // Displacements of the last pass may have held slots whose keys need no room: those come now.
      if (!displace) break;
      displace = false;
    }
    waited = pending;
  }
  batch.full = true;
  return {};
}

/// All that the batch wrote, its records and its entries, is there by the one ordering point after
/// its extent's head.
Status BatchWriter::seal(WriteBatch& batch, wal::ExtentKind kind) {
  PERDURE_ASSERT(core_.logged());
  entries_.seal(batch, kind);
  bool const part = kind == wal::ExtentKind::part;
  if (part ? mutated("no_order_after_part") : mutated("no_order_after_extent")) return {};
  Counts counts;
  if (Status s = order(batch, counts); !s.ok()) return s;
  core_.counters.add(counts);
  return {};
}

// ------------------------------------------------------------------------------------------------
// After the last pass: what it used and unlinked, and what each operation came to

/// The batch has committed.
Status BatchWriter::release_records(WriteBatch& batch) {
  PERDURE_ASSERT(batch.session != nullptr && core_.health.changing);
  if (batch.from_lease && records_.leased()) return batch.session->release_records();
  if (batch.from_lease) {  // a growth ended the lease, and there was no memory for another
    if (Status s = take_over_records(batch); !s.ok()) return s;
  }
  PERDURE_ASSERT(batch.reserved.size() == batch.call.keys.count);
  auto const came_to = outcome(batch);
  if (!came_to) return came_to.status();
  release_unused(batch, came_to.value());
  records_.release(came_to.value().unlinked);
  return {};
}

Status BatchWriter::take_over_records(WriteBatch& batch) {
  PERDURE_ASSERT(batch.from_lease);
  auto const taken = batch.session->download(Download::reserved);
  if (!taken) return taken.status();
  auto const& reserved = taken.value().reserved;
  batch.reserved.assign(reserved.begin(), reserved.end());
  batch.from_lease = false;
  return {};
}

Result<Downloaded> BatchWriter::outcome(WriteBatch& batch) {
  PERDURE_ASSERT(batch.done[BatchCounts::used] <= batch.call.keys.count);
  bool const plain = batch.any_fits && batch.done[BatchCounts::used] == batch.reserved.size() &&
                     batch.done[BatchCounts::unlinked] == 0;
  return plain ? Result<Downloaded>(Downloaded{}) : batch.session->download(Download::outcome);
}

void BatchWriter::release_unused(WriteBatch const& batch, Downloaded const& outcome) {
  if (outcome.used.empty()) return;
  PERDURE_ASSERT(outcome.used.size() == batch.reserved.size());
  records_.release_unused(batch.reserved, outcome.used);
}

Result<std::span<std::uint8_t const>> BatchWriter::answer(WriteBatch& batch) {
  auto const fetched = batch.session->download(Download::statuses);
  if (!fetched) return fetched.status();
  std::span<std::uint8_t const> const status = fetched.value().statuses;
  PERDURE_ASSERT(status.size() >= batch.statuses.size());
  static_assert(sizeof(KeyStatus) == 1);
  if (!batch.statuses.empty() && !batch.answered)
    std::memcpy(batch.statuses.data(), status.data(), batch.statuses.size());
  if (batch.full)
    std::ranges::replace(batch.statuses, static_cast<KeyStatus>(kPending), KeyStatus::no_space);
  else
    PERDURE_ASSERT(!kCostlyAssertions || std::ranges::count(status, kPending) == 0);
  return status;
}

}  // namespace perdure
