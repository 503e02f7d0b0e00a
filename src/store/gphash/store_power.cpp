// A store's side of durability power: what it logs, when it checkpoints, how it runs its log again.
#include <algorithm>
#include <chrono>
#include <thread>

#include "base/caught.hpp"
#include "base/hooks.hpp"
#include "store/checks.hpp"
#include "store/gphash/gphash_store.hpp"
#include "store/gphash/replaying.hpp"
#include "wal/batch_record.hpp"

namespace perdure {

Status GphashStore::create_log(CreateOptions const& create) {
  if (create.durability != Durability::power) return {};
  auto power = wal::LogDir::create(create.log.dir, pool_.header().pool_id, create.log.bytes,
                                   make_options(create.file));
  if (!power) return power.status();
  return caught([&]() -> Status {
    power_ = std::move(*power);
    return checkpoint();  // of the empty pool: from here on it can be made anew
  });
}

/// Gives all files their names, the pool first: until the log has its own, an older pool can be had
/// from its log.
Status GphashStore::keep() {
  if (Status s = pool_.keep(); !s.ok()) return s;
  Status s = power_ ? caught([this] { return power_->keep(); }) : Status{};
  if (!s.ok()) pool_.take_away();
  return s;
}

/// What the log holds beyond the image, done again. Batches that took effect once do so again: the
/// pool is as it was then. Where acknowledged batches are lost, nothing is changed unless a repair
/// was asked for: neither what stands at the pool's path, nor a file of the log.
Status GphashStore::replay_log(std::shared_ptr<wal::LogDir> power, wal::Loaded const& loaded) {
  auto const begin = std::chrono::steady_clock::now();
  auto report = read_and_run(*power, loaded.image.at);
  if (!report)
    return {report.status().code(), "pool " + path + ", replaying " + power->directory() + ": " +
                                        report.status().message()};
  recovery.replayed = report->batches;
  recovery.replay_seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  recovery.lost_acknowledged = report->lost_acknowledged;
  recovery.clean =
      recovery.clean && report->batches == 0 && !report->lost_acknowledged && loaded.report.empty();
  recovery.log_report =
      std::string("image ") + loaded.which + " of LSN " + std::to_string(loaded.image.at.lsn) +
      (loaded.report.empty() ? "" : " (" + loaded.report + ")") + "; " + report->describe();
  {
    std::lock_guard const lock(stats_mutex_);
    recovery.records = records_;
  }
  if (report->lost_acknowledged && !options.repair) return lost_batches(*report);
  if (Status s = pool_.keep(); !s.ok()) return s;
  if (report->lost_acknowledged) {
    if (Status s = note_loss(*power, *report); !s.ok()) return s;
  }
  if (Status s = power->start(report->end); !s.ok()) return s;
  power_ = std::move(power);
  return {};
}

Status GphashStore::lost_batches(wal::ReplayReport const& report) const {
  return {
      Code::corrupt,
      "pool " + path + ", whose log lies in " + options.log_dir +
          ": acknowledged batches, number " + std::to_string(report.end.next_batch) +
          " and those after it, are lost: " + recovery.log_report +
          "; nothing was changed: restore a snapshot, or open it with repair (repair=True, perdure "
          "verify --repair), which goes on without them"};
}

/// In both images, before the log begins anew: from then on nothing else tells of what it had lost.
Status GphashStore::note_loss(wal::LogDir& power, wal::ReplayReport const& report) {
  std::vector<std::string> const lines{"lost: acknowledged batches, number " +
                                           std::to_string(report.end.next_batch) +
                                           " and those after it: " + recovery.log_report,
                                       std::to_string(recovery.records) + " records are left"};
  repairs_.add(lines);
  note_changes(lines);
  recovery.repaired = true;
  return mutated("loss_noted_late") ? Status{}
                                    : power.settle({pool_.base(), pool_.bytes()}, report.end);
}

/// One thread reads the log, this one runs what it brings.
Result<wal::ReplayReport> GphashStore::read_and_run(wal::LogDir& power, wal::LogPosition from) {
  LoggedQueue queue;
  Result<wal::ReplayReport> report(Status{Code::closed, "the log was not read"});
  std::thread reader([&] {
    report = caught([&] {
      return power.replay(from, [&](std::uint64_t number, std::vector<std::byte>& payload) {
        return queue.give(number, payload) ? Status{}
                                           : Status{Code::closed, "nobody runs what the log holds"};
      });
    });
    queue.end();
  });
  Status const ran = caught([&] { return run_logged(queue); });
  queue.stop();
  reader.join();
  return ran.ok() ? std::move(report) : ran;
}

/// Runs what comes, in its order. What has come meanwhile is merged; nothing waits for more to
/// come.
Status GphashStore::run_logged(LoggedQueue& queue) {
  MergedBatches merged(workers_);
  std::vector<Logged> held;  // what `merged` points into
  auto const run_all_but = [&](std::size_t newest) -> Status {
    Status const s = run_merged(merged);
    merged.clear();
    queue.give_back(held, held.size() - newest);
    return s;
  };
  for (;;) {
    auto logged = queue.take(merged.empty());
    if (!logged && merged.empty()) return {};
    if (!logged) {
      if (Status s = run_all_but(0); !s.ok()) return s;
      continue;
    }
    held.push_back(std::move(*logged));
    std::uint64_t const number = held.back().number;
    std::span<std::byte const> payload = held.back().payload;
    while (!payload.empty()) {  // of a transaction: several batches
      auto batch = wal::DecodedBatch::take(payload);
      if (!batch)
        return {batch.status().code(),
                "batch " + std::to_string(number) + ": " + batch.status().message()};
      if (!merged.takes(*batch)) {
        if (Status s = run_all_but(1); !s.ok()) return s;
      }
      merged.add(number, std::move(*batch));
    }
  }
}

/// As one batch; where there is no room for so many records beside those that they replace, one by
/// one.
Status GphashStore::run_merged(MergedBatches& merged) {
  std::vector<KeyStatus> statuses;
  auto const run = [&](Call const& call) -> Status {
    statuses.assign(call.keys.count, KeyStatus::ok);
    if (Status s = check_batch(path, pool_.header(), call, statuses); !s.ok()) return s;
    return write_piece(call, statuses);
  };
  Status const all = run(merged.call());
  bool const nothing = std::all_of(statuses.begin(), statuses.end(),
                                   [](KeyStatus s) { return s == KeyStatus::no_space; });
  if (all.code() != Code::no_space || !nothing) return merged.check(0, all, statuses);
  for (std::size_t part = 0; part < merged.size(); ++part) {
    Status const done = run(merged.part(part));
    if (Status s = merged.check(part, done, statuses); !s.ok()) return s;
  }
  return {};
}

/// Puts what a batch did into the log.
Status GphashStore::log_batch(Call const& call, std::span<std::uint8_t const> status) {
  Effective const effective(call, status);
  if (effective.empty()) return {};
  return log_pieces(wal::EncodedBatch(effective.ops()).pieces());
}

/// One record of the log, which replay does as a whole or not at all. What the log has no room for
/// becomes durable with the checkpoint that makes room, for it has been executed.
Status GphashStore::log_pieces(std::span<std::span<std::byte const> const> pieces) {
  auto const lsn = power_->log().append(pieces);
  bool const full = !lsn.ok() && power_->log().failure().ok();
  if (!lsn.ok() && !full) return lsn.status();
  if (!full) return {};
  power_->log().skip_batch();
  return checkpoint();
}

/// After a batch, before the log runs full. Readers go on: nothing is written to the pool, for
/// writers wait. One that fails ends writing, and no batch is lost with it: they are in the log.
void GphashStore::checkpoint_in_time(ExclusiveLock& store_lock) {
  if (!power_ || !failed_.ok() || !power_->wants_checkpoint()) return;
  store_lock.let_readers_in();
  Status done = caught([this] { return checkpoint(); });
  if (done.ok()) return;
  store_lock.keep_readers_out();
  static_cast<void>(caught([&]() -> Status {
    unheard_ = done;  // by the batch after which it came
    return {};
  }));
  failed_ = std::move(done);
}

Status GphashStore::checkpoint() { return power_->checkpoint({pool_.base(), pool_.bytes()}); }

Survival GphashStore::survives() {
  SharedLock const store_lock(store_lock_);
  Survival s = perdure::survives(pool_.medium());
  if (!power_) return s;
  s.process_kill = s.os_crash = s.power_loss = true;
  // by whoever named the disk: that its writes are durable when it says so
  s.basis = Basis::asserted;
  return s;
}

}  // namespace perdure
