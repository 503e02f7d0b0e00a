// A server and its clients, each on a thread of its own.
#include <gtest/gtest.h>

#include <atomic>
#include <optional>
#include <thread>
#include <vector>

#include "clients.hpp"
#include "support/folders.hpp"
#include "support/store_driver.hpp"

namespace perdure::serve::test {
namespace {

/// Runs `each` on several threads, with the number of each.
template <class F>
void side_by_side(std::size_t threads, F each) {
  std::vector<std::jthread> all;
  for (std::size_t i = 0; i < threads; ++i) all.emplace_back([&each, i] { each(i); });
}

TEST(ServerThreads, EachClientsIncrementsAllCount) {
  Store store = small_store();
  Server server = started(store);
  std::size_t const times = perdure::test::volume(500);
  side_by_side(4, [&](std::size_t) {
    Client client(server.port());
    for (std::size_t n = 0; n < times; ++n) {
      client.ask({"INCR", "n"});
      static_cast<void>(server.stats());
    }
  });
  EXPECT_EQ(Client(server.port()).ask({"GET", "n"}),
            "$" + std::to_string(std::to_string(4 * times).size()) + "\r\n" +
                std::to_string(4 * times) + "\r\n");
  EXPECT_EQ(server.stats().commands, 4 * times + 1);
  EXPECT_TRUE(server.stop().ok());
}

TEST(ServerThreads, ABackgroundSaveHasWhatWasWrittenBeforeIt) {
  perdure::test::ScratchDir const scratch;
  Store store = small_store();
  ServeOptions options;
  options.snapshot_path = scratch.file("snapshot");
  Server server = started(store, options);
  std::atomic<bool> done = false;
  {
    std::jthread const writer([&] {
      Client client(server.port());
      for (int n = 0; !done; ++n) client.ask({"SET", "key:" + std::to_string(n % 500), "value"});
    });
    Client client(server.port());
    EXPECT_EQ(client.ask({"SET", "before", "1"}), "+OK\r\n");
    for (int n = 0; n < 5; ++n) {
      std::string said;
      while ((said = client.ask({"BGSAVE"})).starts_with("-ERR Background save already")) {
      }
      EXPECT_EQ(said, "+Background saving started\r\n");
    }
    done = true;
  }
  EXPECT_TRUE(server.stop().ok());
  auto restored = Store::restore(options.snapshot_path, "memfd:restored");
  ASSERT_TRUE(restored.ok()) << restored.status().message();
  Server again = started(*restored);
  EXPECT_EQ(Client(again.port()).ask({"GET", "before"}), "$1\r\n1\r\n");
}

TEST(ServerThreads, AKilledClientIsGoneAndNoOther) {
  Store store = small_store();
  Server server = started(store);
  Client killer(server.port());
  for (std::size_t n = 0; n < perdure::test::volume(50); ++n) {
    Client client(server.port());
    std::string const id = client.ask({"CLIENT", "ID"}).substr(1);
    ASSERT_TRUE(client.send("*2\r\n$4\r\nINCR\r\n$1\r\nn\r\n*2\r\n$4\r\nINCR\r\n"));
    EXPECT_EQ(killer.ask({"CLIENT", "KILL", "ID", id.substr(0, id.size() - 2)}), ":1\r\n");
    while (!client.reply().empty()) {
    }
  }
  EXPECT_EQ(killer.ask({"PING"}), "+PONG\r\n");
}

TEST(ServerThreads, AStopInTheMidstOfPipelinesLosesNothingThatWasAnswered) {
  for (std::size_t round = 0; round < 5; ++round) {
    Store store = small_store();
    std::optional<Server> server = started(store);
    std::vector<std::uint64_t> answered(3);
    std::atomic<std::size_t> begun = 0;
    {
      std::vector<std::jthread> clients;
      for (std::size_t i = 0; i < answered.size(); ++i)
        clients.emplace_back([&, i, port = server->port()] {
          Client client(port);
          std::string const key = std::to_string(i);
          std::string pipeline;
          for (int n = 0; n < 100; ++n) pipeline += "INCR " + key + "\r\n";
          while (client.send(pipeline)) {
            for (int n = 0; n < 100; ++n) {
              std::string const reply = client.reply();
              if (reply.empty()) return;
              ++answered[i];
              EXPECT_EQ(reply, ":" + std::to_string(answered[i]) + "\r\n");
              if (answered[i] == 50) ++begun;
            }
          }
        });
      while (begun < answered.size()) std::this_thread::yield();
      if (round % 2 == 0) {
        side_by_side(3, [&](std::size_t) { EXPECT_TRUE(server->stop().ok()); });
        EXPECT_FALSE(server->running());
      }
      server.reset();
    }
    Turns after(store, 1);
    for (std::size_t i = 0; i < answered.size(); ++i) {
      std::string const held = after.run_one(0, {"INCRBY", std::to_string(i), "0"}, 1);
      EXPECT_GE(std::stoull(held.substr(1)), answered[i]);
    }
  }
}

TEST(ServerThreads, TheyStartAndStopOverOnePool) {
  Store store = small_store();
  for (int n = 1; n <= 50; ++n) {
    Server server = started(store);
    EXPECT_EQ(Client(server.port()).ask({"INCR", "n"}), ":" + std::to_string(n) + "\r\n");
    if (n % 2 == 0) {
      EXPECT_TRUE(server.stop().ok());
      EXPECT_TRUE(server.stop().ok()) << "twice";
    }
  }
}

TEST(ServerThreads, TwoServersInOneProcessHaveTheirOwnKeys) {
  Store one = small_store("memfd:one"), other = small_store("memfd:other");
  Server first = started(one), second = started(other);
  side_by_side(2, [&](std::size_t i) {
    Client client((i == 0 ? first : second).port());
    for (int n = 0; n < 100; ++n) client.ask({"SET", "key", i == 0 ? "one" : "other"});
  });
  EXPECT_EQ(Client(first.port()).ask({"GET", "key"}), "$3\r\none\r\n");
  EXPECT_EQ(Client(second.port()).ask({"GET", "key"}), "$5\r\nother\r\n");
  second = std::move(first);
  EXPECT_EQ(Client(second.port()).ask({"GET", "key"}), "$3\r\none\r\n");
}

TEST(ServerThreads, HalfARequestOutlastsTheTurnsOfOthers) {
  Store store = small_store();
  Server server = started(store);
  Client slow(server.port()), other(server.port());
  for (std::string_view const piece : {"*3\r\n$3\r\nSET\r\n", "$3\r\nkey\r\n$5\r\nva", "lue\r\n"}) {
    ASSERT_TRUE(slow.send(piece));
    for (int n = 0; n < 20; ++n) other.ask({"SET", std::string(100, 'k'), std::string(1000, 'v')});
  }
  EXPECT_EQ(slow.reply(), "+OK\r\n");
  EXPECT_EQ(other.ask({"GET", "key"}), "$5\r\nvalue\r\n");
}

}  // namespace
}  // namespace perdure::serve::test
