// Transactions of layout `word`: their undo log.
#include <algorithm>

#include "base/assert.hpp"
#include "base/hooks.hpp"
#include "index/gphash/layout.hpp"
#include "pm/host_verbs.hpp"
#include "store/checks.hpp"
#include "store/gphash/undoing.hpp"

namespace perdure {
namespace {

// A transaction cannot grow the table once it has written: so it begins with this load at most.
constexpr double kTransactionLoad = 0.75;

}  // namespace

std::uint64_t undo_words(Core& core, std::uint32_t from_step) {
  PERDURE_ASSERT(core.is_exclusive());
  return core.undo.undo(from_step, [&](Offset word) {
    return core.table.has_slot(word) ||
           (core.dense.is_word(word) && !mutated("step_word_not_undone"));
  });
}

Status check_operations(std::uint64_t operations) {
  if (operations <= std::uint64_t{1} << 31) return {};
  return bad_argument("a transaction has at most 2^31 operations");
}

Status make_undo_room(Core& core, Records& records, PowerLog& log, std::uint64_t entries) {
  PERDURE_ASSERT(core.transaction == nullptr && core.is_exclusive());
  if (entries > core.undo.capacity()) {
    if (Status s = records.end_lease(); !s.ok()) return s;
    if (Status s = check_operations(entries); !s.ok()) return s;
    auto const make = [&] {
      core.heap.give_back_empty();
      return core.undo.make_room(entries);
    };
    if (Status s = log.with_held_space(make); !s.ok()) return s;
  }
  PERDURE_ASSERT(entries <= core.undo.capacity());
  core.pool_may_have_grown();
  return {};
}

/// The undo log first: it takes more than the table, which keeps its size once it has grown.
Status SlotsUndone::make_room(std::uint64_t operations, bool several) {
  if (!several) return make_undo_room(core_, records_, log_, operations);
  std::uint64_t const entries = operations + (core_.dense.exists() ? 1 : 0);
  Status const s = make_undo_room(core_, records_, log_, entries);
  if (!s.ok()) return core_.of_transaction(s, operations);
  auto const grow = [&] { return growth_.grow_for(operations, kTransactionLoad); };
  return log_.with_held_space(grow);
}

void SlotsUndone::begin(OpenTransaction& tx, std::uint64_t) {
  tx.room = core_.undo.capacity();
  tx.first_step = core_.undo.step() + 1;
}

/// Without displacement, which would change a second slot for one key.
Status SlotsUndone::run(OpenTransaction const& tx, WriteBatch& batch) {
  batch_step_ = core_.undo.step() + 1;
  batch_records_ = core_.counters.records();
  for (int number = 0; number < kMostPasses; ++number) {
    wal::UndoRegion const region = core_.undo.next_step(tx.undo_entries);
    PERDURE_ASSERT(region.first + batch.call.keys.count <= core_.undo.capacity());
    auto const counts = writer_.pass(batch, false, &region);
    if (!counts) return counts.status();
    PERDURE_ASSERT(counts.value()[BatchCounts::displaced] == 0);
    if (counts.value()[BatchCounts::pending] == 0) return {};
    batch.refused = counts.value()[BatchCounts::full];
    if (batch.refused != 0) break;
  }
  batch.full = true;
  return {};
}

Status SlotsUndone::keep(OpenTransaction& tx, WriteBatch& batch) {
  // Each pass has had a step of its own.
  PERDURE_ASSERT(core_.undo.step() >= batch_step_ || mutated("epoch_ends_before_publish"));
  tx.undo_entries += batch.call.keys.count;
  return {};
}

/// Slots as they were before that step; their claims have all been released.
Status SlotsUndone::undo(std::uint32_t from_step, std::uint64_t records_before) {
  PERDURE_ASSERT(from_step > 0 && core_.is_exclusive() && core_.health.changing);
  undo_words(core_, from_step);
  if (!mutated("abort_keeps_count")) core_.counters.set_records(records_before);
  return mutated("mirror_not_refreshed_after_undo") ? Status{} : core_.engine->refresh();
}

Status SlotsUndone::undo_batch(WriteBatch&) {
  Status const s = undo(batch_step_, batch_records_);
  if (s.ok() && !mutated("undo_entries_outlive_growth")) core_.undo.forget(batch_step_);
  return s;
}

Result<bool> SlotsUndone::grow(OpenTransaction& tx, std::uint64_t waiting) {
  if (tx.operations > 0 || !core_.options.grow) return false;
  // growth moves slots: no entry may name them
  if (!mutated("undo_entries_outlive_growth")) core_.undo.end();
  auto const grow = [&]() -> Status {
    Status const s = growth_.make_room(waiting);
    // To its end: else the next process completes it, and no entry names a slot any more.
    return s.ok() && tx.revertible ? growth_.complete() : s;
  };
  if (Status s = log_.with_held_space(grow); !s.ok())
    return s.code() == Code::no_space ? Result<bool>(false) : Result<bool>(s);
  tx.first_step = core_.undo.step() + 1;
  return true;
}

Status SlotsUndone::commit(OpenTransaction& tx) {
  PERDURE_ASSERT(tx.undo_entries <= core_.undo.capacity());
  core_.undo.end(tx.revertible);
  return {};
}

/// The epoch ends, so that entries of this transaction count no more.
Status SlotsUndone::abort(OpenTransaction& tx) {
  if (Status s = undo(tx.first_step, tx.records_before); !s.ok()) return s;
  if (!mutated("abort_keeps_entries")) core_.undo.end();
  return {};
}

void SlotsUndone::reopen() { core_.undo.reopen(); }

namespace {

/// What a slot has led to, the oldest first: of the transaction are all but that. A batch that was
/// refused may have left entries, too, with what it wrote and unlinked.
void note_slot(OpenTransaction& tx, std::vector<std::uint64_t> const& led_to) {
  for (std::uint64_t const record : led_to) {
    if (record != 0) tx.unlinked.push_back(record);
    if (record != 0 && record != led_to[0]) tx.used.push_back(record);
  }
}

void each_once(std::vector<std::uint64_t>& records) {
  std::ranges::sort(records);
  auto const again = std::ranges::unique(records);
  records.erase(again.begin(), again.end());
}

}  // namespace

std::optional<OpenTransaction> SlotsUndone::last() {
  OpenTransaction tx;
  tx.first_step = 1;
  std::vector<wal::UndoEntry> const entries =
      core_.undo.of_last([&](Offset word) { return core_.table.has_slot(word); });
  std::uint64_t before = core_.counters.records();
  std::vector<std::uint64_t> led_to;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    std::uint64_t const slot = entries[i].slot;
    led_to.push_back(gphash::word::record(entries[i].old).bytes);
    if (i + 1 < entries.size() && entries[i + 1].slot == slot) continue;
    std::uint64_t const word = pm::load_word(core_.pool.base() + slot);
    led_to.push_back(gphash::word::record(word).bytes);
    note_slot(tx, led_to);
    before += led_to.front() != 0 ? 1 : 0;
    before -= led_to.back() != 0 ? 1 : 0;
    led_to.clear();
  }
  each_once(tx.used);
  each_once(tx.unlinked);
  tx.records_before = before;
  return tx;
}

std::string SlotsUndone::full() const {
  return ", and cannot grow inside a transaction: abort it, and begin it with max_operations for "
         "all its batches";
}

}  // namespace perdure
