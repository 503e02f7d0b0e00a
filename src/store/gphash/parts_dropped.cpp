// Transactions of layout `log`: parts of its log.
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
  bool const early = tx.step && mutated("step_ends_before_its_commit");
  std::uint64_t const epoch = tx.step ? core_.undo.ended() + 1 : 0;
  if (early) core_.undo.end();
  writer_.commit_entries(epoch);
  if (tx.step && !early) core_.undo.end();
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
  if (tx.step) core_.undo.end();
  return {};
}

std::string PartsDropped::full() const { return " and could not grow"; }

}  // namespace perdure
