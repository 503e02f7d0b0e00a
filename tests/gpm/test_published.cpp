// What programs for libGPM's published code count on, on the host (perdure/libgpm.cuh has the rest,
// for kernels): files with relative paths lie in a directory, libpmem's calls, the switch of DDIO,
// and failures that nobody asks for are told. Set while the program's globals are made, as that
// header does.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "exec/cpu/grid_cpu.hpp"
#include "gpm/gpm_calls.hpp"
#include "perdure/gpm.h"
#include "perdure/gpm_dialect/libpmem.h"
extern "C" {
#include "perdure/gpm_dialect/change-ddio.h"
}

namespace perdure {
namespace {

std::string directory() { return "/dev/shm/perdure-gpmpublished-" + std::to_string(::getpid()); }
bool const as_published = (gpm_as_published(directory().c_str()), true);

class Published : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(as_published);
    std::filesystem::create_directory(directory());
    if (gpmlog_open("none") == nullptr &&
        std::string(gpm_error()).find("no GPU here") != std::string::npos)
      GTEST_SKIP() << "a build for CUDA: " << gpm_error();
  }
  ~Published() override { std::filesystem::remove_all(directory()); }
};

TEST_F(Published, RelativePathsLieInTheDirectory) {
  void* const at = gpm_map("./a.dat", 8192, true);
  ASSERT_NE(at, nullptr) << gpm_error();
  EXPECT_TRUE(std::filesystem::exists(directory() + "/a.dat"));
  EXPECT_EQ(gpm_unmap_address(at), GPM_OK);
  gpmlog* const log = gpmlog_create_conv("log", 64, 1);
  ASSERT_NE(log, nullptr) << gpm_error();
  EXPECT_TRUE(std::filesystem::exists(directory() + "/log"));
  EXPECT_EQ(gpmlog_close(log), GPM_OK);
  gpmcp* const checkpoint = gpmcp_create("cp", 64, 1, 1);
  ASSERT_NE(checkpoint, nullptr) << gpm_error();
  EXPECT_TRUE(std::filesystem::exists(directory() + "/cp"));
  EXPECT_EQ(gpmcp_close(checkpoint), GPM_OK);
  EXPECT_EQ(gpm_path_of("/elsewhere/a"), std::string("/elsewhere/a"));
}

TEST_F(Published, LibpmemsFilesKeepWhatTheyHoldAndGrow) {
  std::size_t mapped = 0;
  int is_pmem = 0;
  EXPECT_EQ(pmem_map_file("/pmem/nodes", 0, 0, 0666, &mapped, &is_pmem), nullptr);
  EXPECT_EQ(is_pmem, 0);
  auto* nodes = static_cast<char*>(
      pmem_map_file("/pmem/nodes", 5000, PMEM_FILE_CREATE, 0666, &mapped, &is_pmem));
  ASSERT_NE(nodes, nullptr) << gpm_error();
  EXPECT_GE(mapped, 5000u);
  EXPECT_EQ(is_pmem, 1);
  nodes[4999] = 'k';
  pmem_persist(nodes, 5000);
  EXPECT_EQ(pmem_unmap(nodes, 5000), 0);
  EXPECT_EQ(pmem_unmap(nodes, 5000), -1);
  nodes = static_cast<char*>(
      pmem_map_file("/pmem/nodes", 1 << 20, PMEM_FILE_CREATE, 0666, &mapped, nullptr));
  ASSERT_NE(nodes, nullptr) << gpm_error();
  EXPECT_GE(mapped, std::size_t{1} << 20);
  EXPECT_EQ(nodes[4999], 'k');
  nodes[(1 << 20) - 1] = 'e';
  EXPECT_EQ(pmem_unmap(nodes, 1 << 20), 0);
}

TEST_F(Published, FailuresThatNobodyAsksForAreTold) {
  testing::internal::CaptureStderr();
  EXPECT_EQ(gpm_map("none/a", 4096, true), nullptr);
  EXPECT_LT(gpmcp_checkpoint(nullptr, 0), 0);
  std::string const told = testing::internal::GetCapturedStderr();
  EXPECT_NE(told.find(directory() + "/none/a"), std::string::npos) << told;
  EXPECT_NE(told.find("gpmcp_checkpoint: the pointer is not a checkpoint that is open"),
            std::string::npos)
      << told;
}

#if !defined(PERDURE_ON_GPU)
TEST_F(Published, ALogThatIsClosedTellsOfEntriesThatFoundNoRoom) {
  gpmlog* const log = gpmlog_create_conv("log", 4, 1);
  ASSERT_NE(log, nullptr) << gpm_error();
  exec::GridTally tally;
  exec::CpuThread thread({1, 1}, 0, exec::Persist::here, tally);
  for (std::uint32_t const entry : {1u, 2u, 3u})
    static_cast<void>(gpm::gpm_insert(thread, log->view, &entry, sizeof entry, 0));
  testing::internal::CaptureStderr();
  EXPECT_EQ(gpmlog_close(log), GPM_OK);
  std::string const told = testing::internal::GetCapturedStderr();
  EXPECT_NE(told.find("2 entries found no room"), std::string::npos) << told;
}
#endif

TEST_F(Published, TheSwitchOfDdioSaysOnceWhatItComesTo) {
  testing::internal::CaptureStderr();
  ddio_on();
  ddio_off();
  ddio_off();
  ddio_on();
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            "libGPM: " + gpm::describe_ddio(gpm::cpu_vendor()) + "\n");
}

}  // namespace
}  // namespace perdure
