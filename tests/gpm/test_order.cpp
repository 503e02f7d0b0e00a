// What the host's calls of libGPM come after: on a machine whose streams carry out what was
// launched on them only when somebody waits, as late as a GPU may. Invariant tested: every call
// that touches what kernels may have written comes after all that were launched on the default
// stream, and on the stream that it was given.
#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <numeric>

#include "exec/cpu/grid_cpu.hpp"
#include "gpm/gpm_calls.hpp"
#include "support/store_driver.hpp"

namespace perdure::test {
namespace {

class LateGrid : public exec::CpuGrid {
 public:
  using exec::CpuGrid::CpuGrid;
  static Result<std::unique_ptr<LateGrid>> open(std::uint32_t = 0) {
    return std::make_unique<LateGrid>(2);
  }
  Status follow(void* stream) {
    end(nullptr);
    end(stream);
    return {};
  }
  /// What the program itself waits for in the end.
  static void wait() {
    for (auto const& [stream, kernels] : std::exchange(launched, {}))
      for (auto const& kernel : kernels) kernel();
  }
  /// Of a test that failed.
  static void forget() { launched.clear(); }
  /// A user's kernel.
  static void launch_late(std::function<void()> kernel, void* stream = nullptr) {
    launched[stream].push_back(std::move(kernel));
  }

 private:
  static void end(void* stream) {
    for (auto const& kernel : std::exchange(launched[stream], {})) kernel();
  }
  static inline std::map<void*, std::vector<std::function<void()>>> launched;
};

class CallOrder : public testing::Test {
 protected:
  using Calls = gpm::GpmCalls<LateGrid>;
  static constexpr std::size_t kWords = 1 << 12;

  void SetUp() override { LateGrid::forget(); }
  gpmcp* checkpoint_of(std::vector<std::uint32_t>& memory) {
    gpmcp* const made =
        calls_.checkpoints.create(dir_.file("cp").c_str(), memory.size() * 4, 1, 1, 0);
    EXPECT_EQ(calls_.checkpoints.on(
                  made, "register", nullptr,
                  [&](auto& open) { return open.add(memory.data(), memory.size() * 4, 0); }),
              GPM_OK)
        << gpm::gpm_last_error;
    return made;
  }
  gpm_result checkpoint(gpmcp* made, gpm_stream stream = nullptr) {
    return calls_.checkpoints.on(made, "checkpoint", stream,
                                 [](auto& open) { return open.checkpoint(0, 1); });
  }
  gpm_result restore(gpmcp* made) {
    return calls_.checkpoints.on(made, "restore", nullptr,
                                 [](auto& open) { return open.restore(0).status(); });
  }
  gpmlog* log_of(std::size_t bytes) {
    gpmlog* const made = calls_.logs.create(dir_.file("log").c_str(), bytes,
                                            {gpm::GpmLogKind::conventional, 0, 0, 2});
    EXPECT_NE(made, nullptr) << gpm::gpm_last_error;
    return made;
  }
  static void insert_late(gpmlog* made) {
    LateGrid::launch_late([made] {
      exec::GridTally tally;
      exec::CpuThread thread({1, 1}, 0, exec::Persist::here, tally);
      std::uint32_t const entry = 5;
      static_cast<void>(gpm::gpm_insert(thread, made->view, &entry, sizeof entry, 1));
    });
  }

  ScratchDir dir_;
  Calls calls_;
};

TEST_F(CallOrder, ACheckpointHoldsWhatTheKernelBeforeItWrote) {
  std::vector<std::uint32_t> memory(kWords, 1);
  gpmcp* const made = checkpoint_of(memory);
  LateGrid::launch_late([&] { std::iota(memory.begin(), memory.end(), 100u); });
  ASSERT_EQ(checkpoint(made), GPM_OK);
  std::fill(memory.begin(), memory.end(), 0u);
  ASSERT_EQ(restore(made), GPM_OK);
  EXPECT_EQ(memory[0], 100u);
  EXPECT_EQ(memory[kWords - 1], 100 + kWords - 1);
}

TEST_F(CallOrder, ARestoreComesAfterTheKernelBeforeIt) {
  std::vector<std::uint32_t> memory(kWords, 7);
  gpmcp* const made = checkpoint_of(memory);
  ASSERT_EQ(checkpoint(made), GPM_OK);
  LateGrid::launch_late([&] { std::fill(memory.begin(), memory.end(), 0u); });
  ASSERT_EQ(restore(made), GPM_OK);
  LateGrid::wait();
  EXPECT_EQ(memory, std::vector<std::uint32_t>(kWords, 7));
}

TEST_F(CallOrder, AKernelOnAStreamOfItsOwnIsWaitedForWhereTheStreamIsGiven) {
  std::vector<std::uint32_t> memory(kWords, 1);
  gpmcp* const made = checkpoint_of(memory);
  auto* const stream = reinterpret_cast<gpm_stream>(&memory);
  LateGrid::launch_late([&] { std::fill(memory.begin(), memory.end(), 9u); }, stream);
  ASSERT_EQ(checkpoint(made, stream), GPM_OK);
  std::fill(memory.begin(), memory.end(), 0u);
  ASSERT_EQ(restore(made), GPM_OK);
  EXPECT_EQ(memory, std::vector<std::uint32_t>(kWords, 9));
}

TEST_F(CallOrder, ClearingALogEndsWhatTheKernelBeforeItInserted) {
  gpmlog* made = log_of(64);
  for (int const partition : {-1, 1}) {
    insert_late(made);
    ASSERT_EQ(calls_.logs.clear(made, partition, nullptr), GPM_OK) << gpm::gpm_last_error;
    LateGrid::wait();
    EXPECT_EQ(calls_.logs.size(made, -1, nullptr), 0);
  }
  insert_late(made);
  ASSERT_EQ(calls_.logs.clear(made, -1, nullptr), GPM_OK);
  ASSERT_EQ(calls_.logs.close(made, nullptr), GPM_OK);
  made = calls_.logs.open(dir_.file("log").c_str());
  EXPECT_EQ(calls_.logs.size(made, -1, nullptr), 0);
}

TEST_F(CallOrder, SizesAndOverflowsAreThoseAfterTheKernelBefore) {
  gpmlog* made = log_of(16);
  insert_late(made);
  EXPECT_EQ(calls_.logs.size(made, 1, nullptr), 4);
  insert_late(made);
  EXPECT_EQ(calls_.logs.size(made, -1, nullptr), 8);
  insert_late(made);
  EXPECT_EQ(calls_.logs.overflows(made, nullptr), 1);
  ASSERT_EQ(calls_.logs.clear(made, -1, nullptr), GPM_OK);
  insert_late(made);
  ASSERT_EQ(calls_.logs.close(made, nullptr), GPM_OK);  // with the entry
  made = calls_.logs.open(dir_.file("log").c_str());
  EXPECT_EQ(calls_.logs.size(made, 1, nullptr), 4);
}

TEST_F(CallOrder, WritingFillingAndUnmappingComeAfterTheKernelBefore) {
  std::string const file = dir_.file("a");
  auto* bytes = static_cast<char*>(calls_.files.map(file.c_str(), 4096, true));
  ASSERT_NE(bytes, nullptr) << gpm::gpm_last_error;
  auto const mark_late = [&](std::size_t at) { LateGrid::launch_late([=] { bytes[at] = 'k'; }); };
  mark_late(0);
  ASSERT_EQ(calls_.files.write(bytes, "w", 1, nullptr), GPM_OK);
  mark_late(1);
  ASSERT_EQ(calls_.files.fill(bytes + 1, 'f', 1, nullptr), GPM_OK);
  mark_late(2);
  ASSERT_EQ(calls_.files.unmap(bytes, nullptr), GPM_OK);
  bytes = static_cast<char*>(calls_.files.map(file.c_str(), 4096, false));
  EXPECT_EQ(std::string(bytes, 3), "wfk");
  EXPECT_EQ(calls_.files.write(bytes + 4095, "long", calls_.files.mapped_bytes(bytes), nullptr),
            GPM_FAILED);
  EXPECT_EQ(calls_.files.unmap(bytes, nullptr), GPM_OK);
}

/// As CUDA numbers the threads of a block: x first. Threads of 2-D and 3-D blocks and grids have
/// numbers of their own.
TEST(Extent3, NumbersEachPlaceOnceXFirst) {
  for (exec::Extent3 const& extent :
       {exec::Extent3{8, 8, 1}, {4, 4, 4}, {64, 1, 1}, {1, 5, 3}, {3, 2, 7}}) {
    std::uint64_t next = 0;
    for (std::uint32_t z = 0; z < extent.z; ++z)
      for (std::uint32_t y = 0; y < extent.y; ++y)
        for (std::uint32_t x = 0; x < extent.x; ++x) EXPECT_EQ(extent.number_of({x, y, z}), next++);
    EXPECT_EQ(extent.volume(), next);
  }
}

}  // namespace
}  // namespace perdure::test
