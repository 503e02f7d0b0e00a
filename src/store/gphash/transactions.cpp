#include "store/gphash/transactions.hpp"

#include <algorithm>
#include <cstring>
#include <optional>
#include <string>
#include <utility>

#include "base/assert.hpp"
#include "base/hooks.hpp"
#include "store/checks.hpp"
#include "store/gphash/gphash_store.hpp"
#include "store/gphash/logged_batch.hpp"

namespace perdure {
namespace {

// Batches of a transaction whose sessions are kept until it ends, each with arrays as long as its
// batch: so many, or one more than has so many operations in all.
#if defined(PERDURE_EXPLORE)
constexpr std::size_t kMostLeased = 2;
#else
constexpr std::size_t kMostLeased = 8;
#endif
constexpr std::uint64_t kMostLeasedOperations = std::uint64_t{1} << 22;

}  // namespace

Status transaction_ended() { return {Code::closed, "this transaction has ended already"}; }

Transactions::Transactions(Core& core, Records& records, Growth& growth, BatchWriter& writer,
                           PowerLog& log)
    : core_(core), records_(records), growth_(growth), writer_(writer), log_(log) {
  if (core.logged())
    undoing_ = std::make_unique<PartsDropped>(core, records, growth, writer, log);
  else
    undoing_ = std::make_unique<SlotsUndone>(core, records, growth, writer, log);
}

Status Transactions::check_undoable() const {
  if (!core_.in_place()) return {};
  return {Code::unsupported,
          "pool " + core_.path +
              ": layout in_place writes several words for one change, which the undo "
              "log does not hold; atomic batches need a pool of layout word or log"};
}

Status Transactions::check_room(OpenTransaction const& tx, std::uint64_t operations) const {
  if (tx.operations + operations <= tx.room) return {};
  return {Code::no_space, "pool " + core_.path + ": this transaction has room for " +
                              std::to_string(tx.room) + " operations, of which " +
                              std::to_string(tx.operations) + " are taken; a batch of " +
                              std::to_string(operations) +
                              " does not fit: begin one with max_operations of at least " +
                              std::to_string(tx.operations + operations)};
}

void Transactions::start(OpenTransaction& tx, std::uint64_t operations) {
  PERDURE_ASSERT(tx.operations == 0 && tx.used.empty() && tx.unlinked.empty());
  tx.records_before = core_.counters.records();
  undoing_->begin(tx, operations);
}

Status Transactions::finish(OpenTransaction& tx, bool commit) {
  PERDURE_ASSERT(core_.is_exclusive() && tx.operations <= tx.room);
  PERDURE_ASSERT(tx.logged.empty() || core_.power != nullptr);
  Health& health = core_.health;
  // A growth that found no room is completed by the next process, and moves slots.
  bool const moves = core_.table.growing() && !core_.logged();
  tx.revertible = tx.revertible && tx.operations > 0 && !moves;
  health.changing = true;
  health.unlogged = commit && core_.power && !tx.logged.empty();
  health.half_undoable = true;
  if (Status s = commit ? Status{} : take_over(tx); !s.ok()) return health.fail(s);
  if (Status s = commit ? undoing_->commit(tx) : undoing_->abort(tx); !s.ok())
    return health.fail(s);
  health.half_undoable = false;
  core_.counters.add_orders(1);
  if (commit && tx.revertible && !mutated("revertible_releases_replaced")) {
    core_.last = std::move(tx);
    return {};
  }
  if (Status s = release(tx, commit); !s.ok()) return health.fail(s);
  if (!health.unlogged) return {};
  std::span<std::byte const> const piece(tx.logged);
  if (Status s = log_.append_pieces({&piece, 1}); !s.ok()) return health.fail(s);
  health.unlogged = false;
  return {};
}

/// What nobody leads to, now that it has ended for good.
Status Transactions::release(OpenTransaction& tx, bool committed) {
  if (Status s = release_leased(tx); !s.ok()) return s;
  bool const replaced = committed || mutated("abort_releases_replaced");
  std::vector<std::uint64_t> const& released = replaced ? tx.unlinked : tx.used;
  if (released.empty() || (!committed && mutated("abort_releases_nothing"))) return {};
  if (Status s = records_.end_lease(); !s.ok()) return s;
  records_.release(released);
  return {};
}

// ------------------------------------------------------------------------------------------------
// Taking the last one back

/// What it unlinked is free by what an opening has found; the others are in use.
void Transactions::find_last() {
  if (!core_.undo.revertible() || core_.pool.read_only()) return;
  core_.last = undoing_->last();
  if (!core_.last) return core_.undo.keep();
  core_.last->revertible = true;
  core_.last->operations = core_.last->room = 1;  // how many there were, nobody asks any more
  if (mutated("reopening_forgets_replaced")) return core_.last->unlinked.clear();
  std::erase_if(core_.last->unlinked,
                [&](std::uint64_t record) { return !core_.heap.keep_unreached(Offset{record}); });
}

Status Transactions::keep_last() {
  PERDURE_ASSERT(core_.is_exclusive() && core_.transaction == nullptr);
  if (!core_.last) return {};
  OpenTransaction last = std::move(*core_.last);
  core_.last.reset();
  core_.health.changing = true;
  if (!mutated("written_over_what_can_be_taken_back")) core_.undo.keep();
  core_.counters.add_orders(1);
  if (Status s = release(last, true); !s.ok()) return core_.health.fail(s);
  return {};
}

Status Transactions::check_revertible() const {
  if (Status s = check_undoable(); !s.ok()) return s;
  if (!core_.power) return {};
  return {Code::unsupported,
          "pool " + core_.path +
              " is of durability power, whose log has each commit for good; abort a transaction "
              "instead, or make a pool of durability process"};
}

Status Transactions::revert() {
  if (core_.lock.is_held_here()) return core_.held_by_this_thread();
  ExclusiveLock const store_lock(core_.lock);
  if (Status s = core_.check_open(true); !s.ok()) return s;
  if (Status s = check_revertible(); !s.ok()) return s;
  if (!core_.last)
    return bad_argument("pool " + core_.path +
                        ": there is no commit to take back: the last one was not of a revertible "
                        "transaction, or something was written since");
  return core_.health.whole_or_failed([&] { return take_back(); });
}

/// As an abort that comes late.
Status Transactions::take_back() {
  OpenTransaction last = std::move(*core_.last);
  core_.last.reset();
  core_.health.changing = core_.health.half_undoable = true;
  undoing_->reopen();
  core_.counters.add_orders(1);
  return finish(last, false);
}

// ------------------------------------------------------------------------------------------------
// Batches

Status Transactions::write(Call const& call, std::span<KeyStatus> statuses,
                           CallOptions const& how) {
  PERDURE_ASSERT(core_.transaction != nullptr);
  PERDURE_ASSERT(core_.transaction->store != nullptr && !core_.closed);
  if (how.transaction == nullptr)
    return {Code::busy, "pool " + core_.path +
                            ": a transaction is open on this thread: name it in the call options "
                            "of each write, or end it"};
  return core_.health.whole_or_failed(
      [&] { return write_in(core_.transaction->open, call, statuses); });
}

Status Transactions::write_atomic(Call const& call, std::span<KeyStatus> statuses) {
  Health& health = core_.health;
  PERDURE_ASSERT(core_.transaction == nullptr);  // whose batches come by write()
  if (Status s = check_undoable(); !s.ok()) return s;
  health.changing = true;
  if (Status s = growth_.advance(call.keys.count); !s.ok()) return health.fail(s);
  if (Status s = undoing_->make_room(call.keys.count, false); !s.ok()) return s;
  health.changing = false;
  OpenTransaction tx;
  tx.alone = true;
  start(tx, call.keys.count);
  Status const done = write_in(tx, call, statuses);
  if (health.failed()) return done;
  Status const finished = finish(tx, done.ok());
  return done.ok() ? finished : done;
}

/// One batch of a transaction: all of it, or, undone, none.
Status Transactions::write_in(OpenTransaction& tx, Call const& call,
                              std::span<KeyStatus> statuses) {
  std::uint64_t const n = call.keys.count;
  if (n == 0) return {};
  if (Status s = check_room(tx, n); !s.ok()) return s;
  for (;;) {
    std::uint64_t waiting = 0;
    Status const done = attempt(tx, call, statuses, waiting);
    PERDURE_ASSERT(waiting == 0 || !done.ok());
    if (waiting == 0 || core_.health.failed()) return done;
    Result<bool> const again = undoing_->grow(tx, waiting);
    if (!again.ok()) return core_.health.fail(again.status());
    if (!again.value()) return done;
  }
}

/// `waiting`: how many new keys want room, where some of them found none.
Status Transactions::attempt(OpenTransaction& tx, Call const& call, std::span<KeyStatus> statuses,
                             std::uint64_t& waiting) {
  Health& health = core_.health;
  WriteBatch batch(call, statuses);
  batch.undoable = true;
  batch.alone = tx.alone;
  if (tx.leased.size() == kMostLeased || tx.leased_operations >= kMostLeasedOperations) {
    if (Status s = take_over(tx); !s.ok()) return health.fail(s);
  }
  if (Status s = writer_.prepare(batch, records_.can_lease()); !s.ok()) return s;
  health.changing = health.half_undoable = true;
  if (Status s = undoing_->run(tx, batch); !s.ok()) return health.fail(s);
  auto const status = writer_.answer(batch);
  if (!status) return health.fail(status.status());
  Status const result = refusal(tx, batch, status.value());
  if (result.ok()) {
    if (Status s = undoing_->keep(tx, batch); !s.ok()) return health.fail(s);
    if (Status s = keep_attempt(tx, batch, status.value()); !s.ok()) return health.fail(s);
  } else {
    if (batch.full && result.code() == Code::no_space)
      waiting = batch.done[BatchCounts::inserted] + std::max<std::uint64_t>(1, batch.refused);
    if (Status s = undoing_->undo_batch(batch); !s.ok()) return health.fail(s);
    if (Status s = release_refused(batch); !s.ok()) return health.fail(s);
  }
  health.half_undoable = false;
  if (batch.session == nullptr) return result;  // see release_leased()
  if (Status s = batch.session->finish(); !s.ok()) return health.fail(s);
  core_.sessions.give(std::move(batch.session));
  return result;
}

/// Why the batch must not take effect, if it must not.
Status Transactions::refusal(OpenTransaction const& tx, WriteBatch const& batch,
                             std::span<std::uint8_t const> status) const {
  // Records of a lease have one size, so nothing but a damaged one refuses what has found room.
  if (batch.from_lease && !batch.full && batch.done[BatchCounts::corrupt] == 0) return {};
  std::string const nothing = "pool " + core_.path + ": nothing of this batch took effect, for ";
  auto const of_first = [&](KeyStatus which) -> std::optional<std::string> {
    if (status.empty()) return std::nullopt;
    // not std::find, which takes a millisecond for a million statuses
    auto const* const found = static_cast<std::uint8_t const*>(
        std::memchr(status.data(), static_cast<int>(which), status.size()));
    if (found == nullptr) return std::nullopt;
    return nothing + "operation " + std::to_string(found - status.data());
  };
  if (auto const operation = of_first(KeyStatus::size_mismatch))
    return bad_argument(*operation + "'s operand and stored value differ in length");
  if (auto const operation = of_first(KeyStatus::too_large))
    return bad_argument(*operation + "'s key or value is longer than the pool allows");
  if (auto const operation = of_first(KeyStatus::corrupt))
    return {Code::corrupt, *operation + " found a damaged record (run verify)"};
  if (!batch.full) return {};
  return {Code::no_space, nothing + "the table is full" +
                              (tx.operations > 0 ? undoing_->full() : " and could not grow")};
}

/// All that a batch took, which has been undone.
Status Transactions::release_refused(WriteBatch& batch) {
  if (batch.from_lease) {
    if (Status s = writer_.take_over_records(batch); !s.ok()) return s;
    if (Status s = records_.end_lease(); !s.ok()) return s;
  }
  records_.release(batch.reserved);
  return {};
}

/// The transaction has committed.
Status Transactions::release_leased(OpenTransaction& tx) {
  if (!records_.leased()) return take_over(tx);  // a growth ended the lease
  for (auto& session : tx.leased) {
    if (!mutated("unlinked_released_before_commit")) {
      if (Status s = session->release_records(); !s.ok()) return s;
    }
    if (Status s = session->finish(); !s.ok()) return s;
    core_.sessions.give(std::move(session));
  }
  tx.leased.clear();
  return {};
}

/// Records of the lease are noted one by one, as those of the heap are. What a batch did not use is
/// released however the transaction ends.
Status Transactions::take_over(OpenTransaction& tx) {
  for (auto& session : tx.leased) {
    auto const reserved = session->download(Download::reserved);
    if (!reserved) return reserved.status();
    auto const outcome = session->download(Download::outcome);
    if (!outcome) return outcome.status();
    std::span<std::uint64_t const> const records = reserved.value().reserved;
    for (std::size_t i = 0; i < records.size(); ++i) {
      if (records[i] == 0) continue;
      tx.used.push_back(records[i]);
      if (outcome.value().used[i] == 0) tx.unlinked.push_back(records[i]);
    }
    if (!mutated("unlinked_released_before_commit")) note_unlinked(tx, outcome.value());
    if (Status s = session->finish(); !s.ok()) return s;
    core_.sessions.give(std::move(session));
  }
  tx.leased.clear();
  tx.leased_operations = 0;
  return {};
}

void Transactions::note_unlinked(OpenTransaction& tx, Downloaded const& outcome) {
  tx.unlinked.insert(tx.unlinked.end(), outcome.unlinked.begin(), outcome.unlinked.end());
}

/// Notes what the batch took and unlinked, and, with durability power, what will be logged.
Status Transactions::keep_attempt(OpenTransaction& tx, WriteBatch& batch,
                                  std::span<std::uint8_t const> status) {
  if (batch.from_lease && !records_.leased()) {  // a growth ended the lease
    if (Status s = writer_.take_over_records(batch); !s.ok()) return s;
  }
  tx.operations += batch.call.keys.count;
  if (mutated("table_ahead_of_its_step")) core_.undo.end();
  if (batch.from_lease) return keep_leased(tx, batch, status);
  auto const came_to = writer_.outcome(batch);
  if (!came_to) return came_to.status();
  Downloaded const& outcome = came_to.value();
  writer_.release_unused(batch, outcome);
  for (std::size_t i = 0; i < batch.reserved.size(); ++i) {
    bool const used = outcome.used.empty() || outcome.used[i] != 0;
    if (used && batch.reserved[i] != 0) tx.used.push_back(batch.reserved[i]);
  }
  if (mutated("unlinked_released_before_commit"))
    records_.release(outcome.unlinked);
  else
    note_unlinked(tx, outcome);
  PERDURE_ASSERT(tx.used.size() <= tx.operations);  // a record an operation at most
  return keep_for_log(tx, batch, status);
}

Status Transactions::keep_leased(OpenTransaction& tx, WriteBatch& batch,
                                 std::span<std::uint8_t const> status) {
  if (Status s = keep_for_log(tx, batch, status); !s.ok()) return s;
  if (mutated("unlinked_released_before_commit")) {
    if (Status s = batch.session->release_records(); !s.ok()) return s;
  }
  if (Status s = tx.alone ? Status{} : batch.session->keep_records(); !s.ok()) return s;
  tx.leased_operations += batch.call.keys.count;
  tx.leased.push_back(std::move(batch.session));
  return {};
}

Status Transactions::keep_for_log(OpenTransaction& tx, WriteBatch& batch,
                                  std::span<std::uint8_t const> status) const {
  if (!core_.power) return {};
  auto const kept = batch.session->download(Download::columns);
  if (!kept) return kept.status();
  Effective const effective(kept.value().columns, status);
  if (effective.empty()) return {};
  wal::EncodedBatch const encoded(effective.ops());
  for (auto const piece : encoded.pieces())
    tx.logged.insert(tx.logged.end(), piece.begin(), piece.end());
  return {};
}

// ------------------------------------------------------------------------------------------------
// Several batches

Result<std::shared_ptr<Transaction::State>> Transactions::begin(GphashStore& store,
                                                                TransactionOptions const& how) {
  if (core_.lock.is_held_here()) return core_.held_by_this_thread();
  ExclusiveLock store_lock(core_.lock);
  if (Status s = core_.check_open(true); !s.ok()) return s;
  if (Status s = check_undoable(); !s.ok()) return s;
  if (Status s = check_operations(how.max_operations); !s.ok()) return s;
  if (Status s = how.revertible ? check_revertible() : Status{}; !s.ok()) return s;
  auto state = std::make_shared<Transaction::State>();
  Status const room = core_.health.whole_or_failed([&]() -> Status {
    if (Status s = keep_last(); !s.ok()) return s;
    core_.health.changing = true;
    if (how.revertible) core_.undo.allow_revertible();
    return undoing_->make_room(how.max_operations, true);
  });
  if (!room.ok()) return room;
  PERDURE_ASSERT(core_.transaction == nullptr && core_.device_session == nullptr);
  state->store = &store;
  state->store_lock = std::move(store_lock);
  state->open.revertible = how.revertible;
  start(state->open, how.max_operations);
  core_.transaction = state;
  core_.lock.hold(state.get());
  return state;
}

/// After a failure inside it, what it wrote is unknown: recovery undoes it at the next open, and
/// nobody sees it until then.
Status Transactions::end_in(Transaction::State& transaction, bool commit) {
  Health& health = core_.health;
  if (!health.failed()) return finish(transaction.open, commit);
  health.half_undoable |= transaction.open.operations > 0;
  return health.failure();
}

Status Transactions::end(Transaction::State& transaction, bool commit) {
  Status done;
  LogMoment seen;
  std::shared_ptr<Transaction::State> keep;  // `transaction` may be the last to hold it
  ExclusiveLock store_lock;
  {
    ExclusiveLock const inside(core_.lock, &transaction);
    if (inside.way() == Way::none) return transaction_ended();  // on another thread
    PERDURE_ASSERT(core_.transaction.get() == &transaction);
    done = core_.health.whole_or_failed([&] { return end_in(transaction, commit); });
    if (commit) seen = log_.moment();
    store_lock = std::move(transaction.store_lock);
    PERDURE_ASSERT(store_lock.way() == Way::lock);
    keep = std::move(core_.transaction);
    transaction.open.leased.clear();  // of a store that failed: the engine's, which may go first
    transaction.store = nullptr;
    core_.lock.hold_no_more();
  }
  if (done.ok()) log_.checkpoint_in_time(store_lock);
  if (!done.ok() || mutated("transaction_acknowledged_early")) return done;
  Status const durable = seen.wait_durable();
  seen.wait_for_checkpoint();
  return durable;
}

}  // namespace perdure
