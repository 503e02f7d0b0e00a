// The host's calls of perdure/gpm.h: what a program written for libGPM sees, and what bad input is
// told.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>

#include "gpm/gpm_ddio.hpp"
#include "perdure/gpm.h"

namespace perdure {
namespace {

class GpmCalls : public testing::Test {
 protected:
  void SetUp() override {
    EXPECT_EQ(gpmlog_open("/nowhere"), nullptr);
    if (said("no GPU here")) GTEST_SKIP() << "a build for CUDA: " << gpm_error();
  }
  ~GpmCalls() override {
    for (char const* what : {"a", "log", "cp"}) std::remove(file(what).c_str());
  }
  static std::string file(char const* what) {
    return "/dev/shm/perdure-gpmcalls-" + std::to_string(::getpid()) + "." + what;
  }
  static bool said(char const* text) {
    return std::string(gpm_error()).find(text) != std::string::npos;
  }
};

TEST_F(GpmCalls, AMappedFileKeepsWhatWasWrittenAndSaysWhatThatSurvives) {
  auto* const bytes = static_cast<char*>(gpm_map(file("a").c_str(), 100000, true));
  ASSERT_NE(bytes, nullptr) << gpm_error();
  std::strcpy(bytes + 99000, "kept");
  EXPECT_NE(std::string(gpm_survives(bytes)).find("process kill"), std::string::npos);
  ASSERT_EQ(gpm_unmap(file("a").c_str(), bytes, 100000), GPM_OK);
  auto* const again = static_cast<char*>(gpm_map(file("a").c_str(), 100000, false));
  ASSERT_NE(again, nullptr) << gpm_error();
  EXPECT_STREQ(again + 99000, "kept");
  EXPECT_EQ(gpm_unmap(file("a").c_str(), again, 100000), GPM_OK);
  EXPECT_EQ(gpm_unmap(file("a").c_str(), again, 100000), GPM_FAILED);
  EXPECT_TRUE(said("not an address of gpm_map"));
}

TEST_F(GpmCalls, PersistBeginSaysWhatItCameToAndEndsPair) {
  EXPECT_EQ(gpm_persist_end(), GPM_FAILED);
  EXPECT_TRUE(said("no gpm_persist_begin")) << gpm_error();
  std::string const report = gpm_persist_begin();
  EXPECT_EQ(report, gpm::describe_ddio(gpm::cpu_vendor()));
  EXPECT_EQ(gpm_persist_begin(), report);
  EXPECT_EQ(gpm_persist_end(), GPM_OK);
  EXPECT_EQ(gpm_persist_end(), GPM_OK);
  EXPECT_EQ(gpm_persist_end(), GPM_FAILED);
}

/// The kernel's word on the processor is another source than cpuid.
TEST(GpmDdio, IsSaidOfTheProcessorThatIsHere) {
  std::ifstream info("/proc/cpuinfo");
  std::string line;
  while (std::getline(info, line) && !line.starts_with("vendor_id")) {
  }
  EXPECT_EQ(line.substr(line.find(':') + 2), gpm::cpu_vendor());
  EXPECT_EQ(gpm::ddio_of("GenuineIntel"), gpm::Ddio::left_on);
  EXPECT_NE(gpm::describe_ddio("GenuineIntel").find("left as it is"), std::string::npos);
  EXPECT_EQ(gpm::ddio_of("AuthenticAMD"), gpm::Ddio::absent);
  EXPECT_NE(
      gpm::describe_ddio("AuthenticAMD").find("none to switch, the processor is AuthenticAMD"),
      std::string::npos);
}

TEST_F(GpmCalls, AFileThatIsMissingOrTooShortIsNotMapped) {
  EXPECT_EQ(gpm_map(file("a").c_str(), 4096, false), nullptr);
  EXPECT_TRUE(said("no such file")) << gpm_error();
  void* const small = gpm_map(file("a").c_str(), 20000, true);
  ASSERT_NE(small, nullptr) << gpm_error();
  gpm_unmap(file("a").c_str(), small, 20000);
  EXPECT_EQ(gpm_map(file("a").c_str(), 1 << 20, false), nullptr);
  EXPECT_TRUE(said("truncated")) << gpm_error();
}

TEST_F(GpmCalls, ALogIsMadeOpenedClearedAndClosed) {
  gpmlog* log = gpmlog_create_hcl(file("log").c_str(), 1 << 16, 4, 64);
  ASSERT_NE(log, nullptr) << gpm_error();
  EXPECT_EQ(gpmlog_clear(log), GPM_OK);
  EXPECT_EQ(gpmlog_clear(log, 255), GPM_OK);
  EXPECT_EQ(gpmlog_clear(log, 256), GPM_FAILED);
  EXPECT_TRUE(said("no partition 256")) << gpm_error();
  EXPECT_EQ(gpmlog_clear(log, -2), GPM_FAILED);
  EXPECT_EQ(gpmlog_overflows(log), 0);
  EXPECT_EQ(gpmlog_partitions(log), 256);
  EXPECT_EQ(gpmlog_size(log), 0);
  EXPECT_EQ(gpmlog_size(log, 255), 0);
  EXPECT_EQ(gpmlog_size(log, 256), GPM_FAILED);
  EXPECT_EQ(gpmlog_close(log), GPM_OK);
  EXPECT_EQ(gpmlog_close(log), GPM_FAILED);
  EXPECT_EQ(gpmlog_partitions(log), GPM_FAILED);
  log = gpmlog_open(file("log").c_str());
  ASSERT_NE(log, nullptr) << gpm_error();
  EXPECT_EQ(gpmlog_close(log), GPM_OK);
  EXPECT_EQ(gpmlog_create_conv(file("log").c_str(), 1 << 16, 0), nullptr);
  EXPECT_TRUE(said("0 partitions")) << gpm_error();
  EXPECT_EQ(gpmlog_create_hcl(file("log").c_str(), 255, 4, 64), nullptr);
  EXPECT_TRUE(said("less than one")) << gpm_error();
  log = gpmlog_create_hcl(file("log").c_str(), 1 << 10, 4, 64);  // figure 4: 4 bytes a thread
  ASSERT_NE(log, nullptr) << gpm_error();
  EXPECT_EQ(gpmlog_close(log), GPM_OK);
}

/// Programs take any other value than 0 for a failure, or those below 0: both are right.
TEST_F(GpmCalls, FailuresAreBelowZero) {
  for (gpm_result const failure : {GPM_FAILED, GPM_NONE_YET, GPM_OVERFLOW, GPM_SIZE, GPM_PARTITION,
                                   GPM_EMPTY, GPM_FEWER, GPM_FOREIGN})
    EXPECT_LT(failure, 0);
  EXPECT_EQ(GPM_OK, 0);
  gpmlog* const none = nullptr;
  EXPECT_LT(gpmlog_clear(none), 0);
  EXPECT_LT(gpmlog_size(none), 0);
  EXPECT_LT(gpmlog_overflows(none), 0);
  EXPECT_LT(gpmlog_close(none), 0);
  EXPECT_LT(gpmcp_checkpoint(nullptr, 0), 0);
  EXPECT_LT(gpmcp_restore(nullptr, 0), 0);
  EXPECT_LT(gpmcp_register(nullptr, nullptr, 8, 0), 0);
}

TEST_F(GpmCalls, TheHostWritesAndFillsWhatIsMapped) {
  auto* const bytes = static_cast<char*>(gpm_map(file("a").c_str(), 8192, true));
  ASSERT_NE(bytes, nullptr) << gpm_error();
  std::size_t const all = gpm_mapped_bytes(bytes);
  EXPECT_GE(all, 8192u);
  EXPECT_EQ(gpm_mapped_bytes(bytes + 1), 0u);
  EXPECT_EQ(gpm_write(bytes + 8000, "kept", 5), GPM_OK) << gpm_error();
  EXPECT_EQ(gpm_fill(bytes, 'f', 2), GPM_OK) << gpm_error();
  EXPECT_STREQ(bytes + 8000, "kept");
  EXPECT_EQ(std::string(bytes, 3), std::string("ff\0", 3));
  EXPECT_EQ(gpm_write(bytes + all - 4, "kept", 5), GPM_FAILED);
  EXPECT_TRUE(said("gpm_write: the pointer is not within what gpm_map mapped")) << gpm_error();
  EXPECT_EQ(gpm_fill(bytes - 1, 0, 1), GPM_FAILED);
  EXPECT_EQ(gpm_unmap(file("a").c_str(), bytes, 8192), GPM_OK);
}

/// hotspot makes one group, and registers its two arrays in groups 0 and 1.
TEST_F(GpmCalls, ASpareGroupTakesRoomOnceItIsUsed) {
  auto* const memory = static_cast<std::uint32_t*>(gpm_map(file("a").c_str(), 1 << 16, true));
  ASSERT_NE(memory, nullptr) << gpm_error();
  gpmcp* checkpoint = gpmcp_create_spare(file("cp").c_str(), 1 << 16, 2, 1, 1);
  ASSERT_NE(checkpoint, nullptr) << gpm_error();
  auto const before = std::filesystem::file_size(file("cp"));
  ASSERT_EQ(gpmcp_register(checkpoint, memory, 1 << 16, 0), GPM_OK) << gpm_error();
  ASSERT_EQ(gpmcp_checkpoint(checkpoint, 0), GPM_OK) << gpm_error();
  EXPECT_EQ(std::filesystem::file_size(file("cp")), before);
  ASSERT_EQ(gpmcp_close(checkpoint), GPM_OK);

  // by a process that ended before it used the other group
  checkpoint = gpmcp_open(file("cp").c_str());
  ASSERT_NE(checkpoint, nullptr) << gpm_error();
  ASSERT_EQ(gpmcp_register(checkpoint, memory, 1 << 16, 1), GPM_OK) << gpm_error();
  EXPECT_GE(std::filesystem::file_size(file("cp")), before + (2 << 16));
  EXPECT_EQ(gpmcp_restore(checkpoint, 1), GPM_NONE_YET);
  memory[9] = 99;
  ASSERT_EQ(gpmcp_checkpoint(checkpoint, 1), GPM_OK) << gpm_error();
  ASSERT_EQ(gpmcp_close(checkpoint), GPM_OK);
  memory[9] = 0;
  checkpoint = gpmcp_open(file("cp").c_str());
  ASSERT_NE(checkpoint, nullptr) << gpm_error();
  ASSERT_EQ(gpmcp_register(checkpoint, memory, 1 << 16, 1), GPM_OK) << gpm_error();
  ASSERT_EQ(gpmcp_restore(checkpoint, 1), GPM_OK) << gpm_error();
  EXPECT_EQ(memory[9], 99u);
  EXPECT_EQ(gpmcp_register(checkpoint, memory, 8, 2), GPM_FAILED);
  EXPECT_EQ(gpmcp_close(checkpoint), GPM_OK);
  EXPECT_EQ(gpm_unmap(file("a").c_str(), memory, 1 << 16), GPM_OK);
}

TEST_F(GpmCalls, AFileOfAnotherKindIsRefusedByName) {
  gpmcp* const checkpoint = gpmcp_create(file("cp").c_str(), 1 << 12, 1, 1);
  ASSERT_NE(checkpoint, nullptr) << gpm_error();
  ASSERT_EQ(gpmcp_close(checkpoint), GPM_OK);
  EXPECT_EQ(gpmlog_open(file("cp").c_str()), nullptr);
  EXPECT_TRUE(said("is no libGPM log")) << gpm_error();
}

/// Memory that kernels of this build reach: registered by gpm_map().
TEST_F(GpmCalls, ACheckpointBringsBackMemoryAndItsWord) {
  auto* const memory = static_cast<std::uint32_t*>(gpm_map(file("a").c_str(), 4096, true));
  ASSERT_NE(memory, nullptr) << gpm_error();
  gpmcp* checkpoint = gpmcp_create(file("cp").c_str(), 4096, 2, 3);
  ASSERT_NE(checkpoint, nullptr) << gpm_error();
  ASSERT_EQ(gpmcp_register(checkpoint, memory, 1000, 1), GPM_OK) << gpm_error();
  ASSERT_EQ(gpmcp_register(checkpoint, memory + 500, 24, 1), GPM_OK) << gpm_error();
  EXPECT_EQ(gpmcp_restore(checkpoint, 1), GPM_NONE_YET);
  EXPECT_TRUE(said("no checkpoint yet")) << gpm_error();
  memory[3] = 33;
  memory[501] = 44;
  ASSERT_EQ(gpmcp_checkpoint(checkpoint, 1, 77), GPM_OK) << gpm_error();
  memory[3] = memory[501] = 0;
  ASSERT_EQ(gpmcp_close(checkpoint), GPM_OK);

  checkpoint = gpmcp_open(file("cp").c_str());
  ASSERT_NE(checkpoint, nullptr) << gpm_error();
  ASSERT_EQ(gpmcp_register(checkpoint, memory, 1000, 1), GPM_OK) << gpm_error();
  std::uint64_t word = 0;
  EXPECT_EQ(gpmcp_restore(checkpoint, 1, &word), GPM_FAILED);
  EXPECT_TRUE(said("2 elements, but 1")) << gpm_error();
  ASSERT_EQ(gpmcp_register(checkpoint, memory + 500, 24, 1), GPM_OK) << gpm_error();
  ASSERT_EQ(gpmcp_restore(checkpoint, 1, &word), GPM_OK) << gpm_error();
  EXPECT_EQ(word, 77u);
  EXPECT_EQ(memory[3], 33u);
  EXPECT_EQ(memory[501], 44u);
  EXPECT_EQ(gpmcp_register(checkpoint, memory, 8, 9), GPM_FAILED);
  EXPECT_TRUE(said("groups 0 to 2")) << gpm_error();
  EXPECT_EQ(gpmcp_register(checkpoint, nullptr, 8, 0), GPM_FAILED);
  EXPECT_EQ(gpmcp_close(checkpoint), GPM_OK);
  gpm_unmap(file("a").c_str(), memory, 4096);
}

}  // namespace
}  // namespace perdure
