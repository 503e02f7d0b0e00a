// What a store says of itself reaches the sink once, from its own call, and nothing that the sink
// does reaches the store.
#include "base/log.hpp"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <filesystem>
#include <numeric>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "perdure/logging.h"
#include "perdure/store.h"

namespace perdure {
namespace {

class Logs : public ::testing::Test {
 protected:
  void SetUp() override {
    path_ = "/dev/shm/perdure-log-" + std::to_string(::getpid());
    std::filesystem::remove(path_);
  }
  void TearDown() override {
    set_log_sink(nullptr);
    std::filesystem::remove(path_);
  }
  void hear(LogLevel least = LogLevel::debug) {
    set_log_sink([this](LogEvent const& event) { heard_.push_back(event); }, least);
  }
  Result<Store> make(std::uint64_t expected = 1000, std::uint64_t most = 0) {
    CreateOptions create;
    create.value_bytes = 8;
    create.expected_records = expected;
    create.max_bytes = most;
    return Store::create(path_, create);
  }
  static Status put(Store& store, std::uint64_t first, std::uint64_t n) {
    std::vector<std::uint64_t> keys(n);
    std::iota(keys.begin(), keys.end(), first);
    std::vector<KeyStatus> statuses(n);
    Column const column = Column::of(keys);
    return store.put(column, column, statuses);
  }
  [[nodiscard]] std::vector<std::string> names() const {
    std::vector<std::string> all;
    for (LogEvent const& event : heard_) all.emplace_back(event.name);
    return all;
  }
  std::string path_;
  std::vector<LogEvent> heard_;
};

TEST_F(Logs, HaveTheLifeOfAStore) {
  hear();
  {
    auto store = make();
    ASSERT_TRUE(store.ok());
    ASSERT_TRUE(put(*store, 0, 10).ok());
  }
  ASSERT_TRUE(Store::open(path_).ok());
  EXPECT_EQ(names(), (std::vector<std::string>{"created", "closed", "opened", "closed"}));
  for (LogEvent const& event : heard_) EXPECT_EQ(event.pool, path_);
}

TEST_F(Logs, OfAClosedStoreSayItOnce) {
  hear();
  auto store = make();
  ASSERT_TRUE(store->close().ok());
  static_cast<void>(store->close());
  {
    Store const gone = std::move(*store);
  }
  EXPECT_EQ(names(), (std::vector<std::string>{"created", "closed"}));
}

TEST_F(Logs, TellWhenATableBeginsAndEndsToGrow) {
  auto store = make();
  hear();
  for (std::uint64_t first = 0; first < 100'000; first += 1000)
    ASSERT_TRUE(put(*store, first, 1000).ok());
  auto const all = names();
  EXPECT_GT(std::ranges::count(all, "growth_begun"), 1);
  EXPECT_GE(std::ranges::count(all, "growth_begun"), std::ranges::count(all, "growth_ended"));
  EXPECT_EQ(all.size(), static_cast<std::size_t>(std::ranges::count(all, "growth_begun") +
                                                 std::ranges::count(all, "growth_ended")));
}

TEST_F(Logs, TellWhoFindsNoSpaceAndWhoIsRefused) {
  auto store = make(1000, 4u << 20);
  hear(LogLevel::warning);
  EXPECT_EQ(put(*store, 0, 1'000'000).code(), Code::no_space);
  EXPECT_EQ(names(), std::vector<std::string>{"no_space"});
  heard_.clear();
  hear(LogLevel::debug);
  EXPECT_EQ(Store::open(path_).status().code(), Code::busy);
  EXPECT_EQ(names(), std::vector<std::string>{"refused"});
}

TEST_F(Logs, LeaveOutWhatIsBelowTheirLevel) {
  hear(LogLevel::warning);
  ASSERT_TRUE(make().ok());
  EXPECT_TRUE(heard_.empty());
}

TEST_F(Logs, OfASinkThatThrowsHarmNothing) {
  int called = 0;
  set_log_sink(
      [&called](LogEvent const&) {
        ++called;
        throw std::runtime_error("a sink's own trouble");
      },
      LogLevel::debug);
  {
    auto store = make();
    ASSERT_TRUE(store.ok());
    ASSERT_TRUE(put(*store, 0, 10).ok());
  }
  EXPECT_EQ(called, 2);
  EXPECT_EQ(Store::open(path_)->stats().records, 10u);
}

TEST_F(Logs, OfASinkThatCallsTheStoreGoOn) {
  auto store = make();
  ASSERT_TRUE(put(*store, 0, 10).ok());
  std::uint64_t seen = 0;
  set_log_sink([&](LogEvent const&) { seen += store->verify()->records; }, LogLevel::debug);
  ASSERT_TRUE(store->verify().ok());  // an event, whose sink verifies once more: that is none
  set_log_sink(nullptr);
  EXPECT_EQ(seen, 10u);
}

TEST_F(Logs, OfASlowSinkDelayItsOwnCallAlone) {
  auto store = make();
  std::atomic<bool> in_sink{false}, go_on{false};
  set_log_sink(
      [&](LogEvent const&) {
        in_sink = true;
        while (!go_on) std::this_thread::yield();
      },
      LogLevel::debug);
  std::thread slow([&] { static_cast<void>(store->verify()); });
  while (!in_sink) std::this_thread::yield();
  EXPECT_TRUE(put(*store, 0, 10).ok());  // the sink holds no lock of the store's
  EXPECT_EQ(store->stats().records, 10u);
  go_on = true;
  slow.join();
}

TEST_F(Logs, AreNotAForkedChilds) {
  auto store = make();
  hear();
  pid_t const child = ::fork();
  if (child == 0) {
    static_cast<void>(Store::open(path_ + "-none"));
    static_cast<void>(store->verify());
    ::_exit(heard_.empty() ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

TEST_F(Logs, OfThreadsReachTheSinkEachOnce) {
  std::atomic<int> called{0};
  set_log_sink([&](LogEvent const&) { ++called; }, LogLevel::debug);
  auto store = make();
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i)
    threads.emplace_back([&] {
      for (int k = 0; k < 20; ++k) static_cast<void>(store->verify());
    });
  for (std::thread& each : threads) each.join();
  EXPECT_EQ(called, 1 + 8 * 20);
}

TEST(LogText, IsKeyValueAndJson) {
  LogEvent event{LogLevel::warning, "dropped", "/dev/shm/a pool", "said \"no\"\n", {}, {}};
  event.fields = {
      {"slots", std::uint64_t{3}}, {"seconds", 0.25}, {"whole", true}, {"why", std::string("a=b")}};
  EXPECT_EQ(as_text(event),
            "pool=\"/dev/shm/a pool\" event=dropped slots=3 seconds=0.25 whole=true why=\"a=b\" "
            "message=\"said \\\"no\\\"\\u000a\"");
  EXPECT_EQ(as_json(event),
            "{\"time\": \"1970-01-01T00:00:00.000Z\", \"level\": \"warning\", \"event\": "
            "\"dropped\", \"pool\": \"/dev/shm/a pool\", \"message\": \"said \\\"no\\\"\\u000a\", "
            "\"slots\": 3, \"seconds\": 0.25, \"whole\": true, \"why\": \"a=b\"}");
}

TEST(LogText, NamesItsLevels) {
  for (LogLevel const level :
       {LogLevel::debug, LogLevel::info, LogLevel::warning, LogLevel::error, LogLevel::off})
    EXPECT_EQ(log_level_named(name(level)), level);
  EXPECT_EQ(log_level_named("verbose"), std::nullopt);
}

}  // namespace
}  // namespace perdure
