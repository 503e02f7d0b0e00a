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
  Status const done =
      effective.empty() ? Status{} : append_pieces(wal::EncodedBatch(effective.ops()).pieces());
  if (done.ok()) core_.health.unlogged = false;
  return done;
}

/// What the log has no room for becomes durable with the checkpoint that makes room, for it has
/// been executed.
Status PowerLog::append_pieces(std::span<std::span<std::byte const> const> pieces) {
  PERDURE_ASSERT(core_.power != nullptr);
  wal::RedoLog& log = core_.power->log();
  PERDURE_ASSERT(core_.is_exclusive() && !pieces.empty());
  wal::Lsn const before = log.position().lsn;
  auto const lsn = log.append(pieces);
  PERDURE_ASSERT(!lsn.ok() || lsn.value() > before);
  if (lsn.ok()) return {};
  if (!log.failure().ok()) return lsn.status();
  log.skip_batch();
  return checkpoint();
}

/// Readers go on: nothing is written to the pool, for writers wait. One that fails ends writing,
/// and no batch is lost with it: they are in the log.
void PowerLog::checkpoint_in_time(ExclusiveLock& store_lock) {
  if (!core_.power || core_.health.failed() || !core_.power->wants_checkpoint()) return;
  PERDURE_ASSERT(store_lock.way() == Way::lock);
  store_lock.let_readers_in();
  Status done = caught([this] { return checkpoint(); });
  if (done.ok()) return;
  store_lock.keep_readers_out();
  core_.health.fail_unheard(std::move(done));  // by the batch after which it came
}

Status PowerLog::checkpoint() {
  PERDURE_ASSERT(core_.power != nullptr && (!core_.lock.announced() || core_.lock.has_writer()));
  return core_.power->checkpoint({core_.pool.base(), core_.pool.bytes()});
}

}  // namespace perdure
