#include "store/gphash/power_log.hpp"

#include <utility>

#include "base/assert.hpp"
#include "base/caught.hpp"
#include "store/checks.hpp"
#include "store/gphash/logged_batch.hpp"
#include "wal/batch_record.hpp"

namespace perdure {

Status PowerLog::create(CreateOptions const& create) {
  if (create.durability != Durability::power) return {};
  PERDURE_ASSERT(core_.power == nullptr);
  auto power = wal::LogDir::create(create.log.dir, core_.pool.header().pool_id, create.log.bytes,
                                   make_options(create.file));
  if (!power) return power.status();
  return caught([&]() -> Status {
    core_.power = std::move(*power);
    core_.power->log().note_in(pm::LogWord(core_.pool.base()));
    return checkpoint();  // of the empty pool: from here on it can be made anew
  });
}

/// The pool first: until the log has its own names, an older pool can be had from its log.
Status PowerLog::keep() {
  if (Status s = core_.pool.keep(); !s.ok()) return s;
  Status s = core_.power ? caught([this] { return core_.power->keep(); }) : Status{};
  if (!s.ok()) core_.pool.take_away();
  return s;
}

LogMoment PowerLog::moment() const {
  if (!core_.power) return {};
  return {core_.power, core_.power->log().position().lsn};
}

Status PowerLog::append(Session& session, std::span<std::uint8_t const> status) {
  if (!core_.power) return {};
  PERDURE_ASSERT(core_.health.unlogged);  // until it is in the log, nothing else tells of it
  auto const batch = session.download(Download::columns);
  if (!batch) return batch.status();
  Effective const effective(batch.value().columns, status);
  return effective.empty() ? Status{} : append_pieces(wal::EncodedBatch(effective.ops()).pieces());
}

exec::Aside& PowerLog::aside() {
  PERDURE_ASSERT(core_.is_exclusive());
  if (aside_ == nullptr) aside_ = std::make_unique<exec::Aside>();
  return *aside_;
}

/// What the log has no room for becomes durable with the checkpoint that makes room, for it has
/// been executed. First it waits for the one that is running.
Status PowerLog::append_pieces(std::span<std::span<std::byte const> const> pieces) {
  PERDURE_ASSERT(core_.power != nullptr);
  wal::RedoLog& log = core_.power->log();
  PERDURE_ASSERT(core_.is_exclusive() && !pieces.empty());
  wal::Lsn const before = log.position().lsn;
  auto lsn = log.append(pieces);
  PERDURE_ASSERT(!lsn.ok() || lsn.value() > before);
  if (!lsn.ok() && log.failure().ok() && core_.power->checkpoint_runs()) {
    if (Status s = finish_running(); !s.ok()) return s;
    lsn = log.append(pieces);
  }
  if (lsn.ok()) return {};
  if (!log.failure().ok()) return lsn.status();
  log.skip_batch();
  return checkpoint();
}

// ------------------------------------------------------------------------------------------------
// Checkpoints

Status PowerLog::checkpoint() {
  PERDURE_ASSERT(core_.power != nullptr && (!core_.lock.announced() || core_.lock.has_writer()));
  give_up();
  return core_.power->checkpoint({core_.pool.base(), core_.pool.bytes()});
}

void PowerLog::give_up() {
  if (!core_.power || !core_.power->checkpoint_runs()) return;
  PERDURE_ASSERT(core_.is_exclusive());
  core_.power->give_up_checkpoint();
  hold_what_is_not_copied();
}

/// Readers go on: nothing is written to the pool, for writers wait, beside batches for a piece
/// alone, and never for the disk. One that fails ends writing, and no batch is lost with it: they
/// are in the log.
void PowerLog::checkpoint_in_time(ExclusiveLock& store_lock) {
  if (!core_.power || core_.health.failed()) return;
  hold_what_is_not_copied();
  if (!core_.power->checkpoint_runs() && !core_.power->wants_checkpoint()) return;
  PERDURE_ASSERT(store_lock.way() == Way::lock);
  store_lock.let_readers_in();
  Status done = caught([this] { return can_go_beside() ? go_on() : checkpoint(); });
  if (done.ok()) return;
  store_lock.keep_readers_out();
  core_.health.fail_unheard(std::move(done));  // by the batch after which it came
}

/// Records are never changed where they lie, and it is the heap that hands them out.
bool PowerLog::can_go_beside() const {
  return !core_.in_place() && !core_.logged() && core_.engine->lease() == nullptr;
}

Status PowerLog::go_on() {
  wal::LogDir& power = *core_.power;
  if (power.checkpoint_runs()) return power.go_on_with_checkpoint(frozen(), side_by_side());
  if (Status s = frozen_.freeze(core_.pool, core_.heap, core_.workers); !s.ok()) return s;
  if (Status s = power.begin_checkpoint(frozen_.bytes()); !s.ok()) return s;
  core_.heap.hold_from(0);
  return {};
}

/// Waits for the disk: space lacks.
Status PowerLog::finish_running() {
  PERDURE_ASSERT(core_.is_exclusive());
  wal::LogDir& power = *core_.power;
  Status s;
  if (power.checkpoint_runs()) s = power.finish_checkpoint(frozen(), side_by_side());
  hold_what_is_not_copied();
  return s;
}

/// After the copying of a piece the records in it may be written anew.
void PowerLog::hold_what_is_not_copied() {
  wal::LogDir const& power = *core_.power;
  core_.heap.hold_from(power.checkpoint_runs()
                           ? power.checkpoint_copied() / core_.pool.superblock_bytes()
                           : pm::RecordHeap::kHoldsNothing);
}

wal::ImageSource PowerLog::frozen() const {
  return [this](std::uint64_t at, std::span<std::byte> into) { frozen_.read(at, into); };
}

wal::ForEach PowerLog::side_by_side() const {
  return [this](std::size_t n, std::function<void(std::size_t)> const& f) {
    core_.workers.for_chunks(n, 1, [&](std::size_t begin, std::size_t end) {
      for (std::size_t i = begin; i < end; ++i) f(i);
    });
  };
}

}  // namespace perdure
