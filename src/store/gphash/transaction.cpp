// Atomic batches and transactions: batches whose slots' old words are logged before they are
// overwritten, so that all of them can be undone until one word commits them. Steps (step.cpp)
// join. Order of a commit: records and undo entries | order | slot words | order | epoch | order.
#include "store/gphash/transaction.hpp"

#include <algorithm>

#include "base/hooks.hpp"
#include "store/gphash/gphash_store.hpp"

namespace perdure {
namespace {

using exec::Counts;

constexpr int kMostRounds = 64;
// A transaction cannot grow the table once it has written: so it begins with this load at most.
constexpr double kTransactionLoad = 0.75;

Status bad(std::string message) { return {Code::invalid_argument, std::move(message)}; }

/// Why a batch with these statuses must not take effect.
Status refusal(std::span<std::uint8_t const> status, std::string const& path) {
  for (std::size_t i = 0; i < status.size(); ++i) {
    std::string const which =
        "pool " + path + ": nothing of this batch took effect, for operation " + std::to_string(i);
    switch (static_cast<KeyStatus>(status[i])) {
      case KeyStatus::size_mismatch:
        return bad(which + "'s operand and stored value differ in length");
      case KeyStatus::too_large:
        return bad(which + "'s key or value is longer than the pool allows");
      case KeyStatus::corrupt:
        return {Code::corrupt, which + " found a damaged record (run verify)"};
      default: break;
    }
  }
  return {};
}

}  // namespace

Status GphashStore::check_undoable() const {
  if (pool_.header().layout == static_cast<std::uint8_t>(Layout::word)) return {};
  return {Code::unsupported,
          "pool " + path +
              ": layout in_place writes several words for one change, which the undo "
              "log does not hold; atomic batches need a pool of layout word"};
}

bool GphashStore::is_logged_word(Offset at) const {
  return table_.has_slot(at) || (dense_.is_word(at) && !mutated("step_word_not_undone"));
}

Status GphashStore::check_undo_room(OpenTransaction const& tx, std::uint64_t operations) const {
  if (tx.operations + operations <= undo_.capacity()) return {};
  return {Code::no_space, "pool " + path + ": this transaction has room for " +
                              std::to_string(undo_.capacity()) + " operations, of which " +
                              std::to_string(tx.operations) + " are taken; a batch of " +
                              std::to_string(operations) +
                              " does not fit: begin one with max_operations of at least " +
                              std::to_string(tx.operations + operations)};
}

/// The undo log holds so many entries, and the table so many more records. No transaction is open.
Status GphashStore::make_room_for(std::uint64_t operations) {
  if (Status s = take_records_back(); !s.ok()) return s;
  if (operations > undo_.capacity()) {
    if (operations > (std::uint64_t{1} << 31))
      return bad("a transaction has at most 2^31 operations");
    heap_.give_back_empty();
    if (Status s = undo_.make_room(operations); !s.ok()) return s;
  }
  return pool_may_have_grown();
}

void GphashStore::start_transaction(OpenTransaction& tx) {
  tx.first_step = undo_.step() + 1;
  std::lock_guard const lock(stats_mutex_);
  tx.records_before = records_;
}

/// Slots as they were before that step; their claims have all been let go.
Status GphashStore::undo(std::uint32_t from_step, std::uint64_t records_before) {
  undo_.undo(from_step, [&](Offset word) { return is_logged_word(word); });
  if (!mutated("abort_keeps_count")) {
    std::lock_guard const lock(stats_mutex_);
    records_ = records_before;
  }
  return mutated("mirror_not_refreshed_after_undo") ? Status{} : engine_->refresh();
}

/// Either way the epoch ends, so that entries of this transaction count no more.
Status GphashStore::finish_transaction(OpenTransaction& tx, bool commit) {
  changing_ = true;
  unlogged_ = commit && power_ != nullptr && !tx.logged.empty();
  if (!commit) {
    half_undoable_ = true;
    if (Status s = undo(tx.first_step, tx.records_before); !s.ok()) return fail(s);
    half_undoable_ = false;
  }
  if (commit || !mutated("abort_keeps_entries")) undo_.end();
  if (options.count_accesses) {
    Counts orders;
    orders[Counts::orders] = 1;
    add(orders);
  }
  bool const replaced = commit || mutated("abort_releases_replaced");
  if (commit || !mutated("abort_releases_nothing")) release_all(replaced ? tx.unlinked : tx.used);
  if (!commit || !power_ || tx.logged.empty()) return {};
  std::span<std::byte const> const piece(tx.logged);
  if (Status s = log_pieces({&piece, 1}); !s.ok()) return fail(s);
  unlogged_ = false;
  return {};
}

Status GphashStore::write_atomic(Call const& call, std::span<KeyStatus> statuses) {
  if (Status s = check_undoable(); !s.ok()) return s;
  changing_ = true;
  if (Status s = advance_growth(call.keys.count); !s.ok()) return fail(s);
  if (Status s = make_room_for(call.keys.count); !s.ok()) return s;
  changing_ = false;
  OpenTransaction tx;
  start_transaction(tx);
  Status const done = write_in(tx, call, statuses);
  if (!failed_.ok()) return done;
  Status const finished = finish_transaction(tx, done.ok());
  return done.ok() ? finished : done;
}

/// One batch of a transaction: all of it, or, undone, none. The first may still grow the table.
Status GphashStore::write_in(OpenTransaction& tx, Call const& call, std::span<KeyStatus> statuses) {
  std::uint64_t const n = call.keys.count;
  if (n == 0) return {};
  if (Status s = check_undo_room(tx, n); !s.ok()) return s;
  for (;;) {
    std::uint64_t waiting = 0;
    Status const done = attempt(tx, call, statuses, waiting);
    if (waiting == 0 || !failed_.ok()) return done;
    if (tx.operations > 0 || !options.grow) return done;
    if (!mutated("undo_entries_outlive_growth"))
      undo_.end();  // growth moves slots: no entry may name them
    if (Status s = make_room(waiting); !s.ok()) return s.code() == Code::no_space ? done : fail(s);
    tx.first_step = undo_.step() + 1;
  }
}

/// `waiting`: how many new keys want room, where some of them found none.
Status GphashStore::attempt(OpenTransaction& tx, Call const& call, std::span<KeyStatus> statuses,
                            std::uint64_t& waiting) {
  Running batch;
  if (Status s = prepare(call, statuses, true, batch); !s.ok()) return s;
  std::uint32_t const step = undo_.step() + 1;
  std::uint64_t records_before = 0;
  {
    std::lock_guard const lock(stats_mutex_);
    records_before = records_;
  }
  changing_ = half_undoable_ = true;
  if (Status s = run_undoable_rounds(tx, batch); !s.ok()) return fail(s);
  auto status = batch.session->statuses();
  if (!status) return fail(status.status());
  for (std::size_t i = 0; i < statuses.size(); ++i)
    statuses[i] =
        (*status)[i] == kPending ? KeyStatus::no_space : static_cast<KeyStatus>((*status)[i]);
  Status result = refusal(*status, path);
  if (result.ok() && batch.full) {
    waiting = batch.done[Counts::inserted] + std::max<std::uint64_t>(1, batch.refused);
    result = {
        Code::no_space,
        "pool " + path + ": nothing of this batch took effect, for the table is full" +
            (tx.operations > 0 ? ", and cannot grow inside a transaction: abort it, and begin it "
                                 "with max_operations for all its batches"
                               : " and could not grow")};
  }
  if (result.ok()) {
    if (Status s = keep_attempt(tx, call, batch, *status); !s.ok()) return fail(s);
  } else {
    if (Status s = undo(step, records_before); !s.ok()) return fail(s);
    release_all(batch.reserved);
  }
  if (Status s = batch.session->finish(); !s.ok()) return fail(s);
  half_undoable_ = false;
  give_session(std::move(batch.session));
  return result;
}

/// Without displacement, which would change a second slot for one key.
Status GphashStore::run_undoable_rounds(OpenTransaction const& tx, Running& batch) {
  for (int round = 0; round < kMostRounds; ++round) {
    wal::UndoPlace const place = undo_.next_step(tx.operations);
    auto planned = batch.session->plan(false, &place);
    if (!planned) return planned.status();
    if (mutated("epoch_ends_before_publish")) undo_.end();
    auto published = batch.session->publish();
    if (!published) return published.status();
    batch.done += *planned;
    batch.done += *published;
    add(*planned);
    add(*published);
    if ((*planned)[Counts::pending] == 0) return {};
    batch.refused = (*planned)[Counts::full];
    if (batch.refused != 0) break;
  }
  batch.full = true;
  return {};
}

/// Notes what the batch took and let go of, and, with durability power, what will be logged.
Status GphashStore::keep_attempt(OpenTransaction& tx, Call const& call, Running& batch,
                                 std::span<std::uint8_t const> status) {
  auto const came_to = outcome(batch);
  if (!came_to) return came_to.status();
  release_unused(batch, came_to.value());
  for (std::size_t i = 0; i < batch.reserved.size(); ++i) {
    bool const used = !came_to.value() || came_to.value()->used[i] != 0;
    if (used && batch.reserved[i] != 0) tx.used.push_back(batch.reserved[i]);
  }
  if (came_to.value()) {
    auto const& unlinked = came_to.value()->unlinked;
    if (mutated("unlinked_released_before_commit"))
      release_all(unlinked);
    else
      tx.unlinked.insert(tx.unlinked.end(), unlinked.begin(), unlinked.end());
  }
  tx.operations += call.keys.count;
  if (!power_) return {};
  auto const kept = batch.session->kept();
  if (!kept) return kept.status();
  Effective const effective(kept.value(), status);
  if (effective.empty()) return {};
  wal::EncodedBatch const encoded(effective.ops());
  for (auto const piece : encoded.pieces())
    tx.logged.insert(tx.logged.end(), piece.begin(), piece.end());
  return {};
}

// ------------------------------------------------------------------------------------------------
// Several batches

Result<std::shared_ptr<Transaction::State>> GphashStore::begin(TransactionOptions const& how) {
  if (store_lock_.is_held_here()) return held_by_this_thread();
  ExclusiveLock store_lock(store_lock_);
  if (Status s = check_open(true); !s.ok()) return s;
  if (Status s = check_undoable(); !s.ok()) return s;
  auto state = std::make_shared<Transaction::State>();
  Status const room = whole_or_failed([&]() -> Status {
    changing_ = true;
    if (Status s = grow_for(how.max_operations, kTransactionLoad); !s.ok()) return s;
    return make_room_for(how.max_operations + (dense_.exists() ? 1 : 0));
  });
  if (!room.ok()) return room;
  state->store = this;
  state->store_lock = std::move(store_lock);
  start_transaction(state->open);
  transaction_ = state;
  store_lock_.hold(state.get());
  return state;
}

/// After a failure inside it, what it wrote is unknown: recovery undoes it at the next open, and
/// nobody sees it until then.
Status GphashStore::end_in(Transaction::State& transaction, bool commit) {
  if (failed_.ok()) return finish_transaction(transaction.open, commit);
  half_undoable_ |= transaction.open.operations > 0;
  return failed_;
}

Status GphashStore::end(Transaction::State* transaction, bool commit) {
  Status const ended{Code::closed, "this transaction has ended already"};
  GphashStore* const found = transaction != nullptr ? transaction->store.load() : nullptr;
  if (found == nullptr) return ended;
  GphashStore& store = *found;
  Status done;
  std::shared_ptr<wal::LogDir> power;
  wal::Lsn lsn = 0;
  std::shared_ptr<Transaction::State> keep;  // `transaction` may be the last to hold it
  ExclusiveLock store_lock;
  {
    ExclusiveLock const inside(store.store_lock_, transaction);
    if (inside.way() == Way::none) return ended;  // on another thread
    done = store.whole_or_failed([&] { return store.end_in(*transaction, commit); });
    if (commit) power = store.power_;
    if (power) lsn = power->log().position().lsn;
    store_lock = std::move(transaction->store_lock);
    keep = std::move(store.transaction_);
    transaction->store = nullptr;
    store.store_lock_.hold_no_more();
  }
  if (done.ok()) store.checkpoint_in_time(store_lock);
  if (!done.ok() || !power || mutated("transaction_acknowledged_early")) return done;
  return power->log().wait_durable(lsn);
}

}  // namespace perdure
