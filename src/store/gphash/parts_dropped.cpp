// Transactions of layout `log`: parts of its log.
#include <cstring>
#include <vector>

#include "base/assert.hpp"
#include "base/hooks.hpp"
#include "store/gphash/undoing.hpp"

namespace perdure {

/// A step has one entry in the undo log, for its word.
Status PartsDropped::make_room(std::uint64_t operations, bool several) {
  if (several && core_.dense.exists()) {
    if (Status s = make_undo_room(core_, records_, log_, 1); !s.ok()) return s;
  }
  if (!several) return {};  // as each batch makes it for itself
  return core_.of_transaction(writer_.make_room_for_entries(2 * operations), operations);
}

void PartsDropped::begin(OpenTransaction& tx, std::uint64_t operations) {
  PERDURE_ASSERT(core_.entries.parts().empty() || mutated("abort_keeps_parts"));
  tx.room = operations + (core_.dense.exists() ? 1 : 0);
  tx.first_step = core_.undo.step() + 1;
}

Status PartsDropped::run(OpenTransaction const& tx, WriteBatch& batch) {
  Status const s = tx.alone ? Status{} : growth_.advance(batch.call.keys.count);
  if (!s.ok()) return s;
  return writer_.passes(batch);
}

Status PartsDropped::keep(OpenTransaction& tx, WriteBatch& batch) {
  return writer_.seal(batch, tx.alone ? wal::ExtentKind::batch : wal::ExtentKind::part);
}

Status PartsDropped::undo_batch(WriteBatch& batch) {
  Status const s = writer_.undo_entries(batch.call.keys.count);
  core_.health.changing = true;
  return s;
}

/// It has grown already, if it could.
Result<bool> PartsDropped::grow(OpenTransaction&, std::uint64_t) { return false; }

Status PartsDropped::commit(OpenTransaction& tx) {
  if (tx.operations == 0 || tx.alone) return {};  // the batch's own extent counts
  bool const ends_epoch = tx.step || tx.revertible;
  bool const early = ends_epoch && mutated("step_ends_before_its_commit");
  std::uint64_t const epoch = ends_epoch ? core_.undo.ended() + 1 : 0;
  if (early) core_.undo.end(tx.revertible);
  writer_.commit_entries(epoch | (tx.revertible ? pm::kEpochRevertible : 0));
  if (ends_epoch && !early) core_.undo.end(tx.revertible);
  return {};
}

/// Until the parts are gone, a crash leaves the same to recovery, which knows no more than that
/// nothing commits them.
Status PartsDropped::abort(OpenTransaction& tx) {
  Status const s = mutated("abort_keeps_table") ? Status{} : writer_.undo_parts();
  core_.health.changing = true;
  if (!s.ok()) return s;
  PERDURE_ASSERT(core_.counters.records() == tx.records_before || mutated("abort_keeps_parts") ||
                 mutated("abort_keeps_table") || mutated("copy_swallows_parts"));
  if (tx.step) undo_words(core_, tx.first_step);
  core_.entries.drop_parts();
  if (tx.step || tx.revertible) core_.undo.end();
  return {};
}

/// The epoch first: while the commit is there, it says that this one has ended.
void PartsDropped::reopen() {
  bool const late = mutated("commit_voided_before_its_epoch");
  if (!late) core_.undo.reopen();
  core_.entries.reopen_parts();
  if (late) core_.undo.reopen();
}

std::optional<OpenTransaction> PartsDropped::last() {
  auto const parts = core_.entries.last_parts();
  if (!parts) return std::nullopt;
  OpenTransaction tx;
  tx.first_step = 1;
  if (core_.dense.exists()) tx.step = core_.dense.step();
  tx.records_before = core_.counters.records();
  wal::EntryLog const& log = core_.entries;
  std::vector<std::byte> cells;
  auto const what = [&](std::uint64_t i) {
    wal::LogEntry entry;
    std::memcpy(&entry, &cells[i * log.cell_bytes()], sizeof entry);
    return entry.what;
  };
  for (auto const& part : *parts) {
    cells.resize(part.entries * log.cell_bytes());
    log.copy(part, 0, cells);
    for (std::uint64_t i = 0, n = part.entries / 2; i < n; ++i) {
      std::uint64_t const now = what(i), before = what(n + i);
      if (wal::says_put(now)) tx.used.push_back(wal::record_of(now).bytes);
      if (wal::says_put(before)) tx.unlinked.push_back(wal::record_of(before).bytes);
      tx.records_before += wal::says_put(before) ? 1 : 0;
      tx.records_before -= wal::says_put(now) ? 1 : 0;
    }
  }
  return tx;
}

std::string PartsDropped::full() const { return " and could not grow"; }

}  // namespace perdure
