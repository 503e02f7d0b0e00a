// Atomic batches and transactions: batches whose slots' old words are logged before they are
// overwritten, so that all of them can be undone until one word commits them. Order of a commit:
// records and undo entries | order | slot words | order | epoch | order. Invariants: records that a
// transaction unlinked are reachable from the undo log, so nobody gets them before it has ended;
// and the table does not grow once it has written, for entries name slots.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "base/process.hpp"
#include "perdure/store.h"
#include "store/gphash/core.hpp"
#include "store/gphash/growth.hpp"
#include "store/gphash/power_log.hpp"
#include "store/gphash/records.hpp"
#include "store/gphash/write.hpp"

namespace perdure {

class GphashStore;

struct OpenTransaction {
  // so far, a step among them; as many entries of the undo log are taken
  std::uint64_t operations = 0;
  std::uint32_t first_step = 0;
  std::vector<std::uint64_t> used;  // records that it published
  std::vector<std::uint64_t> unlinked;  // records that it replaced or erased
  std::vector<std::byte> logged;  // durability power: its batches, encoded
  std::uint64_t records_before = 0;
  std::optional<std::uint64_t> step;  // written
  // An atomic batch by itself: its records may be the lease's, and this session, which took them,
  // gives back what it unlinked and did not use.
  bool alone = false;
  std::unique_ptr<Session> session;
};

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
  Transactions(Core& core, Records& records, Growth& growth, BatchWriter& writer, PowerLog& log)
      : core_(core), records_(records), growth_(growth), writer_(writer), log_(log) {}

  /// By the owner of the open one.
  Status write(Call const& call, std::span<KeyStatus> statuses, CallOptions const& how);
  /// One batch that is a transaction by itself.
  Status write_atomic(Call const& call, std::span<KeyStatus> statuses);
  Result<std::shared_ptr<Transaction::State>> begin(GphashStore& store,
                                                    TransactionOptions const& how);
  Status end(Transaction::State& transaction, bool commit);

  Status check_undoable() const;
  Status check_undo_room(OpenTransaction const& tx, std::uint64_t operations) const;
  /// The words that the undo log may name.
  [[nodiscard]] bool is_logged_word(Offset at) const;

 private:
  Status write_in(OpenTransaction& tx, Call const& call, std::span<KeyStatus> statuses);
  Status attempt(OpenTransaction& tx, Call const& call, std::span<KeyStatus> statuses,
                 std::uint64_t& waiting);
  Status passes(OpenTransaction const& tx, WriteBatch& batch);
  [[nodiscard]] Status refusal(OpenTransaction const& tx, WriteBatch const& batch,
                               std::span<std::uint8_t const> status) const;
  Status release_refused(WriteBatch& batch);
  Status release_leased(OpenTransaction& tx);
  Status keep_attempt(OpenTransaction& tx, WriteBatch& batch, std::span<std::uint8_t const> status);
  Status keep_for_log(OpenTransaction& tx, WriteBatch& batch,
                      std::span<std::uint8_t const> status) const;
  Status make_undo_room(std::uint64_t operations);
  void start(OpenTransaction& tx);
  Status undo(std::uint32_t from_step, std::uint64_t records_before);
  Status finish(OpenTransaction& tx, bool commit);
  Status end_in(Transaction::State& transaction, bool commit);

  Core& core_;
  Records& records_;
  Growth& growth_;
  BatchWriter& writer_;
  PowerLog& log_;
};

}  // namespace perdure
