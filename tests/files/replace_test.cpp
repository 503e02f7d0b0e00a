// What may replace a file that is there: nothing unasked; with overwrite a file of the
// same kind; with force any file, but none that is open, however it is called. And a failure leaves
// what was there.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
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

std::string const kLetter =
    "Dear Sir, this letter is none of your pools.\n" + std::string(5000, 'x');

class Replace : public testing::Test {
 protected:
  void refused(Status const& s, std::string const& words) const {
    EXPECT_EQ(s.code(), Code::already_exists) << s.message();
    EXPECT_TRUE(says(s, words)) << s.message();
  }
  ScratchDir const dir_;
  DiskDir const log_{"replace"};
  std::string const pool_ = dir_.file("pool"), file_ = dir_.file("file"),
                    snapshot_ = dir_.file("snapshot");
};

TEST_F(Replace, APoolTakesAPoolsPlaceAndNoOtherFiles) {
  for (std::string const& bytes : {kLetter, std::string(), std::string(8192, '\0')}) {
    write_file(file_, bytes);
    refused(create(file_, small_options()).status(), "pass overwrite");
    refused(create(file_, overwriting()).status(), "is no Perdure pool");
    EXPECT_EQ(read_file(file_), bytes);
  }
  EXPECT_TRUE(make_marked(file_, 4, overwriting(true)).ok()) << "with force";
  EXPECT_TRUE(make_marked(file_, 5, overwriting()).ok()) << "now it is a pool";
  EXPECT_EQ(mark_at(file_), 5u);
}

TEST_F(Replace, APoolOfAnyVersionIsAPool) {
  ASSERT_TRUE(make_marked(file_, 4, small_options()).ok());
  std::string bytes = read_file(file_);
  bytes[8] = 99;  // format_version
  write_file(file_, bytes);
  ASSERT_FALSE(open(file_).ok());
  EXPECT_TRUE(make_marked(file_, 5, overwriting()).ok());
}

TEST_F(Replace, ARestoredPoolLikewise) {
  {
    auto store = create(pool_, small_options());
    ASSERT_TRUE(store.ok() && write_mark(*store, 9).ok() && store->snapshot(snapshot_).ok());
  }
  write_file(file_, kLetter);
  refused(Store::restore(snapshot_, file_).status(), "pass overwrite");
  refused(Store::restore(snapshot_, file_, {.file = {.overwrite = true}}).status(),
          "is no Perdure pool");
  EXPECT_EQ(read_file(file_), kLetter);
  EXPECT_TRUE(Store::restore(snapshot_, file_, {.file = {.force = true}}).ok());
  EXPECT_EQ(mark_at(file_), 9u);
}

TEST_F(Replace, ASnapshotTakesASnapshotsPlaceAndNoOtherFiles) {
  auto store = create(pool_, small_options());
  ASSERT_TRUE(store.ok());
  write_file(file_, kLetter);
  refused(store->snapshot(file_), "pass overwrite");
  refused(store->snapshot(file_, {.overwrite = true}), "is no snapshot");
  EXPECT_EQ(read_file(file_), kLetter);
  EXPECT_TRUE(store->snapshot(file_, {.force = true}).ok());
  EXPECT_TRUE(store->snapshot(file_, {.overwrite = true}).ok());
}

/// The names by which a file may be called that is also called `path`.
std::vector<std::string> other_names(ScratchDir const& dir, std::string const& path) {
  std::string const hard = dir.file("hard");
  fs::create_hard_link(path, hard);
  fs::create_directory_symlink(dir.path(), dir.file("folder"));
  return {path, hard, fs::relative(path).string(),
          dir.file("folder/") + fs::path(path).filename().string()};
}

// Neither the pool that it is taken of nor any other that is open.
TEST_F(Replace, ASnapshotNeverTakesAnOpenPoolsPlace) {
  auto store = create(pool_, small_options());
  auto other = create(dir_.file("other"), small_options());
  ASSERT_TRUE(store.ok() && write_mark(*store, 3).ok() && other.ok());
  for (std::string const& name : other_names(dir_, pool_)) {
    Status const own = store->snapshot(name, {.force = true});
    EXPECT_EQ(own.code(), Code::invalid_argument) << name << ": " << own.message();
    Status const s = other->snapshot(name, {.force = true});
    EXPECT_EQ(s.code(), Code::busy) << name << ": " << s.message();
  }
  ASSERT_TRUE(store->close().ok() && other->close().ok());
  EXPECT_EQ(mark_at(pool_), 3u);
}

TEST_F(Replace, ARestoredPoolNeverTakesItsSnapshotsPlace) {
  {
    auto store = create(pool_, small_options());
    ASSERT_TRUE(store.ok() && write_mark(*store, 3).ok() && store->snapshot(snapshot_).ok());
  }
  for (std::string const& name : other_names(dir_, snapshot_)) {
    Status const s = Store::restore(snapshot_, name, {.file = {.force = true}}).status();
    EXPECT_EQ(s.code(), Code::invalid_argument) << name << ": " << s.message();
    EXPECT_TRUE(says(s, "is the snapshot itself")) << s.message();
  }
  EXPECT_TRUE(Store::restore(snapshot_, file_).ok());
}

// TensorFlow, for one, calls a file "checkpoint".
TEST_F(Replace, ALogDirectoryTakesNoOthersFiles) {
  for (char const* const name : {"redo.log", "checkpoint", "image-a", "image-b"}) {
    DiskDir const log{"replace-others"};
    fs::create_directory(log.path);
    write_file(log.file(name), kLetter);
    refused(create(pool_, powered(log.path)).status(), "pass overwrite");
    refused(create(pool_, powered(log.path, true)).status(), "is no file of a log directory");
    EXPECT_EQ(read_file(log.file(name)), kLetter);
    EXPECT_FALSE(fs::exists(pool_));
    EXPECT_EQ(std::distance(fs::directory_iterator(log.path), fs::directory_iterator()), 1)
        << "nothing else is left";
    CreateOptions force = powered(log.path);
    force.file.force = true;
    EXPECT_TRUE(make_marked(pool_, 6, force).ok());
    fs::remove(pool_);
    EXPECT_EQ(mark_at(pool_, log.path), 6u);
    fs::remove(pool_);
  }
}

TEST_F(Replace, ALogDirectoryTakesAnOlderOnesPlace) {
  ASSERT_TRUE(make_marked(pool_, 6, powered(log_.path)).ok());
  refused(create(dir_.file("other"), powered(log_.path)).status(), "pass overwrite");
  EXPECT_EQ(mark_at(pool_, log_.path), 6u);
  EXPECT_TRUE(make_marked(pool_, 7, powered(log_.path, true)).ok());
  EXPECT_EQ(mark_at(pool_, log_.path), 7u);
}

// The new log does not fit: pool and log are those that were to be replaced.
TEST_F(Replace, WhatFailsLeavesPoolAndLogThatWereThere) {
  ASSERT_TRUE(make_marked(pool_, 6, powered(log_.path)).ok());
  pid_t const child = ::fork();
  if (child == 0) {
    rlimit const limit{32u << 20, 32u << 20};
    ::signal(SIGXFSZ, SIG_IGN);
    CreateOptions large = powered(log_.path, true);
    large.log.bytes = 64u << 20;
    if (::setrlimit(RLIMIT_FSIZE, &limit) != 0) ::_exit(100);
    ::_exit(create(pool_, large).ok() ? 101 : 0);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  ASSERT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  EXPECT_EQ(mark_at(pool_, log_.path), 6u);
  EXPECT_EQ(std::distance(fs::directory_iterator(log_.path), fs::directory_iterator()), 4)
      << "nothing else is left";
}

// Half of a pool, from a process that was killed while it made it.
TEST_F(Replace, WhatACrashLeftOfAPoolGivesWay) {
  write_file(pool_ + ".perdure-partial", "half a pool");
  EXPECT_TRUE(make_marked(pool_, 2, small_options()).ok());
  EXPECT_EQ(mark_at(pool_), 2u);
  EXPECT_FALSE(fs::exists(pool_ + ".perdure-partial"));
}

TEST_F(Replace, WhatOthersPutThereMeanwhileStays) {
  for (bool const there : {false, true}) {
    fs::remove(pool_);
    if (there) {
      ASSERT_TRUE(make_marked(pool_, 1, small_options()).ok());
    }
    pm::MakeOptions const over{.overwrite = true};
    auto made = pm::NewFile::make("pool", pool_, over);
    ASSERT_TRUE(made.ok()) << made.status().message();
    write_file(file_, kLetter);
    fs::rename(file_, pool_);
    Status const s = made->second.keep();
    EXPECT_EQ(s.code(), Code::busy) << s.message();
    EXPECT_EQ(read_file(pool_), kLetter);
  }
}

// In place of the unfinished file: it is neither given the name nor removed.
TEST_F(Replace, WhatOthersPutInPlaceOfANewFileStays) {
  for (bool const keeps : {true, false}) {
    auto made = pm::NewFile::make("pool", pool_, {});
    ASSERT_TRUE(made.ok()) << made.status().message();
    write_file(file_, kLetter);
    fs::rename(file_, pm::partial_name(pool_));
    if (keeps) {
      EXPECT_EQ(made->second.keep().code(), Code::busy);
    }
    made->second = {};
    EXPECT_EQ(read_file(pm::partial_name(pool_)), kLetter);
    EXPECT_FALSE(fs::exists(pool_));
    fs::remove(pm::partial_name(pool_));
  }
}

TEST_F(Replace, LibGpmsFilesTakeNoOthersPlace) {
  auto const host = gpm::GpmLogFile::For::host;
  auto const make_log = [&] {
    return gpm::GpmLogFile::create(file_, 4096, {gpm::GpmLogKind::hcl, 1, 32}, host, false)
        .status();
  };
  auto const make_checkpoint = [&] {
    return gpm::GpmCheckpointFile::create(file_, 4096, 1, 1, false, false).status();
  };
  write_file(file_, kLetter);
  refused(make_log(), "is no libGPM log");
  refused(make_checkpoint(), "is no libGPM checkpoint");
  EXPECT_EQ(read_file(file_), kLetter);
  EXPECT_TRUE(gpm::GpmFile::plain(file_, 4096, true).ok())
      << "plain bytes: any file may be an older one";
  fs::remove(file_);
  ASSERT_TRUE(make_log().ok());
  EXPECT_TRUE(make_log().ok()) << "in place of an older one";
  refused(make_checkpoint(), "is no libGPM checkpoint");
  fs::remove(file_);
  ASSERT_TRUE(make_marked(file_, 8, small_options()).ok());
  refused(gpm::GpmFile::map(file_, 4096, true, false).status(), "is a pool, a log or a checkpoint");
  refused(gpm::GpmFile::plain(file_, 4096, true).status(), "is a pool, a log or a checkpoint");
  EXPECT_EQ(mark_at(file_), 8u);
}

}  // namespace
}  // namespace perdure::test
