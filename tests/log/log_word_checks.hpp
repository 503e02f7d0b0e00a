// What a pool says of the log beside it (pm/log_word.hpp), and what an opening makes of that and of
// the images, check by check, as in disk_checks.hpp. Include it in one source of a program.
#pragma once

#include "disk_checks.hpp"
#include "pm/pool.hpp"

namespace perdure::wal::test {

inline Lsn said_by(std::string const& pool) {
  int const fd = ::open(pool.c_str(), O_RDONLY | O_CLOEXEC);
  Lsn const said = pm::Pool::noted_lsn(fd);
  ::close(fd);
  return said;
}

/// Each batch that was acknowledged, and none whose write is under way.
inline Wrong the_pool_says_what_is_durable() {
  HeldStore held;
  Lsn said = 0;
  for (std::uint64_t value = 1; value <= 8; ++value) {
    if (Status s = held.put(1, value); !s.ok()) return s.message();
    Lsn const now = said_by(held.file("pool"));
    if (now <= said) return "a batch that was acknowledged is not said to be durable";
    said = now;
  }
  held.hold(true);
  std::size_t const before = held.log_writes();
  auto put = held.aside([&] { return held.put(1, 11); });
  if (!held.writes_to_log(before)) return "a put writes nothing to the log";
  bool const early = said_by(held.file("pool")) != said;
  held.hold(false);
  if (!put.get().ok()) return "a put fails on a slow disk";
  return early ? Wrong("a batch is said to be durable while its write is under way") : std::nullopt;
}

/// Of a batch of several groups, a kill leaves the first ones. Nobody was told of it, so the next
/// opening misses nothing.
class KilledWithinABatch {
 public:
  /// As the first group is known to be durable, and none of those behind it.
  Wrong behind_its_first_group() {
    if (Status s = held_.put(1, ++value_); !s.ok()) return s.message();
    Lsn const said = said_by(held_.file("pool"));
    held_.hold(true, 1);
    std::size_t const before = held_.log_writes();
    auto put = held_.aside([&] { return held_.put(1, ++value_, kValues); });
    if (!held_.writes_to_log(before)) return "a put writes nothing to the log";
    if (!held_.notes_what_passed()) return "what is written is not taken note of";
    bool const early = said_by(held_.file("pool")) != said;
    held_.disk().kill();
    bool const acknowledged = put.get().ok();
    return early ? Wrong("a batch is said to be durable while groups of it are under way")
                 : opened(acknowledged);
  }
  /// At its `at`-th request.
  Wrong at_request(std::uint64_t at) {
    if (Status s = held_.put(1, ++value_); !s.ok()) return s.message();
    held_.disk().plan(Mishap::kill, at);
    bool const acknowledged = held_.put(1, ++value_, kValues).ok();
    held_.disk().kill();
    return opened(acknowledged);
  }

 private:
  Wrong opened(bool acknowledged) {
    if (Status s = held_.reopen(false, true); !s.ok()) return "after a kill: " + s.message();
    auto const found = held_.get(1);
    if (found != value_ && (acknowledged || found != value_ - 1))
      return "after a kill a batch is lost, or there in part";
    return std::nullopt;
  }

  static constexpr std::size_t kValues = 400;  // four groups
  HeldStore held_;
  std::uint64_t value_ = 0;
};

inline Wrong a_kill_within_a_batch_is_no_loss() {
  KilledWithinABatch killed;
  if (auto wrong = killed.behind_its_first_group()) return wrong;
  for (std::uint64_t at = 1; at <= 12; ++at)
    if (auto wrong = killed.at_request(at % 6 + 1)) return wrong;
  return std::nullopt;
}

/// The log is older than the pool, whose file alone tells of that. Wherever a kill cuts off a
/// repair that goes on without what the log lacks, the next opening is refused, too, or verify
/// tells of it.
inline Wrong a_loss_that_the_pool_tells_of_is_told_again() {
  bool ended = false;
  for (std::uint64_t at = 1; !ended; ++at) {
    HeldStore held;
    if (Status s = held.put(1, 10); !s.ok()) return s.message();
    auto const log = held.disk().file("/log/redo.log");
    std::vector<std::byte> const older = log->medium;
    if (Status s = held.put(1, 11); !s.ok()) return s.message();
    held.disk().kill();
    log->medium = log->cache = older;
    if (held.reopen(false, true).code() != Code::corrupt) return "an older log is the pool's own";
    held.disk().plan(Mishap::kill, at);
    Status const repaired = held.reopen(true, true);
    ended = !held.disk().happened();
    if (ended && !repaired.ok())
      return "no repair goes on without what is lost: " + repaired.message();
    held.disk().kill();
    Status const again = held.reopen(false, true);
    if (again.code() == Code::corrupt && !ended) continue;
    if (!again.ok()) return "after a repair: " + again.message();
    auto verified = held.store().verify();
    if (!verified.ok()) return verified.status().message();
    if (verified->fault_count == 0)
      return "killed at request " + std::to_string(at) + ", a repair has forgotten what is lost";
    if (held.get(1) != 10) return "a repaired pool lacks what its log has";
  }
  return std::nullopt;
}

/// A batch that the log had no room for, and whose checkpoint a kill cut off or did not: what the
/// next opening finds of it, and shows, no power cut takes.
inline Wrong a_batch_that_only_an_image_has_lasts() {
  constexpr std::size_t kValues = 600;  // more than the log
  std::uint64_t shown = 0;
  for (std::uint64_t at = 1; at < 200; ++at) {
    HeldStore held;
    if (Status s = held.put(1, 1); !s.ok()) return s.message();
    held.disk().plan(Mishap::kill, at);
    if (held.put(1, 2, kValues).ok())
      return shown > 0 ? Wrong{} : Wrong("the kills are of one kind");
    if (Status s = held.reopen(); !s.ok()) return "after a kill: " + s.message();
    auto const before = held.get(1);
    shown += before == 2 ? 1 : 0;
    held.disk().cut_power();
    if (Status s = held.reopen(); !s.ok()) return "after a kill and a power cut: " + s.message();
    if (held.get(1) != before) return "what was shown is not there any more";
  }
  return "a checkpoint does not end";
}

}  // namespace perdure::wal::test
