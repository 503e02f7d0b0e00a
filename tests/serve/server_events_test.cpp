// What a server tells a log sink: that it began and ended, why it refuses, and a flood of refusals
// once a second at most.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <mutex>
#include <thread>
#include <vector>

#include "clients.hpp"
#include "perdure/logging.h"

namespace perdure::serve::test {
namespace {

class ServerEvents : public testing::Test {
 protected:
  ServerEvents() {
    set_log_sink([this](LogEvent const& event) {
      std::lock_guard const lock(mutex_);
      told_.push_back(event);
    });
  }
  ~ServerEvents() override { set_log_sink(nullptr); }

  std::vector<LogEvent> told(std::string_view name) {
    std::lock_guard const lock(mutex_);
    std::vector<LogEvent> those;
    std::ranges::copy_if(told_, std::back_inserter(those),
                         [&](LogEvent const& e) { return e.name == name; });
    return those;
  }
  /// What events of this name count together.
  std::uint64_t counted(std::string_view name) {
    std::uint64_t sum = 0;
    for (LogEvent const& event : told(name)) sum += std::get<std::uint64_t>(event.fields[0].value);
    return sum;
  }

 private:
  std::mutex mutex_;
  std::vector<LogEvent> told_;
};

TEST_F(ServerEvents, TellOfItsBeginningAndItsEnd) {
  Store store = small_store();
  {
    Server server = started(store);
    auto const began = told("serving");
    ASSERT_EQ(began.size(), 1u);
    EXPECT_EQ(began[0].pool, store.path());
    EXPECT_EQ(began[0].message, "listens at 127.0.0.1:" + std::to_string(server.port()));
    EXPECT_EQ(Client(server.port()).ask({"SET", "k", "v"}), "+OK\r\n");
    EXPECT_TRUE(told("served").empty());
  }
  auto const ended = told("served");
  ASSERT_EQ(ended.size(), 1u);
  EXPECT_EQ(ended[0].level, LogLevel::info);
  EXPECT_EQ(ended[0].message, "1 commands");
}

TEST_F(ServerEvents, CountAFloodOfWrongPasswordsInsteadOfTellingOfEach) {
  Store store = small_store();
  ServeOptions options;
  options.password = "right";
  {
    Server server = started(store, options);
    Client client(server.port());
    for (int n = 0; n < 1000; ++n)
      EXPECT_TRUE(client.ask({"AUTH", "wrong"}).starts_with("-WRONGPASS"));
  }
  EXPECT_EQ(counted("passwords_refused"), 1000u);
  auto const events = told("passwords_refused");
  EXPECT_LT(events.size(), 20u);
  EXPECT_EQ(events[0].level, LogLevel::warning);
  EXPECT_NE(events[0].message.find("the last from 127.0.0.1:"), std::string::npos);
}

TEST_F(ServerEvents, SayWhyClientsAreRefused) {
  Store store = small_store();
  ServeOptions options;
  options.most_clients = 1;
  {
    Server server = started(store, options);
    Client first(server.port());
    EXPECT_EQ(first.ask({"PING"}), "+PONG\r\n");
    for (int n = 0; n < 3; ++n)
      EXPECT_EQ(Client(server.port()).reply(), "-ERR max number of clients reached\r\n");
  }
  EXPECT_EQ(counted("clients_refused"), 3u);
  EXPECT_TRUE(told("strangers_refused").empty());
}

TEST_F(ServerEvents, TellOfASnapshotThatFailedAndOfCommandsThatFoundNoRoom) {
  Store store = small_store("memfd:serve", 12u << 20);
  ServeOptions options;
  options.snapshot_path = "/proc/no such folder/snapshot";
  {
    Server server = started(store, options);
    Client client(server.port());
    EXPECT_TRUE(client.ask({"SAVE"}).starts_with("-ERR"));
    std::string said = "+OK\r\n";
    for (int n = 0; n < 1000 && said == "+OK\r\n"; ++n)
      said = client.ask({"SET", "k" + std::to_string(n), std::string(100'000, 'v')});
    EXPECT_TRUE(said.starts_with("-OOM")) << said;
  }
  ASSERT_EQ(told("not_saved").size(), 1u);
  EXPECT_NE(told("not_saved")[0].message.find("no such folder"), std::string::npos);
  EXPECT_EQ(counted("commands_refused"), 1u);
}

}  // namespace
}  // namespace perdure::serve::test
