// What is at a path and is no regular file: refused at once, by what it is, and left alone. So are
// paths that cannot be.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
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

bool make_socket(std::string const& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strncpy(address.sun_path, path.c_str(), sizeof address.sun_path - 1);
  int const fd = ::socket(AF_UNIX, SOCK_STREAM, 0);
  bool const made =
      fd >= 0 && ::bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
  if (fd >= 0) ::close(fd);
  return made;
}

bool symlink_to_a_pool(std::string const& path) {
  return make_marked(path + ".real", 7, small_options()).ok() &&
         ::symlink((path + ".real").c_str(), path.c_str()) == 0;
}

struct Kind {
  char const* name;
  char const* said;
  bool (*make)(std::string const& path);
};

constexpr Kind kKinds[] = {
    {"Fifo", "is a FIFO",
     [](std::string const& path) { return ::mkfifo(path.c_str(), 0600) == 0; }},
    {"Socket", "is a socket", make_socket},
    {"Directory", "is a directory",
     [](std::string const& path) { return ::mkdir(path.c_str(), 0700) == 0; }},
    {"CharacterDevice", "is a character device",
     [](std::string const& path) {
       return ::mknod(path.c_str(), S_IFCHR | 0600, makedev(1, 3)) == 0;
     }},
    {"BlockDevice", "is a block device",
     [](std::string const& path) {
       return ::mknod(path.c_str(), S_IFBLK | 0600, makedev(240, 99)) == 0;
     }},
    {"Link", "is a symbolic link", symlink_to_a_pool},
    {"DanglingLink", "is a symbolic link",
     [](std::string const& path) {
       return ::symlink((path + ".none").c_str(), path.c_str()) == 0;
     }},
};

class Kinds : public testing::TestWithParam<Kind> {
 protected:
  void SetUp() override {
    fs::create_directory(disk_.path);
    if (!GetParam().make(path_)) GTEST_SKIP() << "cannot be made here: " << std::strerror(errno);
    ::alarm(60);  // so that one which blocks is a failure
  }
  void TearDown() override { ::alarm(0); }
  void refused(Status const& s, std::string const& call) const {
    EXPECT_EQ(s.code(), Code::invalid_argument) << call << ": " << s.message();
    EXPECT_TRUE(says(s, GetParam().said) && says(s, path_)) << call << ": " << s.message();
  }

  ScratchDir const dir_;
  DiskDir const disk_{"kinds"};
  std::string const path_ = dir_.file("it"), pool_ = dir_.file("pool");
};

TEST_P(Kinds, IsNoPoolNorSnapshotNorLog) {
  struct stat before{}, after{};
  ASSERT_EQ(::lstat(path_.c_str(), &before), 0);
  refused(create(path_, small_options()).status(), "create");
  refused(create(path_, overwriting()).status(), "create with overwrite");
  refused(create(path_, overwriting(true)).status(), "create with force");
  refused(open(path_).status(), "open");
  refused(open(path_, {}, true).status(), "open read-only");
  refused(Store::restore(path_, dir_.file("new")).status(), "restore from it");
  auto store = create(pool_, small_options());
  ASSERT_TRUE(store.ok() && store->snapshot(dir_.file("snapshot")).ok());
  refused(Store::restore(dir_.file("snapshot"), path_, {.file = {.overwrite = true, .force = true}})
              .status(),
          "restore to it");
  refused(store->snapshot(path_, {.overwrite = true, .force = true}), "snapshot");
  refused(gpm::GpmFile::map(path_, 4096, true, false).status(), "gpm_map, created");
  refused(gpm::GpmFile::map(path_, 4096, false, false).status(), "gpm_map");
  refused(gpm::GpmFile::plain(path_, 4096, true).status(), "plain file, created");
  refused(gpm::GpmFile::plain(path_, 4096, false).status(), "plain file");
  auto const host = gpm::GpmLogFile::For::host;
  refused(gpm::GpmLogFile::create(path_, 4096, {gpm::GpmLogKind::hcl, 1, 32}, host, false).status(),
          "libGPM log");
  refused(gpm::GpmCheckpointFile::create(path_, 4096, 1, 1, false, false).status(),
          "libGPM checkpoint");
  ASSERT_EQ(::lstat(path_.c_str(), &after), 0);
  EXPECT_TRUE(before.st_ino == after.st_ino && before.st_mode == after.st_mode)
      << "it is left alone";
  if (S_ISLNK(before.st_mode) && fs::exists(path_ + ".real")) {
    EXPECT_EQ(mark_at(path_ + ".real"), 7u);
  }
  EXPECT_FALSE(fs::exists(path_ + ".none")) << "nothing is made where a link leads";
}

TEST_P(Kinds, IsNoFileOfALogDirectory) {
  for (char const* const name : {"redo.log", "checkpoint", "image-a", "image-b"}) {
    DiskDir const log{"kinds-log"};
    fs::create_directory(log.path);
    if (!GetParam().make(log.file(name)))
      GTEST_SKIP() << "cannot be made there: " << std::strerror(errno);
    CreateOptions force = powered(log.path, true);
    force.file.force = true;
    for (CreateOptions const& options : {powered(log.path), powered(log.path, true), force}) {
      Status const s = create(pool_, options).status();
      EXPECT_EQ(s.code(), Code::invalid_argument) << s.message();
      EXPECT_TRUE(says(s, GetParam().said)) << s.message();
      EXPECT_FALSE(fs::exists(pool_));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, Kinds, testing::ValuesIn(kKinds),
                         [](auto const& which) { return which.param.name; });

TEST(Paths, ThatCannotBeAreRefused) {
  ScratchDir const dir;
  EXPECT_EQ(create("", small_options()).status().code(), Code::invalid_argument);
  EXPECT_EQ(open("").status().code(), Code::invalid_argument);
  std::string const zero = dir.file("pool") + std::string(1, '\0') + "rest";
  EXPECT_EQ(create(zero, small_options()).status().code(), Code::invalid_argument);
  Status const partial = create(dir.file("pool.perdure-partial"), small_options()).status();
  EXPECT_EQ(partial.code(), Code::invalid_argument) << "it would give way to a pool that is made";
  EXPECT_TRUE(says(partial, "unfinished")) << partial.message();
  EXPECT_TRUE(fs::is_empty(dir.path()));
}

TEST(Paths, MayLeadThroughLinksToTheirDirectory) {
  ScratchDir const dir;
  fs::create_directory(dir.file("real"));
  fs::create_directory_symlink(dir.file("real"), dir.file("link"));
  EXPECT_TRUE(make_marked(dir.file("link/pool"), 5, small_options()).ok());
  EXPECT_EQ(mark_at(dir.file("real/pool")), 5u);
}

// It would claim to survive a power loss, and could not be opened by its name again.
TEST(Memfd, HasNoDurabilityPower) {
  ScratchDir const dir;
  DiskDir const log{"memfd"};
  auto const refused = [&](Status const& s) {
    EXPECT_EQ(s.code(), Code::unsupported) << s.message();
    EXPECT_TRUE(says(s, "memfd:x") && says(s, "/dev/shm")) << "the way out: " << s.message();
    EXPECT_FALSE(fs::exists(log.file("redo.log")));
  };
  refused(create("memfd:x", powered(log.path)).status());
  auto plain = create("memfd:x", small_options());
  ASSERT_TRUE(plain.ok() && plain->snapshot(dir.file("snapshot")).ok());
  RestoreOptions restore;
  restore.durability = Durability::power;
  restore.log.dir = log.path;
  refused(Store::restore(dir.file("snapshot"), "memfd:x", restore, one_thread()).status());
  ASSERT_TRUE(make_marked(dir.file("pool"), 3, powered(log.path)).ok());
  Status const opened = open("memfd:x", log.path).status();
  EXPECT_EQ(opened.code(), Code::unsupported) << opened.message();
  EXPECT_EQ(mark_at(dir.file("pool"), log.path), 3u);
}

}  // namespace
}  // namespace perdure::test
