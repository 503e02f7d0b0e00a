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

namespace perdure::test {
namespace {

TEST_P(DeviceStore, ACrashInASessionLosesNothingAcknowledged) {
  make(8, 32);
  std::mt19937_64 random(3);
  {
    DeviceSession session = begin(4000);
    run_in_turn(session, drawn(random, 4000, 500));
    copy_as_if_killed(path(), scratch_.file("killed"));
  }
  std::map<Bytes, Bytes> const held = driver_->model.held;
  Status const closed = store().close();
  ASSERT_TRUE(closed.ok()) << closed.message();
  for (std::string const& file : {path(), scratch_.file("killed")}) {
    auto again = Store::open(file, options());
    ASSERT_TRUE(again.ok()) << again.status().message();
    EXPECT_EQ(again->recovery().clean, file == path());
    EXPECT_EQ(again->recovery().dropped, 0u);
    driver_->replace(std::move(*again));
    driver_->model.held = held;
    driver_->check_all();
    DeviceSession session = begin(100);
    run_in_turn(session, drawn(random, 100, 500));
    ASSERT_TRUE(session.end().ok());
    driver_->check_all();
  }
}

/// What a killed child had been told was done is there, and nothing half done. It notes in shared
/// memory how many operations each warp has finished.
TEST(DeviceSessionKilled, LosesNothingAcknowledged) {
  ScratchDir const scratch;
  std::string const path = scratch.file("pool");
  constexpr std::uint64_t kSequences = 2048, kEach = 64, kOps = kSequences * kEach;
  OpenOptions open;
  open.memory.residency = Residency::mirrored;
  open.threads = 2;
  auto* const done = static_cast<std::uint64_t*>(::mmap(nullptr, kSequences * sizeof(std::uint64_t),
                                                        PROT_READ | PROT_WRITE,
                                                        MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  ASSERT_NE(static_cast<void*>(done), MAP_FAILED);
  // Warp s puts the keys s, s + kSequences, ...; every fourth of its operations erases the one
  // before.
  std::vector<std::uint64_t> keys(kOps), values(kOps), out(kOps);
  std::vector<OpKind> kinds(kOps);
  for (std::uint64_t i = 0; i < kOps; ++i) {
    bool const erases = i / kSequences % 4 == 3;
    keys[i] = erases ? i - kSequences : i;
    values[i] = i + 7;
    kinds[i] = erases ? OpKind::erase : OpKind::put;
  }
  auto const column = [](std::vector<std::uint64_t> const& v) {
    return Column{reinterpret_cast<std::byte const*>(v.data()), nullptr, 8, v.size(), Place::host};
  };
  for (int round = 0; round < 8; ++round) {
    std::fill(done, done + kSequences, 0);
    ::pid_t const child = ::fork();
    if (child == 0) {
      CreateOptions create;
      create.value_bytes = 8;
      create.file.overwrite = true;
      auto store = Store::create(path, create, open);
      auto session =
          store ? DeviceAccess::open(*store, {kOps}) : Result<DeviceSession>(store.status());
      if (!session) ::_exit(1);
      DeviceOps ops{column(keys),
                    column(values),
                    {reinterpret_cast<std::byte*>(out.data()), 8, kOps, Place::host},
                    kinds,
                    false,
                    kSequences,
                    {},
                    {},
                    {},
                    done};
      static_cast<void>(DeviceAccess::run(*session, ops));
      ::pause();
    }
    std::uint64_t const until = kOps * static_cast<std::uint64_t>(round + 1) / 10;
    auto const sum = [&] {
      std::uint64_t all = 0;
      for (std::uint64_t s = 0; s < kSequences; ++s)
        all += __atomic_load_n(done + s, __ATOMIC_ACQUIRE);
      return all;
    };
    int status = 0;
    while (sum() < until && ::waitpid(child, &status, WNOHANG) == 0) ::usleep(100);
    ::kill(child, SIGKILL);
    ::waitpid(child, &status, 0);
    ASSERT_TRUE(WIFSIGNALED(status));
    auto store = Store::open(path, open);
    ASSERT_TRUE(store.ok()) << store.status().message();
    auto verified = store->verify();
    ASSERT_TRUE(verified.ok() && verified->fault_count == 0);
    std::vector<KeyStatus> statuses(kOps);
    ASSERT_TRUE(store
                    ->get(column(keys),
                          {reinterpret_cast<std::byte*>(out.data()), 8, kOps, Place::host},
                          statuses)
                    .ok());
    for (std::uint64_t i = 0; i < kOps; ++i) {
      std::uint64_t const finished = done[i % kSequences], mine = i / kSequences;
      if (kinds[i] == OpKind::erase) continue;
      bool const erased_later = mine % 4 == 2;
      if (mine < finished && !(erased_later && finished > mine)) {
        ASSERT_EQ(statuses[i], KeyStatus::ok) << i;
      }
      if (erased_later && mine + 1 < finished) {
        ASSERT_EQ(statuses[i], KeyStatus::not_found) << i;
      }
      if (mine > finished) {
        ASSERT_EQ(statuses[i], KeyStatus::not_found) << i;
      }
      if (statuses[i] == KeyStatus::ok) {
        ASSERT_EQ(out[i], values[i]) << i;
      }
    }
  }
  ::munmap(done, kSequences * sizeof(std::uint64_t));
}

}  // namespace
}  // namespace perdure::test
