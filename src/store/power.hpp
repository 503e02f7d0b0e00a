// Durability `power`: what the store does with its log. A batch is executed on the pool first; then the
// operations of it that took effect are logged, in order, so that replaying them on the image they were
// executed on takes effect again, all of them, with the same outcome.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/mutants.hpp"
#include "log/batch_record.hpp"
#include "log/log_dir.hpp"
#include "perdure/store.h"
#include "store/engine.hpp"

namespace perdure {

/// The operations of a batch that changed something. Refers to the batch's columns where all did.
class Effective {
 public:
  Effective(Call const& call, std::span<std::uint8_t const> status);
  Effective(Effective const&) = delete;
  Effective& operator=(Effective const&) = delete;
  [[nodiscard]] log::BatchOps const& ops() const { return ops_; }
  [[nodiscard]] bool empty() const { return ops_.keys.count == 0; }

 private:
  struct Gathered {
    std::vector<std::byte> data;
    std::vector<std::int64_t> offsets;
    [[nodiscard]] Column take(Column const& from, std::span<std::size_t const> which);
  };
  log::BatchOps ops_;
  std::vector<OpKind> kinds_;
  Gathered keys_, values_;
};

/// A batch of the log as the store runs it.
[[nodiscard]] Call call_of(log::BatchOps const& ops);

/// Waits, once it goes, until what the caller has seen is durable; declare it before the lock on the
/// world, so that nobody waits with it. A log that failed keeps nobody waiting: the store stays readable.
class SeenIsDurable {
 public:
  SeenIsDurable() = default;
  SeenIsDurable(SeenIsDurable const&) = delete;
  SeenIsDurable& operator=(SeenIsDurable const&) = delete;
  ~SeenIsDurable() {
    if (power_) static_cast<void>(power_->log().wait_durable(lsn_));
  }
  void seen(std::shared_ptr<log::LogDir> const& power) {
    if (!mutated(Mutant::reads_do_not_wait)) power_ = power;
    if (power_) lsn_ = power_->log().position().lsn;
  }

 private:
  std::shared_ptr<log::LogDir> power_;
  log::Lsn lsn_ = 0;
};

/// Durability power needs a log_dir; the others have no use for one.
[[nodiscard]] Status check_log_dir(Durability durability, std::string const& log_dir);

/// Makes the pool file anew at `path` from the newest image in the directory. Refuses to replace anything but the
/// same pool.
Result<log::Loaded> restore_pool(log::LogDir& power, std::string const& path);

}  // namespace perdure
