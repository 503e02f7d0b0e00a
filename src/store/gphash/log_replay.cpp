#include "store/gphash/log_replay.hpp"

#include <algorithm>
#include <chrono>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/assert.hpp"
#include "base/caught.hpp"
#include "base/hooks.hpp"
#include "base/own_thread.hpp"
#include "store/checks.hpp"
#include "store/repair_reports.hpp"
#include "wal/batch_record.hpp"

namespace perdure {
namespace {

using Clock = std::chrono::steady_clock;

}  // namespace

Status LogReplay::run(std::shared_ptr<wal::LogDir> power, wal::Loaded const& loaded,
                      wal::Lsn noted) {
  PERDURE_ASSERT(power != nullptr && core_.power == nullptr);  // what is run again is not logged
  auto const begin = Clock::now();
  auto report = read_and_run(*power, loaded.image.at);
  if (!report)
    return {report.status().code(), "pool " + core_.path + ", replaying " + power->directory() +
                                        ": " + report.status().message()};
  if (report->end.lsn < noted && !report->lost_acknowledged)
    report->lost("the pool's file says that the log had reached LSN " + std::to_string(noted) +
                 ", so these are older files: name the log_dir that it was used with last");
  tell(*report, loaded, std::chrono::duration<double>(Clock::now() - begin).count());
  bool const lost = report->lost_acknowledged;
  if (lost && !core_.options.repair) return lost_batches(*report);
  auto const note = [&] { return lost ? note_loss(*power, *report) : Status{}; };
  // Before the pool's file takes the place of one that may be all that tells of the loss.
  bool const late = mutated("loss_noted_behind_the_pool");
  if (Status s = late ? Status{} : note(); !s.ok()) return s;
  // With the file's name, which takes the place of one that may say more: where the log ends now.
  pm::LogWord word(core_.pool.base());
  word.note(report->end.lsn);
  if (Status s = core_.pool.keep(); !s.ok()) return s;
  if (Status s = late ? note() : Status{}; !s.ok()) return s;
  PERDURE_ASSERT(!core_.lock.announced());
  if (Status s = power->start(report->end); !s.ok()) return s;
  power->log().note_in(word);
  core_.power = std::move(power);
  return {};
}

void LogReplay::tell(wal::ReplayReport const& report, wal::Loaded const& loaded, double seconds) {
  RecoveryReport& recovery = core_.recovery;
  recovery.replayed = report.batches;
  recovery.replay_seconds = seconds;
  recovery.lost_acknowledged = report.lost_acknowledged;
  recovery.clean =
      recovery.clean && report.batches == 0 && !report.lost_acknowledged && loaded.report.empty();
  recovery.log_report =
      std::string("image ") + loaded.which + " of LSN " + std::to_string(loaded.image.at.lsn) +
      (loaded.report.empty() ? "" : " (" + loaded.report + ")") + "; " + report.describe();
  recovery.records = core_.counters.records();
}

Status LogReplay::lost_batches(wal::ReplayReport const& report) const {
  return {
      Code::corrupt,
      "pool " + core_.path + ", whose log lies in " + core_.options.log_dir +
          ": acknowledged batches, number " + std::to_string(report.end.next_batch) +
          " and those after it, are lost: " + core_.recovery.log_report +
          "; nothing was changed: restore a snapshot, or open it with repair (repair=True, perdure "
          "verify --repair), which goes on without them"};
}

/// In both images, before the log begins anew: from then on nothing else tells of what it had lost.
Status LogReplay::note_loss(wal::LogDir& power, wal::ReplayReport const& report) {
  PERDURE_ASSERT(report.lost_acknowledged && core_.options.repair);
  std::vector<std::string> const lines{
      "lost: acknowledged batches, number " + std::to_string(report.end.next_batch) +
          " and those after it: " + core_.recovery.log_report,
      std::to_string(core_.recovery.records) + " records are left"};
  core_.repairs.add(lines);
  note_changes(core_.recovery, lines);
  core_.recovery.repaired = true;
  return mutated("loss_noted_late")
             ? Status{}
             : power.write_both_images({core_.pool.base(), core_.pool.bytes()}, report.end);
}

/// One thread reads the log, this one runs what it brings.
Result<wal::ReplayReport> LogReplay::read_and_run(wal::LogDir& power, wal::LogPosition from) {
  LoggedQueue queue;
  Result<wal::ReplayReport> report(Status{Code::closed, "the log was not read"});
  std::thread reader = own_thread([&] {
    report = caught([&] {
      return power.replay(from, [&](std::uint64_t number, std::vector<std::byte>& payload) {
        return queue.give(number, payload) ? Status{}
                                           : Status{Code::closed, "nobody runs what the log holds"};
      });
    });
    queue.end();
  });
  Status const ran = caught([&] { return run_queue(queue); });
  queue.stop();
  reader.join();
  return ran.ok() ? std::move(report) : ran;
}

/// Runs what comes, in its order. What has come meanwhile is merged; nothing waits for more to
/// come.
Status LogReplay::run_queue(LoggedQueue& queue) {
  MergedBatches merged(core_.workers);
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
Status LogReplay::run_merged(MergedBatches& merged) {
  PERDURE_ASSERT(!merged.empty());
  std::vector<KeyStatus> statuses;
  auto const run = [&](Call const& call) -> Status {
    statuses.assign(call.keys.count, KeyStatus::ok);
    if (Status s = check_batch(core_.path, core_.pool.header(), call, statuses); !s.ok()) return s;
    return writer_.write_piece(call, statuses);
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

}  // namespace perdure
