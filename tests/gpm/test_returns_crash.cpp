// What is durable when a call of libGPM returns, on every path: a crash right then must leave all
// of it. And the faults that would let it return too early.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <numeric>

#include "exec/sim/grid_sim.hpp"
#include "gpm/crash_medium.hpp"
#include "gpm/gpm_checkpoint_on.hpp"
#include "gpm/gpm_log_on.hpp"
#include "gpm/gpm_memory_on.hpp"

namespace perdure::test {
namespace {

using exec::SimGrid;
using gpm::GpmPath;

constexpr std::uint64_t kItems = 300;

struct Fill {
  static constexpr int kPhases = 1;
  using Shared = exec::NoShared;
  using State = exec::NoState;
  std::uint64_t* to;
  template <int, class T>
  void run(T& thread, Shared&, State&) const {
    if (thread.global() >= kItems) return;
    thread.store(&to[thread.global()], thread.global() + 1);
    thread.persist();
  }
};

/// Calls something, and crashes when it has returned.
class Returns : public testing::TestWithParam<GpmPath> {
 public:
  ~Returns() override {
    remove_files(files_);
    remove_files(left_);
  }
  static bool flushes() {
    GpmPath const path = GetParam();
    return path == GpmPath::ndp || path == GpmPath::cap_mm || path == GpmPath::cap_fs;
  }
  /// The files as a crash after `act` leaves them begin with left_.
  template <class F>
  void crash_after(F act) {
    exec::SimScheduler scheduler({});
    exec::sim_scheduler = &scheduler;
    CrashMedium medium(files_, {}, seed_,
                       flushes() ? Keeps::what_was_flushed : Keeps::what_was_ordered);
    act();
    medium.crash();
    exec::sim_scheduler = nullptr;
    std::string const snapshot = CrashMedium::snapshot(files_, medium.ordering_points());
    copy_files(snapshot, left_);
    remove_files(snapshot);
  }

  bool memory_is_there() {
    crash_after([&] {
      auto memory = gpm::DurableMemory<SimGrid>::open(grid_, files_ + ".memory", kItems * 8,
                                                      {GetParam(), true, 1});
      ASSERT_TRUE(memory.ok()) << memory.status().message();
      auto* const to = reinterpret_cast<std::uint64_t*>(memory->data());
      ASSERT_TRUE(grid_.launch({5, 64}, Fill{to}, memory->persist()).ok());
      ASSERT_TRUE(memory->commit(0, kItems * 8).ok());
    });
    std::vector<std::uint64_t> found(kItems), expected(kItems);
    std::iota(expected.begin(), expected.end(), 1u);
    std::ifstream(left_ + ".memory", std::ios::binary)
        .read(reinterpret_cast<char*>(found.data()), kItems * 8);
    return found == expected;
  }

  /// The second of two, whose header takes the other place.
  bool checkpoint_is_there() {
    using Checkpoint = gpm::GpmCheckpointOn<SimGrid>;
    std::vector<std::uint64_t> data(kItems, 7);
    crash_after([&] {
      auto made =
          Checkpoint::create(grid_, files_ + ".checkpoint", kItems * 8, 1, 1, {GetParam(), 1});
      ASSERT_TRUE(made.ok()) << made.status().message();
      ASSERT_TRUE(made->add(data.data(), kItems * 8, 0).ok());
      ASSERT_TRUE(made->checkpoint(0, 1).ok());
      data.assign(kItems, 8);
      ASSERT_TRUE(made->checkpoint(0, 2).ok());
    });
    auto left = Checkpoint::open(grid_, left_ + ".checkpoint", {GetParam(), 1});
    if (!left.ok() || !left->add(data.data(), kItems * 8, 0).ok()) return false;
    data.assign(kItems, 0);
    auto const word = left->restore(0);
    return word.ok() && word.value() == 2 && data == std::vector<std::uint64_t>(kItems, 8);
  }

  /// Of a log that counts transactions: for kernels where they persist, else for the host.
  bool clear_is_there() {
    using Log = gpm::GpmLogOn<SimGrid>;
    bool const for_kernels = gpm::persist_on(GetParam()) == exec::Persist::here;
    crash_after([&] {
      auto made = Log::create(grid_, files_ + ".log", 64, {gpm::GpmLogKind::conventional, 0, 0, 1},
                              for_kernels);
      ASSERT_TRUE(made.ok()) << made.status().message();
      ASSERT_TRUE(made->clear().ok());
    });
    auto left = Log::open(grid_, left_ + ".log", for_kernels);
    return left.ok() && left->file().header().transaction == 2;
  }

  std::uint64_t seed_ = 1;  // of which words a crash leaves that need not be there

 private:
  SimGrid grid_{5};
  std::string files_ = "/dev/shm/perdure-gpmreturns-" + std::to_string(::getpid());
  std::string left_ = files_ + "-left";
};

TEST_P(Returns, WithEverythingDurable) {
  EXPECT_TRUE(memory_is_there()) << "memory, commit()";
  EXPECT_TRUE(checkpoint_is_there()) << "checkpoint()";
  EXPECT_TRUE(clear_is_there()) << "a log's clear()";
}

TEST_P(Returns, TooEarlyWithAPlantedFault) {
  struct Planted {
    Mutant mutant;
    bool (Returns::*is_there)();
  };
  std::vector<Planted> faults{{"gpm_clear_not_ordered", &Returns::clear_is_there},
                              {"gpm_header_not_ordered", &Returns::checkpoint_is_there}};
  GpmPath const path = GetParam();
  if (path == GpmPath::ndp || path == GpmPath::cap_mm) {
    faults.push_back({"gpm_commit_not_flushed", &Returns::memory_is_there});
    faults.push_back({"gpm_copy_not_flushed", &Returns::checkpoint_is_there});
    faults.push_back({"gpm_header_not_flushed", &Returns::checkpoint_is_there});
  } else if (path == GpmPath::cap_eadr) {
    faults.push_back({"gpm_commit_not_ordered", &Returns::memory_is_there});
  } else if (path == GpmPath::cap_fs) {
    faults.push_back({"gpm_file_not_synced", &Returns::memory_is_there});
    faults.push_back({"gpm_file_not_synced", &Returns::checkpoint_is_there});
  }
  if (flushes()) faults.push_back({"gpm_clear_not_synced", &Returns::clear_is_there});
  for (auto const& [mutant, is_there] : faults) {
    planted = mutant;
    bool always = true;
    for (seed_ = 1; seed_ <= 16 && always; ++seed_) always = (this->*is_there)();
    planted = "none";
    EXPECT_FALSE(always) << "mutant " << mutant.name();
  }
}

INSTANTIATE_TEST_SUITE_P(Gpm, Returns,
                         testing::Values(GpmPath::gpm, GpmPath::gpm_eadr, GpmPath::ndp,
                                         GpmPath::cap_mm, GpmPath::cap_eadr, GpmPath::cap_fs),
                         [](auto const& made) {
                           std::string name(gpm::name(made.param));
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace perdure::test
