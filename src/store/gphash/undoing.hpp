// How the batches of a transaction are undone, and how it commits: in layout `word` by the undo log
// of slot words, in layout `log` by parts of the log of entries. Invariants: a crash before
// commit() leaves nothing of the transaction, and one after it leaves all; undone, the table
// answers as before.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "store/gphash/core.hpp"
#include "store/gphash/growth.hpp"
#include "store/gphash/open_transaction.hpp"
#include "store/gphash/power_log.hpp"
#include "store/gphash/records.hpp"
#include "store/gphash/write.hpp"

namespace perdure {

class Undoing {
 public:
  virtual ~Undoing() = default;

  /// For a transaction of several batches, or of one, with so many operations in all. None is open.
  virtual Status make_room(std::uint64_t operations, bool several) = 0;
  virtual void begin(OpenTransaction& tx, std::uint64_t operations) = 0;

  /// Runs a batch that has been prepared.
  virtual Status run(OpenTransaction const& tx, WriteBatch& batch) = 0;
  /// It stays. Its records have not been noted yet.
  virtual Status keep(OpenTransaction& tx, WriteBatch& batch) = 0;
  /// It did not, and the table is as it was before it.
  virtual Status undo_batch(WriteBatch& batch) = 0;
  /// A batch that was undone lacked room for so many new keys. True: there is some now.
  virtual Result<bool> grow(OpenTransaction& tx, std::uint64_t waiting) = 0;

  /// Ends the undo log's epoch with it where that is open. Durable when they return.
  virtual Status commit(OpenTransaction& tx) = 0;
  virtual Status abort(OpenTransaction& tx) = 0;

  /// After an opening: the last transaction, which can be taken back. What it unlinked may be named
  /// with records that slots lead to. None: what it needs is not there.
  [[nodiscard]] virtual std::optional<OpenTransaction> last() = 0;
  /// It is open again, durably: abort() comes next.
  virtual void reopen() = 0;

  /// Why a batch found no room, in a transaction that has written.
  [[nodiscard]] virtual std::string full() const = 0;
};

/// Slot words that a batch is about to overwrite are logged. Order: records and undo entries |
/// order | slot words | order | epoch | order. Invariant: the table does not grow once the
/// transaction has written, and nothing is displaced, for entries name slots.
class SlotsUndone final : public Undoing {
 public:
  SlotsUndone(Core& core, Records& records, Growth& growth, BatchWriter& writer, PowerLog& log)
      : core_(core), records_(records), growth_(growth), writer_(writer), log_(log) {}

  Status make_room(std::uint64_t operations, bool several) override;
  void begin(OpenTransaction& tx, std::uint64_t operations) override;
  Status run(OpenTransaction const& tx, WriteBatch& batch) override;
  Status keep(OpenTransaction& tx, WriteBatch& batch) override;
  Status undo_batch(WriteBatch& batch) override;
  Result<bool> grow(OpenTransaction& tx, std::uint64_t waiting) override;
  Status commit(OpenTransaction& tx) override;
  Status abort(OpenTransaction& tx) override;
  [[nodiscard]] std::optional<OpenTransaction> last() override;
  void reopen() override;
  [[nodiscard]] std::string full() const override;

 private:
  Status undo(std::uint32_t from_step, std::uint64_t records_before);

  Core& core_;
  Records& records_;
  Growth& growth_;
  BatchWriter& writer_;
  PowerLog& log_;
  std::uint32_t batch_step_ = 0;  // the first of the batch that ran last
  std::uint64_t batch_records_ = 0;  // keys before it
};

/// Batches are parts of the log of entries, each ordered by itself, and an extent commits them. One
/// batch by itself is an extent like any other. What is undone was in memory alone: behind its
/// entries each batch writes others that say what was there before, and those are put into the
/// table. A step's word is in the undo log all the same, and the extent that commits names its
/// epoch, so that one ordering point commits both.
class PartsDropped final : public Undoing {
 public:
  PartsDropped(Core& core, Records& records, Growth& growth, BatchWriter& writer, PowerLog& log)
      : core_(core), records_(records), growth_(growth), writer_(writer), log_(log) {}

  Status make_room(std::uint64_t operations, bool several) override;
  void begin(OpenTransaction& tx, std::uint64_t operations) override;
  Status run(OpenTransaction const& tx, WriteBatch& batch) override;
  Status keep(OpenTransaction& tx, WriteBatch& batch) override;
  Status undo_batch(WriteBatch& batch) override;
  Result<bool> grow(OpenTransaction& tx, std::uint64_t waiting) override;
  Status commit(OpenTransaction& tx) override;
  Status abort(OpenTransaction& tx) override;
  [[nodiscard]] std::optional<OpenTransaction> last() override;
  void reopen() override;
  [[nodiscard]] std::string full() const override;

 private:
  Core& core_;
  Records& records_;
  Growth& growth_;
  BatchWriter& writer_;
  PowerLog& log_;
};

/// What the undo log names, slots and the dense room's word, is as it was before that step,
/// durably. How many words that were.
std::uint64_t undo_words(Core& core, std::uint32_t from_step);
/// Of a transaction.
[[nodiscard]] Status check_operations(std::uint64_t operations);
/// The undo log holds so many entries. No transaction is open.
Status make_undo_room(Core& core, Records& records, PowerLog& log, std::uint64_t entries);

}  // namespace perdure
