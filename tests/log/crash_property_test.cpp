// Random batches, failures, power cuts and openings, against a list of what was acknowledged. After
// each cut replay must give every acknowledged batch, then perhaps some of those that were under
// way, in order, each whole, and nothing else.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "log_on_disk.hpp"

namespace perdure::wal::test {
namespace {

class Life {
 public:
  explicit Life(std::uint64_t seed) : random_(seed), disk_(formatted(kRing, seed)) {}

  void run(int openings) {
    for (int i = 0; i < openings; ++i) {
      open_for_a_while();
      disk_->restore();
      check();
    }
  }

 private:
  static constexpr std::uint64_t kRing = 128u << 10;
  struct Appended {
    LogPosition before;
    Batch bytes;
  };

  void open_for_a_while() {
    disk_->short_writes = random_() % 2 == 0;
    auto log = start(disk_, end_, kept_from_.lsn);
    if (random_() % 4 == 0) plan_failure();
    std::uint64_t const batches = random_() % 40;
    bool failed = false;
    for (std::uint64_t i = 0; i < batches && !failed; ++i) failed = !one_batch(*log);
    if (random_() % 4 != 0) {  // else it is closed in order
      // What is under way now may be lost, and any of its sectors may not.
      bool const hold = random_() % 2 == 0 && log->wait_durable(log->position().lsn).ok();
      {
        std::lock_guard const lock(disk_->mutex);
        disk_->hold = hold;
      }
      // What is held may not exceed the log's buffer, or append() would wait for it.
      for (std::uint64_t i = random_() % 5; i > 0 && !failed; --i)
        failed = !append_only(*log, hold ? 3000 : 30'000);
      disk_->cut_power();
    }
    acknowledge(log->durable_lsn());
  }

  void plan_failure() {
    std::lock_guard const lock(disk_->mutex);
    disk_->fail_errno = random_() % 2 == 0 ? EIO : ENOSPC;
    disk_->fail_write_at = disk_->writes + 1 + random_() % 20;
    disk_->fail_writes_until = disk_->fail_write_at + 1;
  }

  bool append_only(RedoLog& log, std::uint64_t most = 30'000) {
    LogPosition const before = log.position();
    Batch const batch = batch_of(++made_, random_() % (random_() % 4 == 0 ? most : most / 6));
    auto const lsn = append(log, batch);
    if (lsn.ok() || log.position() != before) appended_.push_back({before, batch});
    return lsn.ok() || log.failure().ok();
  }

  bool one_batch(RedoLog& log) {
    if (log.room().used_bytes > kRing / 2) checkpoint(log);
    if (!append_only(log)) return false;
    if (random_() % 3 == 0) return true;
    Lsn const lsn = log.position().lsn;
    bool const ok = log.wait_durable(lsn).ok();
    if (ok) acknowledge(lsn);
    return ok;
  }

  void checkpoint(RedoLog& log) {
    LogPosition const at = log.position();
    if (!log.wait_durable(at.lsn).ok()) return;
    acknowledge(at.lsn);
    log.truncate(at.lsn);
    kept_from_ = at;
    appended_.clear();
    acknowledged_ = 0;
  }

  void acknowledge(Lsn durable) {
    for (std::size_t i = acknowledged_; i < appended_.size(); ++i) {
      bool const whole = i + 1 < appended_.size() ? appended_[i + 1].before.lsn <= durable : false;
      if (whole) acknowledged_ = i + 1;
    }
    if (!appended_.empty() && last_end() <= durable) acknowledged_ = appended_.size();
  }
  /// End of the last batch appended, computed as the log lays batches out.
  [[nodiscard]] Lsn last_end() const {
    Lsn lsn = appended_.back().before.lsn;
    std::uint64_t left = appended_.back().bytes.size();
    do {
      std::uint64_t const room = std::min({kSmall.group_bytes, kRing - lsn % kRing,
                                           kSmall.buffer_bytes - lsn % kSmall.buffer_bytes});
      std::uint64_t const payload = std::min(left, room - sizeof(GroupHeader));
      lsn += group_bytes(payload);
      left -= payload;
    } while (left > 0);
    return lsn;
  }

  void check() {
    Replayed const r = replay_all(disk_, kept_from_);
    RC_ASSERT(r.batches.size() >= acknowledged_);
    RC_ASSERT(r.batches.size() <= appended_.size());
    for (std::size_t i = 0; i < r.batches.size(); ++i)
      RC_ASSERT(r.batches[i] == appended_[i].bytes);
    RC_ASSERT(!r.report.lost_acknowledged);
    end_ = r.report.end;
    appended_.resize(r.batches.size());  // the rest never happened
    acknowledged_ = appended_.size();
  }

  std::mt19937_64 random_;
  Disk disk_;
  LogPosition kept_from_, end_;
  std::vector<Appended> appended_;  // since kept_from_
  std::size_t acknowledged_ = 0;  // of them
  std::uint64_t made_ = 0;
};

RC_GTEST_PROP(RedoLogCrash, AcknowledgedBatchesComeBackAndNothingElse, ()) {
  Life(*rc::gen::arbitrary<std::uint64_t>()).run(12);
}

}  // namespace
}  // namespace perdure::wal::test
