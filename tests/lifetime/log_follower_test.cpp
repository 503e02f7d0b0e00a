// What the writer does between two of a follower's looks at one pool of layout `log`
// (store/gphash/log_follower.hpp).
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "lifetime/lifetime_store.hpp"
#include "pm/followed_file.hpp"
#include "pm/pool.hpp"
#include "pm/root.hpp"
#include "store/gphash/log_look.hpp"
#include "support/sanitized.hpp"
#include "wal/entry_log.hpp"

namespace perdure::test {
namespace {

constexpr std::uint64_t kKeysFollowed = 200;

/// The newest version of each key, as the follower's index has it.
void expect_all(gphash::LogFollower& follower, std::uint64_t version) {
  Words const keys = words(1, kKeysFollowed);
  Words values(keys.size());
  std::vector<gphash::LogLook::Ask> asks(keys.size());
  for (std::size_t i = 0; i < keys.size(); ++i)
    asks[i] = {std::as_bytes(std::span(&keys[i], 1)),
               {reinterpret_cast<std::byte*>(&values[i]), sizeof values[i]}};
  gphash::LogLook look(follower, asks);
  Status const s = look.get();
  ASSERT_TRUE(s.ok()) << s.message();
  for (std::size_t i = 0; i < keys.size(); ++i) {
    ASSERT_EQ(asks[i].status, KeyStatus::ok) << keys[i];
    ASSERT_EQ(values[i], version << 32 | keys[i]);
  }
}

Result<Store> make_small(std::string const& path) {
  CreateOptions o;
  o.layout = Layout::log;
  o.value_bytes = 8;
  o.expected_records = 64;
  return Store::create(path, o, {.threads = 1});
}

/// The root is read, then the segment that it names; a segment that was let go in between has
/// another number, and still what was written in its life before.
TEST(LogFollowers, ThatAreOvertakenBetweenTheRootAndItsSegmentBeginAnew) {
  ScratchDir const scratch;
  std::string const path = scratch.file("pool");
  auto store = make_small(path);
  ASSERT_TRUE(store.ok()) << store.status().message();
  std::uint64_t version = 0;
  auto const put = [&](std::uint64_t batches) {
    Words const keys = words(1, kKeysFollowed);
    for (; batches > 0; --batches) {
      ++version;
      Words values;
      for (std::uint64_t const key : keys) values.push_back(version << 32 | key);
      ASSERT_TRUE(store->put(column(keys), column(values)).ok());
    }
  };
  put(1);
  auto file = pm::FollowedFile::open(path);
  ASSERT_TRUE(file.ok()) << file.status().message();
  auto const header = pm::Pool::header_in(path, file->data());
  std::uint64_t meanwhile = 0;  // batches that come when the root has been read
  gphash::LogFollower follower(path, header.value(), file->data(), [&]() -> Result<std::uint64_t> {
    put(std::exchange(meanwhile, 0));
    if (Status s = file->follow(); !s.ok()) return s;
    return file->size();
  });
  ASSERT_TRUE(follower.follow().ok());
  for (std::uint64_t n = 0; n < (kSanitized ? 20 : 60); ++n) {
    SCOPED_TRACE(n);
    put(1);
    meanwhile = 150 + 37 * n % 400;  // a life of a segment has some 330
    Status const s = follower.follow();
    ASSERT_TRUE(s.ok()) << s.message();
    ASSERT_NO_FATAL_FAILURE(expect_all(follower, version));
  }
}

/// A word of a pool, whoever has it open.
class PlantedHead {
 public:
  /// Of a commit at the end of the log's first segment, which nothing leads to: a reader that looks
  /// behind the log's end takes what is before it for damaged.
  PlantedHead(std::string const& path, pm::PoolHeader const& header, std::uint64_t number) {
    int const file = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
    struct stat is{};
    if (file < 0 || ::fstat(file, &is) != 0) std::abort();
    bytes_ = static_cast<std::size_t>(is.st_size);
    void* const at = ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    ::close(file);
    if (at == MAP_FAILED) std::abort();
    pool_ = static_cast<std::byte*>(at);
    wal::EntryCells cells(header);
    cells.base = pool_;
    auto const root = pm::newest_root(pool_);
    cells.segments = {root->find(wal::kEntrySegments)->offset};
    cells.id = cells.header_at(cells.segments[0]).log_id;
    wal::ExtentHead head{number, 0, static_cast<std::uint32_t>(wal::ExtentKind::commit), 0, 0};
    head.check = cells.check_of(head);
    cell_ = pool_ + cells.offset(cells.cells() - cells.head_cells()).bytes;
    std::memcpy(cell_, &head, sizeof head);
  }
  PlantedHead(PlantedHead const&) = delete;
  PlantedHead& operator=(PlantedHead const&) = delete;
  ~PlantedHead() { ::munmap(pool_, bytes_); }
  void take_away() { std::memset(cell_, 0, sizeof(wal::ExtentHead)); }

 private:
  std::byte* pool_ = nullptr;
  std::byte* cell_ = nullptr;
  std::size_t bytes_ = 0;
};

/// What a follower has put into its index, and not published, may be taken back: what it had
/// published stands in the pool again, but no more in the index.
TEST(LogFollowers, WhatIsTakenBackBeforeItIsPublishedDoesNotStand) {
  ScratchDir const scratch;
  std::string const path = scratch.file("pool");
  auto store = make_small(path);
  ASSERT_TRUE(store.ok()) << store.status().message();
  ASSERT_TRUE(put(*store, 1, 10).ok());
  std::uint64_t const key = 1000;
  auto const commit = [&] {
    auto transaction = store->begin({.max_operations = 10, .revertible = true});
    ASSERT_TRUE(transaction.ok()) << transaction.status().message();
    ASSERT_TRUE(put(*store, key, 10, 0, {.transaction = &*transaction}).ok());
    ASSERT_TRUE(transaction->commit().ok());
  };
  ASSERT_NO_FATAL_FAILURE(commit());  // one before, so that the next needs no other root
  ASSERT_TRUE(store->revert().ok());
  auto file = pm::FollowedFile::open(path);
  ASSERT_TRUE(file.ok()) << file.status().message();
  auto const header = pm::Pool::header_in(path, file->data());
  int looks = -1000;  // at the root, since the commit
  std::function<void()> at_second_look;
  gphash::LogFollower follower(path, header.value(), file->data(), [&]() -> Result<std::uint64_t> {
    if (++looks == 2) at_second_look();
    if (Status s = file->follow(); !s.ok()) return s;
    return file->size();
  });
  auto const has = [&](gphash::LogFollower::Seen const& seen) {
    bool found = false;
    seen.index->each(seen.index->key_of(std::as_bytes(std::span(&key, 1))),
                     [&](std::uint64_t) { found = true; });
    return found;
  };
  auto const begin = std::chrono::steady_clock::now();
  ASSERT_TRUE(follower.follow().ok());
  // until the log's end is to be checked again
  std::this_thread::sleep_for(100 * (std::chrono::steady_clock::now() - begin) +
                              std::chrono::milliseconds(60));
  ASSERT_NO_FATAL_FAILURE(commit());
  PlantedHead planted(path, header.value(), 1u << 20);
  at_second_look = [&] {  // the first has found damage, behind what it had put into the index
    planted.take_away();
    ASSERT_TRUE(store->revert().ok());
    std::uint64_t version = 0;
    {
      auto const seen = follower.seen();
      EXPECT_TRUE(has(seen));
      version = seen.version;
    }
    EXPECT_FALSE(follower.stands(version));
  };
  looks = 0;
  Status const s = follower.follow();
  ASSERT_TRUE(s.ok()) << s.message();
  EXPECT_GE(looks, 2);
  EXPECT_FALSE(has(follower.seen()));
  EXPECT_TRUE(follower.stands(follower.seen().version));
}

/// Who reads a log, and what it finds in it: a reader by itself, and by workers.
struct Followed {
  Followed(std::string const& path, std::uint32_t threads)
      : file(std::move(*pm::FollowedFile::open(path))),
        workers(threads),
        follower(path, *pm::Pool::header_in(path, file.data()), file.data(),
                 [this]() -> Result<std::uint64_t> {
                   if (Status s = file.follow(); !s.ok()) return s;
                   return file.size();
                 }) {}

  pm::FollowedFile file;
  exec::Workers workers;
  gphash::LogFollower follower;
};

class LogFollowersOf : public testing::TestWithParam<std::uint32_t> {  // key bytes; 0: any length
 protected:
  [[nodiscard]] std::vector<Bytes> keys(std::uint64_t first, std::uint64_t n) const {
    std::vector<Bytes> all;
    for (; n > 0; --n, ++first) all.push_back(config_.key(first));
    return all;
  }
  Status put(std::uint64_t first, std::uint64_t n, std::uint64_t version, CallOptions const& how) {
    std::vector<Bytes> values;
    for (std::uint64_t i = first; i < first + n; ++i) values.push_back(config_.value(i, version));
    return store_->put(Packed(keys(first, n), config_.key_bytes).column(),
                       Packed(values, config_.value_bytes).column(), {}, how);
  }
  Status erase(std::uint64_t first, std::uint64_t n) {
    return store_->erase(Packed(keys(first, n), config_.key_bytes).column());
  }
  /// All that each has of a key.
  void expect_the_same(Followed const& a, Followed const& b) const {
    auto const x = a.follower.seen(), y = b.follower.seen();
    ASSERT_EQ(x.index->keys(), y.index->keys());
    EXPECT_GT(x.index->keys(), kRecords / 2);
    for (Bytes const& key : keys(0, kRecords)) {
      std::vector<std::uint64_t> whats[2];
      auto const bytes = std::as_bytes(std::span(key));
      x.index->each(x.index->key_of(bytes), [&](std::uint64_t what) { whats[0].push_back(what); });
      y.index->each(y.index->key_of(bytes), [&](std::uint64_t what) { whats[1].push_back(what); });
      ASSERT_EQ(whats[0], whats[1]);
    }
  }

  static constexpr std::uint64_t kRecords = 60'000;
  Config config_;
  std::optional<Store> store_;
};

INSTANTIATE_TEST_SUITE_P(All, LogFollowersOf, testing::Values(8, 24, 0));

// Batches large and small, whose keys come again, and go; and a commit that is taken back, so that
// the index is built anew.
TEST_P(LogFollowersOf, OneLogFindTheSameHoweverManyReadIt) {
  ScratchDir const scratch;
  std::string const path = scratch.file("pool");
  config_.key_bytes = GetParam();
  config_.value_bytes = 8;
  config_.layout = Layout::log;
  store_.emplace(std::move(*Store::create(path, config_.create(kRecords), {.threads = 1})));
  Followed alone(path, 1), two(path, 2), many(path, 100);  // more than the index has parts for
  for (std::uint64_t round = 1; round <= 3; ++round) {
    SCOPED_TRACE(round);
    ASSERT_TRUE(put(0, kRecords, round, {}).ok());
    for (std::uint64_t first = 0; first < kRecords; first += 997)
      ASSERT_TRUE(put(first, 50, round + 10, {}).ok());
    ASSERT_TRUE(erase(kRecords / 4 * round, kRecords / 8).ok());
    auto transaction = store_->begin({.max_operations = 400, .revertible = true});
    ASSERT_TRUE(transaction.ok()) << transaction.status().message();
    ASSERT_TRUE(put(100, 300, round + 20, {.transaction = &*transaction}).ok());
    ASSERT_TRUE(transaction->commit().ok());
    for (int times = 0; times < 2; ++times) {
      ASSERT_TRUE(alone.follower.follow().ok());
      ASSERT_TRUE(two.follower.follow(&two.workers).ok());
      ASSERT_TRUE(many.follower.follow(&many.workers).ok());
      ASSERT_NO_FATAL_FAILURE(expect_the_same(alone, two));
      ASSERT_NO_FATAL_FAILURE(expect_the_same(alone, many));
      if (times != 0) break;
      ASSERT_TRUE(store_->revert().ok());
    }
  }
}

}  // namespace
}  // namespace perdure::test
