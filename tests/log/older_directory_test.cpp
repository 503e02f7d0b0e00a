// A pool of durability power whose log directory is an older copy of its own: a backup that was put
// back. What a killed process wrote last, the pool's file still tells of. Invariant: an opening is
// refused where that file knows of acknowledged batches that the directory lacks, and never where
// it does not.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <string>

#include "pm/log_word.hpp"
#include "pm/pool_format.hpp"
#include "power_stores.hpp"
#include "support/folders.hpp"

namespace perdure::test::power_stores {
namespace {

namespace fs = std::filesystem;

// Damage must not have an opening refused that lacks nothing.
TEST(LogWord, SaysNothingWithAnyBitFlipped) {
  for (std::uint64_t const lsn :
       {std::uint64_t{4096}, std::uint64_t{569'344}, ~std::uint64_t{4095}}) {
    std::uint64_t const word = pm::log_word_of(lsn);
    EXPECT_EQ(pm::lsn_of_log_word(word), lsn);
    for (int bit = 0; bit < 64; ++bit)
      EXPECT_EQ(pm::lsn_of_log_word(word ^ std::uint64_t{1} << bit), 0u) << lsn << " bit " << bit;
  }
  EXPECT_EQ(pm::lsn_of_log_word(0), 0u);
}

/// A process that has a store open, and writes when it is told to, until it is killed.
class Writer {
 public:
  template <class Open, class Step>
  Writer(Open open, Step step) {
    if (::pipe(asked_) != 0 || ::pipe(done_) != 0) std::abort();
    child_ = ::fork();
    if (child_ != 0) return;
    auto opened = open();
    if (!opened.ok()) ::_exit(2);
    for (char c = 0; ::read(asked_[0], &c, 1) == 1;)
      if (!step(*opened) || ::write(done_[1], &c, 1) != 1) ::_exit(3);
    ::_exit(4);
  }
  ~Writer() {
    kill();
    for (int const fd : {asked_[0], asked_[1], done_[0], done_[1]}) ::close(fd);
  }
  Writer(Writer const&) = delete;
  Writer& operator=(Writer const&) = delete;

  void begin() { ASSERT_EQ(::write(asked_[1], "x", 1), 1); }
  void write() {
    begin();
    ::close(std::exchange(done_[1], -1));  // so that its end is heard
    char c = 0;
    ASSERT_EQ(::read(done_[0], &c, 1), 1) << "the writer ended by itself";
  }
  void kill() {
    if (child_ <= 0) return;
    ::kill(child_, SIGKILL);
    int status = 0;
    EXPECT_EQ(::waitpid(std::exchange(child_, 0), &status, 0) > 0 && WIFSIGNALED(status), true)
        << "the writer ended by itself: " << status;
  }

 private:
  pid_t child_ = 0;
  int asked_[2]{}, done_[2]{};
};

class OlderDirectory : public testing::TestWithParam<Layout> {
 protected:
  Config const config_ = config_of(GetParam(), 8, 16);
  ScratchDir const scratch_;
  DiskDir const log_{"log"}, older_{"older"};
  std::string const pool_ = scratch_.file("pool");

  void put_back() {
    fs::remove_all(log_.path);
    fs::copy(older_.path, log_.path);
  }
  auto opens() {
    return [this] { return open(config_, pool_, log_.path); };
  }
  bool put(Store& store, std::uint64_t first, std::uint64_t records) {
    std::vector<Bytes> keys, values;
    for (std::uint64_t i = first; i < first + records; ++i)
      keys.push_back(config_.key(i)), values.push_back(config_.value(i));
    return store
        .put(Packed(keys, config_.key_bytes).column(), Packed(values, config_.value_bytes).column())
        .ok();
  }
  /// Ten records a step.
  auto puts() {
    return [this, next = std::uint64_t{0}](Store& store) mutable {
      return put(store, std::exchange(next, next + 10), 10);
    };
  }
  void expect_records(std::string const& pool, std::uint64_t records) {
    auto store = open(config_, pool, log_.path);
    ASSERT_TRUE(store.ok()) << store.status().message();
    EXPECT_EQ(store->stats().records, records);
    EXPECT_FALSE(store->recovery().lost_acknowledged);
  }
};

INSTANTIATE_TEST_SUITE_P(All, OlderDirectory,
                         testing::Values(Layout::word, Layout::in_place, Layout::log),
                         [](auto const& which) { return text(which.param); });

TEST_P(OlderDirectory, OfBeforeAKillIsNotTakenForItsOwn) {
  {
    Store const made = create(config_, pool_, log_.path);
  }
  DiskDir const own{"own"};
  {
    Writer writer(opens(), puts());
    writer.write();
    fs::copy(log_.path, older_.path);
    writer.write();
    writer.kill();
  }
  fs::copy(log_.path, own.path);
  put_back();
  Status const refused = open(config_, pool_, log_.path).status();
  EXPECT_EQ(refused.code(), Code::corrupt);
  for (char const* const part :
       {"older files", "log_dir that it was used with last", "repair=True"})
    EXPECT_NE(refused.message().find(part), std::string::npos) << refused.message();

  // What the pool's file does not tell, or tells otherwise.
  expect_records(scratch_.file("elsewhere"), 10);
  put_back();
  auto found = open(config_, pool_, own.path);
  ASSERT_TRUE(found.ok()) << found.status().message();
  EXPECT_EQ(found->stats().records, 20u);
  ASSERT_TRUE(found->close().ok());

  auto repaired = open(config_, pool_, log_.path, true);
  ASSERT_TRUE(repaired.ok()) << repaired.status().message();
  EXPECT_TRUE(repaired->recovery().lost_acknowledged) << repaired->recovery().log_report;
  EXPECT_EQ(repaired->stats().records, 10u);
  ASSERT_TRUE(repaired->close().ok());
  expect_records(pool_, 10);  // told once
}

/// No file of this process may be longer while it lives.
class ShortFiles {
 public:
  explicit ShortFiles(std::uint64_t bytes) {
    std::signal(SIGXFSZ, SIG_IGN);
    if (::getrlimit(RLIMIT_FSIZE, &before_) != 0) std::abort();
    rlimit const now{bytes, before_.rlim_max};
    if (::setrlimit(RLIMIT_FSIZE, &now) != 0) std::abort();
  }
  ~ShortFiles() {
    ::setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, SIG_DFL);
  }
  ShortFiles(ShortFiles const&) = delete;
  ShortFiles& operator=(ShortFiles const&) = delete;

 private:
  rlimit before_{};
};

// The pool's file alone tells of the loss, until the images do.
TEST_P(OlderDirectory, IsToldAgainWhereARepairFails) {
  {
    Store const made = create(config_, pool_, log_.path);
  }
  {
    Writer writer(opens(), puts());
    writer.write();
    fs::copy(log_.path, older_.path);
    writer.write();
    writer.kill();
  }
  put_back();
  {
    ShortFiles const limit(fs::file_size(pool_));  // an image is longer
    Status const failed = open(config_, pool_, log_.path, true).status();
    EXPECT_NE(failed.message().find("image-"), std::string::npos) << failed.message();
  }
  EXPECT_EQ(open(config_, pool_, log_.path).status().code(), Code::corrupt);
  auto repaired = open(config_, pool_, log_.path, true);
  ASSERT_TRUE(repaired.ok()) << repaired.status().message();
  EXPECT_TRUE(repaired->recovery().lost_acknowledged) << repaired->recovery().log_report;
  EXPECT_EQ(repaired->stats().records, 10u);
}

TEST_P(OlderDirectory, GoesWithAPoolThatIsAsOldOrGone) {
  {
    Store const made = create(config_, pool_, log_.path);
  }
  std::string const copy = scratch_.file("copy");
  {
    Writer writer(opens(), puts());
    writer.write();
    fs::copy(pool_, copy);
    fs::copy(log_.path, older_.path);
    writer.write();
    writer.kill();
  }
  expect_records(copy, 20);  // a pool that is older than its log
  put_back();
  fs::remove(copy);
  expect_records(copy, 10);
  put_back();
  fs::remove(pool_);  // a power loss, where it lay in memory
  expect_records(pool_, 10);
}

// The checkpoints of a log that fills again and again hold the pool, but not what it says.
TEST_P(OlderDirectory, OfBeforeACheckpointIsNotTakenForItsOwn) {
  {
    Store const made = create(config_, pool_, log_.path);
  }
  {
    Writer writer(opens(), [this](Store& store) {
      auto const before = store.stats().log.checkpoints;
      while (store.stats().log.checkpoints < before + 2)
        if (!put(store, 0, 2000)) return false;
      return true;
    });
    writer.write();
    fs::copy(log_.path, older_.path);
    writer.write();
    writer.kill();
  }
  put_back();
  EXPECT_EQ(open(config_, pool_, log_.path).status().code(), Code::corrupt);
}

// Killed while it writes batches of several groups: whatever is there of the last one, nobody was
// told of it.
TEST_P(OlderDirectory, IsNotWhatAKillWithinABatchLeaves) {
  {
    Store const made = create(config_, pool_, log_.path, 16u << 20);
  }
  for (int n = 0; n < 8; ++n) {
    Writer writer(opens(), [this](Store& store) {
      while (put(store, 0, 40'000)) {
      }
      return false;
    });
    writer.begin();
    ::usleep(static_cast<useconds_t>(60'000 + 17'000 * n));
    writer.kill();
    auto store = open(config_, pool_, log_.path);
    ASSERT_TRUE(store.ok()) << store.status().message();
    EXPECT_FALSE(store->recovery().lost_acknowledged) << store->recovery().log_report;
  }
}

}  // namespace
}  // namespace perdure::test::power_stores
