// Device sessions and crashes: what a copy of the pool shows that was taken inside a session, and
// what a killed child leaves. Invariant: what had been acknowledged is there, and nothing half
// done.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "device_store.hpp"
#include "support/sanitized.hpp"

namespace perdure::test {
namespace {

class DeviceCrash : public DeviceStore {
 protected:
  /// What lies in that file: the model's keys, then in sessions and batches.
  void expect_whole(std::string const& file, std::map<Bytes, Bytes> const& held,
                    std::mt19937_64& random) {
    for (int opening = 0; opening < 2; ++opening) {
      auto again = Store::open(file, options());
      ASSERT_TRUE(again.ok()) << again.status().message();
      EXPECT_EQ(again->recovery().clean, file == path() || opening == 1);
      EXPECT_EQ(again->recovery().dropped, 0u);
      driver_->replace(std::move(*again));
      if (opening == 0) driver_->model.held = held;
      driver_->check_all();
      DeviceSession session = begin(100);
      run_in_turn(session, drawn(random, 100, 500));
      ASSERT_TRUE(session.end().ok());
      driver_->check_all();
      driver_->run_mixed(drawn(random, 200, 500));
      driver_->check_all();
      ASSERT_TRUE(store().close().ok());
    }
  }
};

TEST_P(DeviceCrash, InASessionLosesNothingAcknowledged) {
  for (std::uint32_t const key_bytes : {8u, 24u, 40u}) {
    make(key_bytes, 32);
    std::mt19937_64 random(key_bytes);
    driver_->run_mixed(drawn(random, 300, 500));
    {
      DeviceSession session = begin(4000);
      run_in_turn(session, drawn(random, 4000, 500));
      copy_as_if_killed(path(), scratch_.file("killed"));
    }
    std::map<Bytes, Bytes> const held = driver_->model.held;
    Status const closed = store().close();
    ASSERT_TRUE(closed.ok()) << closed.message();
    for (std::string const& file : {path(), scratch_.file("killed")})
      ASSERT_NO_FATAL_FAILURE(expect_whole(file, held, random));
  }
}

/// Before an operation of the session, and once the opening has ended it: killed again, at once.
TEST_P(DeviceCrash, SoonAfterASessionOrAnother) {
  make(8, 32);
  std::mt19937_64 random(11);
  driver_->run_mixed(drawn(random, 300, 500));
  std::string const killed = scratch_.file("killed"), again = scratch_.file("again");
  {
    DeviceSession session = begin(4000);
    copy_as_if_killed(path(), killed);
  }
  std::map<Bytes, Bytes> const held = driver_->model.held;
  ASSERT_TRUE(store().close().ok());
  for (int kill = 0; kill < 3; ++kill) {
    auto opened = Store::open(killed, options());
    ASSERT_TRUE(opened.ok()) << opened.status().message();
    copy_as_if_killed(killed, again);
    ASSERT_TRUE(opened->close().ok());
    copy_as_if_killed(again, killed);
  }
  ASSERT_NO_FATAL_FAILURE(expect_whole(killed, held, random));
}

INSTANTIATE_TEST_SUITE_P(Machines, DeviceCrash,
                         testing::Values(MachineAndLayout{Device::cpu, Layout::word},
                                         MachineAndLayout{Device::cpu, Layout::log},
                                         MachineAndLayout{Device::cuda, Layout::word},
                                         MachineAndLayout{Device::cuda, Layout::log}),
                         [](auto const& machine) { return machine.param.name(); });

/// A child writes in a session until it is killed. It notes in memory that it shares how many
/// operations each of its sequences has finished.
class DeviceSessionKilled : public testing::TestWithParam<Layout> {
 protected:
  static constexpr std::uint64_t kSequences = 2048, kEach = 64, kOps = kSequences * kEach;

  /// Sequence s puts the keys s, s + kSequences, ...; every fourth of its operations erases the one
  /// before.
  DeviceSessionKilled() {
    open_.memory.residency = Residency::mirrored;
    open_.threads = 2;
    for (std::uint64_t i = 0; i < kOps; ++i) {
      bool const erases = i / kSequences % 4 == 3;
      keys_[i] = erases ? i - kSequences : i;
      values_[i] = i + 7;
      kinds_[i] = erases ? OpKind::erase : OpKind::put;
    }
  }
  ~DeviceSessionKilled() override { ::munmap(finished_, kSequences * sizeof(std::uint64_t)); }

  static Column column(std::vector<std::uint64_t> const& v) {
    return {reinterpret_cast<std::byte const*>(v.data()), nullptr, 8, v.size(), MemorySpace::host};
  }
  MutableColumn out() {
    return {reinterpret_cast<std::byte*>(out_.data()), 8, kOps, MemorySpace::host};
  }

  [[noreturn]] void write_until_killed() {
    CreateOptions create;
    create.value_bytes = 8;
    create.layout = GetParam();
    create.file.overwrite = true;
    auto store = Store::create(path_, create, open_);
    auto session =
        store ? DeviceAccess::open(*store, {kOps}) : Result<DeviceSession>(store.status());
    if (!session) ::_exit(1);
    DeviceOps ops{column(keys_), column(values_), out(), kinds_, false, kSequences, {}, {}, {},
                  finished_};
    static_cast<void>(DeviceAccess::run(*session, ops));
    for (;;) ::pause();
  }
  [[nodiscard]] std::uint64_t finished_by_all() const {
    std::uint64_t all = 0;
    for (std::uint64_t s = 0; s < kSequences; ++s)
      all += __atomic_load_n(finished_ + s, __ATOMIC_ACQUIRE);
    return all;
  }
  void kill_a_child_that_has_finished(std::uint64_t operations) {
    std::fill(finished_, finished_ + kSequences, 0);
    ::pid_t const child = ::fork();
    if (child == 0) write_until_killed();
    int status = 0;
    while (finished_by_all() < operations && ::waitpid(child, &status, WNOHANG) == 0) ::usleep(100);
    ::kill(child, SIGKILL);
    ::waitpid(child, &status, 0);
    ASSERT_TRUE(WIFSIGNALED(status));
  }

  void expect_what_was_acknowledged() {
    auto store = Store::open(path_, open_);
    ASSERT_TRUE(store.ok()) << store.status().message();
    auto verified = store->verify();
    ASSERT_TRUE(verified.ok() && verified->fault_count == 0);
    std::vector<KeyStatus> statuses(kOps);
    ASSERT_TRUE(store->get(column(keys_), out(), statuses).ok());
    for (std::uint64_t i = 0; i < kOps; ++i) {
      if (kinds_[i] == OpKind::erase) continue;
      ASSERT_NO_FATAL_FAILURE(expect_put(i, statuses[i]));
    }
  }
  /// Of operation i, a put: whether its key is there, and what was put.
  void expect_put(std::uint64_t i, KeyStatus status) const {
    std::uint64_t const finished = finished_[i % kSequences], mine = i / kSequences;
    bool const erased_later = mine % 4 == 2;
    if (mine < finished && !(erased_later && finished > mine)) {
      ASSERT_EQ(status, KeyStatus::ok) << i;
    }
    if (erased_later && mine + 1 < finished) {
      ASSERT_EQ(status, KeyStatus::not_found) << i;
    }
    if (mine > finished) {
      ASSERT_EQ(status, KeyStatus::not_found) << i;
    }
    if (status == KeyStatus::ok) {
      ASSERT_EQ(out_[i], values_[i]) << i;
    }
  }

  ScratchDir const scratch_;
  std::string const path_ = scratch_.file("pool");
  OpenOptions open_;
  std::vector<std::uint64_t> keys_ = std::vector<std::uint64_t>(kOps), values_ = keys_,
                             out_ = keys_;
  std::vector<OpKind> kinds_ = std::vector<OpKind>(kOps);
  std::uint64_t* const finished_ = static_cast<std::uint64_t*>(
      ::mmap(nullptr, kSequences * sizeof(std::uint64_t), PROT_READ | PROT_WRITE,
             MAP_SHARED | MAP_ANONYMOUS, -1, 0));
};

/// What a killed child had been told was done is there, and nothing half done.
TEST_P(DeviceSessionKilled, LosesNothingAcknowledged) {
  ASSERT_NE(static_cast<void*>(finished_), MAP_FAILED);
  for (std::uint64_t round = 1; round <= 8; round += kSanitized ? 3 : 1) {
    ASSERT_NO_FATAL_FAILURE(kill_a_child_that_has_finished(kOps * round / 10));
    // Twice: the second opening finds what the first one made of it.
    ASSERT_NO_FATAL_FAILURE(expect_what_was_acknowledged());
    ASSERT_NO_FATAL_FAILURE(expect_what_was_acknowledged());
  }
}

INSTANTIATE_TEST_SUITE_P(Layouts, DeviceSessionKilled, testing::Values(Layout::word, Layout::log),
                         [](auto const& layout) {
                           return layout.param == Layout::word ? "word" : "log";
                         });

}  // namespace
}  // namespace perdure::test
