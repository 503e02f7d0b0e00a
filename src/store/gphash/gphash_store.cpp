#include "store/gphash/gphash_store.hpp"

#include <chrono>
#include <utility>

#include "base/assert.hpp"
#include "base/caught.hpp"
#include "base/hooks.hpp"
#include "batch/pieces.hpp"
#include "store/checks.hpp"
#include "store/repair_reports.hpp"
#include "wal/snapshot_file.hpp"

namespace perdure {

// ------------------------------------------------------------------------------------------------
// Transactions and steps

Status GphashStore::end(Transaction::State* transaction, bool commit) {
  GphashStore* const store = transaction != nullptr ? transaction->store.load() : nullptr;
  return store != nullptr ? store->transactions_.end(*transaction, commit) : transaction_ended();
}

Status GphashStore::write_step(Transaction::State* transaction, std::uint64_t step,
                               CUstream_st* stream) {
  GphashStore* const store = transaction != nullptr ? transaction->store.load() : nullptr;
  return store != nullptr ? store->steps_.write(*transaction, step, stream) : transaction_ended();
}

Result<bool> GphashStore::can_revert() {
  SharedLock const store_lock(core_.lock);
  if (Status s = core_.check_open(false); !s.ok()) return s;
  return transactions_.can_revert() && !core_.pool.read_only();  // as a live look is
}

// ------------------------------------------------------------------------------------------------
// Closing

/// For those who close or release the store: what fails here and did not before, nobody has heard
/// of.
void GphashStore::end_holder() noexcept {
  if (!core_.lock.enter_as_holder()) return;
  auto const session = core_.device_session;
  auto const transaction = core_.transaction;
  PERDURE_ASSERT((session != nullptr) != (transaction != nullptr));  // one of them is the holder
  bool const heard = core_.health.failed();
  core_.lock.leave_inside(false);
  Status done;
  if (session) done = caught([&] { return end(session.get()); });
  if (transaction) done = caught([&] { return end(transaction.get(), false); });
  if (!heard && !done.ok()) core_.health.unheard = std::move(done);
}

Status GphashStore::close() {
  if (core_.lock.is_held_here()) end_holder();  // else it ends first
  ExclusiveLock const store_lock(core_.lock);
  PERDURE_ASSERT(core_.transaction == nullptr && core_.device_session == nullptr);
  if (core_.closed) return {};
  core_.closed = true;
  Status& unheard = core_.health.unheard;
  // Whatever fails in here, the pool is released, and was not closed in order.
  if (Status s = core_.health.whole_or_failed([&] { return close_in(); }); !s.ok())
    unheard = std::move(s);
  core_.last.reset();  // whose sessions are the engine's
  core_.sessions.clear();
  shared_gets_.clear();
  core_.engine.reset();
  if (core_.power) core_.power->log().note_in({});  // others may still wait for it
  core_.power.reset();
  changes_.end(true);
  core_.viewed->keep(core_.pool.close_but_for_mapping());
  core_.viewed.reset();  // unmaps it, if no view is left
  if (unheard.ok()) return {};
  return caught([&]() -> Status {
    return {unheard.code(),
            "pool " + path +
                " was not closed in order, and is recovered when it is opened again, with all that "
                "was acknowledged: " +
                unheard.message()};
  });
}

Status GphashStore::close_in() {
  if (core_.pool.read_only() || core_.health.failed()) return {};
  log_.give_up();
  // So that it opens read-only, too. Without room for it, the next open goes on. What can be taken
  // back stays so where it names no slots, which move.
  if (core_.table.growing()) {
    if (Status s = core_.logged() ? Status{} : transactions_.keep_last(); !s.ok()) return s;
    if (Status s = growth_.complete(); !s.ok() && s.code() != Code::no_space) return s;
  }
  PERDURE_ASSERT(core_.is_exclusive() && !core_.health.half_undoable);
  if (Status s = core_.show_words(); !s.ok()) return s;
  auto note = recovery_.closing_note();
  // The next opening asks for a log that has got so far, and this file may outlive a power loss.
  LogMoment const end = log_.moment();
  if (Status s = end.wait_durable(); !s.ok()) return s;
  note->log_lsn = end.lsn;
  core_.pool.publish_clean(note);
  // Should it fail, nothing is lost: the log holds what the older image lacks.
  return core_.power ? log_.checkpoint() : Status{};
}

// ------------------------------------------------------------------------------------------------
// Looking around

Stats GphashStore::stats() {
  SharedLock const store_lock(core_.lock);
  Stats s;
  pm::PoolHeader const& h = core_.pool.header();
  if (core_.engine) {
    EngineReport const report = core_.engine->report();
    core_.counters.add(report.gets);
    s.machine = report.machine;
    s.memory.mirror_bytes = report.mirror.bytes;
    s.memory.residency = report.mirror.bytes > 0 ? Residency::mirrored : Residency::pm;
    s.memory.note = report.mirror.lacks;
    s.memory.cache_records = report.mirror.cache_records;
    s.memory.cache_bytes = report.mirror.cache_bytes;
    s.gathers = report.gathers;
  }
  core_.counters.add(shared_gets_.take_counts());
  core_.counters.tell(s);
  s.sharing = shared_gets_.stats();
  s.batches = core_.sessions.batches() + shared_gets_.batches_of_host();
  s.slots = core_.table.usable_slots();
  PERDURE_ASSERT(s.slots > 0);
  s.load_factor = static_cast<double>(s.records) / static_cast<double>(s.slots);
  s.space.pool_bytes = core_.pool.bytes();
  s.space.used_bytes = core_.pool.superblocks_in_use() * core_.pool.superblock_bytes();
  s.space.dense_bytes = core_.dense.bytes();
  s.key_bytes = h.key_bytes;
  s.value_bytes = h.value_bytes;
  s.value_type = value_type;
  s.max_key_bytes = h.max_key_bytes;
  s.max_value_bytes = h.max_value_bytes;
  s.units_left = core_.table.units_left();
  s.top_level = core_.table.top_level();
  s.shape = {h.levels, h.hashes, h.slots};
  s.layout = static_cast<Layout>(h.layout);
  s.device = options.device;
  s.medium = core_.pool.medium();
  if (core_.power) {
    s.log.used_bytes = core_.power->log().room().used_bytes;
    s.log.checkpoints = core_.power->checkpoints_written();
    s.log.method = core_.power->log().method().describe();
  }
  return s;
}

void GphashStore::reset_counts() {
  SharedLock const store_lock(core_.lock);
  if (core_.engine) core_.engine->report();
  shared_gets_.take_counts();
  core_.counters.reset_accesses();
}

Survival GphashStore::survives() {
  SharedLock const store_lock(core_.lock);
  Survival s = perdure::survives(core_.pool.medium());
  if (!core_.power) return s;
  s.process_kill = s.os_crash = s.power_loss = true;
  // by whoever named the disk: that its writes are durable when it says so
  s.basis = Basis::asserted;
  return s;
}

/// Emptied alone, so that no get that saw the old contents still reads them; chosen and filled
/// while gets go on, and no writer changes what is being copied.
Result<CacheReport> GphashStore::load_cache() {
  using Clock = std::chrono::steady_clock;
  if (options.memory.cache_bytes == 0)
    return Status{Code::unsupported,
                  "pool " + path + " was opened without a record cache: set cache_bytes"};
  if (!core_.in_place() && core_.fixed_stride() == 0)
    return Status{
        Code::unsupported,
        "pool " + path + " has records of varying sizes, which the record cache does not take"};
  if (core_.lock.is_held_here()) return core_.held_by_this_thread();
  auto const begin = Clock::now();
  auto const not_loaded = [&](Status const& s) {
    char const* const way_out = s.code() == Code::no_space ? "; open it with a smaller cache_bytes"
                                : s.code() == Code::device_error ? kReopen
                                                                 : "";
    return Status{s.code(), "pool " + path + ": its cache is not loaded: " + s.message() + way_out};
  };
  WriterLock const no_writers(core_.lock);  // nor does anyone close the store
  {
    SharedLock const store_lock(core_.lock);
    if (Status s = core_.check_open(false); !s.ok()) return s;
    if (Status s = core_.engine->cache().choose(); !s.ok()) return not_loaded(s);
  }
  core_.lock.lock_exclusive();
  Status const emptied = caught([&] { return core_.engine->cache().empty(); });
  core_.lock.unlock_exclusive();
  if (!emptied.ok()) return not_loaded(emptied);
  SharedLock const store_lock(core_.lock);
  auto report = core_.engine->cache().fill();
  if (!report) return not_loaded(report.status());
  report->seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  return report;
}

Result<VerifyReport> GphashStore::verify(std::atomic<bool> const* stop) {
  SharedLock const store_lock(core_.lock);
  if (Status s = core_.check_open(false); !s.ok()) return s;
  if (Status s = core_.show_words(); !s.ok()) return s;
  VerifyReport report = recovery_.look_at_slots(stop);
  if (stopped(stop)) return look_stopped(path, "verify");
  report.dropped = recovery.dropped;
  if (std::string const fault = core_.dense.fault(); !fault.empty()) {
    ++report.fault_count;
    report.faults.insert(report.faults.begin(), fault);
  }
  add_unacknowledged(core_.repairs.waiting(), report);
  return report;
}

Status GphashStore::acknowledge_repair() {
  if (core_.lock.is_held_here()) return core_.held_by_this_thread();
  ExclusiveLock const store_lock(core_.lock);
  if (Status s = core_.check_open(true); !s.ok()) return s;
  PERDURE_ASSERT(core_.is_exclusive());
  core_.repairs.acknowledge();
  if (!core_.power) return {};
  // An opening makes the pool anew from an image.
  Status const s = log_.checkpoint();
  return s.ok() ? s : core_.health.fail(s);
}

/// Whole batches, all of them acknowledged. Readers go on: nothing is written to the pool
/// meanwhile, for writers wait.
Status GphashStore::snapshot(std::string const& to, SnapshotOptions const& how) {
  // a snapshot holds no half of what this thread has open
  if (core_.lock.is_held_here()) return core_.held_by_this_thread();
  WriterLock const no_writers(core_.lock);
  SharedLock const store_lock(core_.lock);
  if (Status s = core_.check_open(false); !s.ok()) return s;
  if (core_.health.failed()) {
    return {Code::closed, "pool " + path + " gives no snapshot since an earlier failure (" +
                              core_.health.failure().message() +
                              "): it may hold half of a batch; close and reopen it"};
  }
  if (Status s = core_.show_words(); !s.ok()) return s;
  wal::ImageInfo info;
  PERDURE_ASSERT(core_.lock.has_writer());  // nobody else changes what is copied
  info.pool_id = core_.pool.header().pool_id;
  if (core_.power) {
    info.at = core_.power->log().position();
    // Else the snapshot could hold a batch that the pool itself loses.
    Status const logged = mutated("snapshot_without_its_log")
                              ? Status{}
                              : core_.power->log().wait_durable(info.at.lsn);
    if (!logged.ok()) return logged;
  }
  return wal::write_snapshot(to, make_options(how), info, {core_.pool.base(), core_.pool.bytes()},
                             core_.pool.closed_head(recovery_.closing_note()));
}

}  // namespace perdure
