// Atomic batches and transactions: batches all of which can be undone until one store commits them;
// how, the layout says (undoing.hpp). One that is revertible can be taken back after that, until
// anything else is written. Invariant: recovery, or taking it back, may bring back records that a
// transaction unlinked, so nobody gets them before it has ended for good.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "base/process.hpp"
#include "perdure/store.h"
#include "store/gphash/core.hpp"
#include "store/gphash/growth.hpp"
#include "store/gphash/open_transaction.hpp"
#include "store/gphash/power_log.hpp"
#include "store/gphash/records.hpp"
#include "store/gphash/undoing.hpp"
#include "store/gphash/write.hpp"

namespace perdure {

class GphashStore;

/// What a caller holds: the open transaction, until it ends or its store closes.
struct Transaction::State {
  std::atomic<GphashStore*> store{nullptr};  // null once it has ended
  std::uint64_t process = this_process();
  OpenTransaction open;
  ExclusiveLock store_lock;
};

/// "This transaction has ended already".
[[nodiscard]] Status transaction_ended();

class Transactions {
 public:
  Transactions(Core& core, Records& records, Growth& growth, BatchWriter& writer, PowerLog& log);

  /// By the owner of the open one.
  Status write(Call const& call, std::span<KeyStatus> statuses, CallOptions const& how);
  /// One batch that is a transaction by itself.
  Status write_atomic(Call const& call, std::span<KeyStatus> statuses);
  Result<std::shared_ptr<Transaction::State>> begin(GphashStore& store,
                                                    TransactionOptions const& how);
  Status end(Transaction::State& transaction, bool commit);

  /// After an opening: what has committed last, if it can be taken back.
  void find_last();
  /// Before anything else changes the pool: what has committed last stays.
  Status keep_last();
  /// The pool is as it was before the transaction that has committed last.
  Status revert();
  [[nodiscard]] bool can_revert() const { return core_.last.has_value(); }

  Status check_undoable() const;
  Status check_room(OpenTransaction const& tx, std::uint64_t operations) const;

 private:
  Status write_in(OpenTransaction& tx, Call const& call, std::span<KeyStatus> statuses);
  Status attempt(OpenTransaction& tx, Call const& call, std::span<KeyStatus> statuses,
                 std::uint64_t& waiting);
  [[nodiscard]] Status refusal(OpenTransaction const& tx, WriteBatch const& batch,
                               std::span<std::uint8_t const> status) const;
  Status release_refused(WriteBatch& batch);
  Status release_leased(OpenTransaction& tx);
  Status take_over(OpenTransaction& tx);
  Status keep_attempt(OpenTransaction& tx, WriteBatch& batch, std::span<std::uint8_t const> status);
  Status keep_leased(OpenTransaction& tx, WriteBatch& batch, std::span<std::uint8_t const> status);
  static void note_unlinked(OpenTransaction& tx, Downloaded const& outcome);
  Status keep_for_log(OpenTransaction& tx, WriteBatch& batch,
                      std::span<std::uint8_t const> status) const;
  void start(OpenTransaction& tx, std::uint64_t operations);
  Status finish(OpenTransaction& tx, bool commit);
  Status release(OpenTransaction& tx, bool committed);
  Status take_back();
  [[nodiscard]] Status check_revertible() const;
  Status end_in(Transaction::State& transaction, bool commit);

  Core& core_;
  Records& records_;
  Growth& growth_;
  BatchWriter& writer_;
  PowerLog& log_;
  std::unique_ptr<Undoing> undoing_;
};

}  // namespace perdure
