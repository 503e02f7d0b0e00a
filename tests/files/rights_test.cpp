// Who may read and write files of the library: their owner, unless somebody said otherwise,
// whatever the umask.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>

#include "files/small_store.hpp"
#include "gpm/gpm_checkpoint_file.hpp"
#include "gpm/gpm_file.hpp"
#include "gpm/gpm_log_file.hpp"
#include "support/folders.hpp"
#include "support/store_driver.hpp"

namespace perdure::test {
namespace {

namespace fs = std::filesystem;

mode_t mode_of(std::string const& path) {
  struct stat st{};
  return ::stat(path.c_str(), &st) == 0 ? st.st_mode & 07777 : 0;
}

constexpr char const* kLogFiles[] = {"redo.log", "checkpoint", "image-a", "image-b"};

/// The process's umask, for as long as a test lives.
class Rights : public testing::TestWithParam<mode_t> {
 protected:
  ~Rights() override { ::umask(before_); }

  /// Of a file that a `mode` was given for.
  [[nodiscard]] static mode_t less_umask(mode_t mode) { return mode & ~GetParam(); }

  ScratchDir const dir_;
  DiskDir const log_{"rights"};
  std::string const pool_ = dir_.file("pool"), snapshot_ = dir_.file("snapshot");

 private:
  mode_t const before_ = ::umask(GetParam());
};

TEST_P(Rights, AreTheOwnersAlone) {
  auto store = create(pool_, powered(log_.path));
  ASSERT_TRUE(store.ok() && store->snapshot(snapshot_).ok()) << store.status().message();
  EXPECT_EQ(mode_of(pool_), 0600u);
  EXPECT_EQ(mode_of(snapshot_), 0600u);
  EXPECT_EQ(mode_of(log_.path), 0700u);
  for (char const* const name : kLogFiles) EXPECT_EQ(mode_of(log_.file(name)), 0600u) << name;
  ASSERT_TRUE(
      Store::restore(snapshot_, dir_.file("restored"), {.durability = Durability::process}).ok());
  EXPECT_EQ(mode_of(dir_.file("restored")), 0600u);
  ASSERT_TRUE(gpm::GpmFile::map(dir_.file("mapped"), 4096, true, false).ok());
  ASSERT_TRUE(gpm::GpmFile::plain(dir_.file("plain"), 4096, true).ok());
  auto const host = gpm::GpmLogFile::For::host;
  ASSERT_TRUE(
      gpm::GpmLogFile::create(dir_.file("log"), 4096, {gpm::GpmLogKind::hcl, 1, 32}, host, false)
          .ok());
  ASSERT_TRUE(
      gpm::GpmCheckpointFile::create(dir_.file("checkpoint"), 4096, 1, 1, false, false).ok());
  for (char const* const name : {"mapped", "plain", "log", "checkpoint"})
    EXPECT_EQ(mode_of(dir_.file(name)), 0600u) << "of libGPM: " << name;
}

TEST_P(Rights, AreWidenedByAMode) {
  CreateOptions options = powered(log_.path);
  options.file.mode = 0640;
  auto store = create(pool_, options);
  ASSERT_TRUE(store.ok() && store->snapshot(snapshot_, {.mode = 0644}).ok())
      << store.status().message();
  EXPECT_EQ(mode_of(pool_), less_umask(0640));
  EXPECT_EQ(mode_of(snapshot_), less_umask(0644));
  EXPECT_EQ(mode_of(log_.path), less_umask(0750)) << "who may read the log may go to it";
  for (char const* const name : kLogFiles)
    EXPECT_EQ(mode_of(log_.file(name)), less_umask(0640)) << name;
  RestoreOptions restore{.durability = Durability::process};
  restore.file.mode = 0666;
  ASSERT_TRUE(Store::restore(snapshot_, dir_.file("restored"), restore).ok());
  EXPECT_EQ(mode_of(dir_.file("restored")), less_umask(0666));
}

TEST_P(Rights, WithoutThoseOfTheOwnerOrBeyondPermissionsAreRefused) {
  for (std::uint32_t const mode : {0400u, 0200u, 0100u, 0077u, 01600u, 04700u}) {
    CreateOptions options = small_options();
    options.file.mode = mode;
    EXPECT_EQ(create(pool_, options).status().code(), Code::invalid_argument) << mode;
    EXPECT_FALSE(fs::exists(pool_));
  }
}

TEST_P(Rights, AreHandedOnWhenAFileIsReplaced) {
  auto const chmod = [](std::string const& path, mode_t mode) {
    ASSERT_EQ(::chmod(path.c_str(), mode), 0);
  };
  ASSERT_TRUE(make_marked(pool_, 1, small_options()).ok());
  chmod(pool_, 0644);
  {
    auto store = create(pool_, overwriting());
    ASSERT_TRUE(store.ok() && store->snapshot(snapshot_).ok());
    EXPECT_EQ(mode_of(pool_), 0644u) << "of an open one";
    chmod(snapshot_, 0640);
    ASSERT_TRUE(store->snapshot(snapshot_, {.overwrite = true}).ok());
    EXPECT_EQ(mode_of(snapshot_), 0640u);
  }
  EXPECT_EQ(mode_of(pool_), 0644u);
  ASSERT_TRUE(Store::restore(snapshot_, pool_, {.file = {.overwrite = true}}).ok());
  EXPECT_EQ(mode_of(pool_), 0644u);
  CreateOptions narrower = overwriting();
  narrower.file.mode = 0600;
  ASSERT_TRUE(make_marked(pool_, 1, narrower).ok());
  EXPECT_EQ(mode_of(pool_), 0600u) << "a mode that is given counts";
  ASSERT_TRUE(gpm::GpmFile::map(dir_.file("mapped"), 4096, true, false).ok());
  chmod(dir_.file("mapped"), 0660);
  ASSERT_TRUE(gpm::GpmFile::map(dir_.file("mapped"), 8192, true, false).ok());
  EXPECT_EQ(mode_of(dir_.file("mapped")), 0660u);
}

// Whose pool is made anew at each opening.
TEST_P(Rights, OfAPoolOfDurabilityPowerStayAtEachOpening) {
  CreateOptions options = powered(log_.path);
  options.file.mode = 0640;
  ASSERT_TRUE(make_marked(pool_, 1, options).ok());
  ASSERT_EQ(::chmod(pool_.c_str(), 0604), 0);
  EXPECT_EQ(mark_at(pool_, log_.path), 1u);
  EXPECT_EQ(mode_of(pool_), 0604u);
  fs::remove(pool_);  // as a power loss does
  EXPECT_EQ(mark_at(pool_, log_.path), 1u);
  EXPECT_EQ(mode_of(pool_), less_umask(0640)) << "its log's";
}

INSTANTIATE_TEST_SUITE_P(Umask, Rights, testing::Values(0, 022, 077), [](auto const& which) {
  return "Is0" + std::to_string(which.param / 8) + "x";
});

TEST(Mode, ThatCannotBeIsRefused) {
  ScratchDir const dir;
  for (std::uint32_t const mode : {01u, 0400u, 0200u, 0066u, 01600u, 04755u}) {
    CreateOptions options = small_options();
    options.file.mode = mode;
    Status const s = create(dir.file("pool"), options).status();
    EXPECT_EQ(s.code(), Code::invalid_argument) << s.message();
    EXPECT_TRUE(says(s, "mode 0")) << s.message();
  }
  EXPECT_TRUE(fs::is_empty(dir.path()));
}

}  // namespace
}  // namespace perdure::test
