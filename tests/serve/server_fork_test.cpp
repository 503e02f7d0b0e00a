// Processes that fork beside a running server: the child has none, and whatever it does with its
// copy, leaving included, no client of the parent's notices.
#include <gtest/gtest.h>
#include <unistd.h>

#include <optional>

#include "base/sanitizer.hpp"
#include "clients.hpp"
#include "lifetime/lifetime_store.hpp"

namespace {
::pid_t const first_process = ::getpid();
}  // namespace

/// Asked by ASan's search for leaks: a child has not the threads that hold on to some of its
/// memory.
extern "C" int __lsan_is_turned_off() { return ::getpid() != first_process ? 1 : 0; }

namespace perdure::serve::test {
namespace {

std::optional<Store> store;
std::optional<Server> server;  // destroyed by whoever exits

TEST(ServerFork, AChildHasNoServerAndDisturbsNoClient) {
  if (kThreadSanitizer) GTEST_SKIP() << "this sanitizer's own locks stay held in a child";
  store = small_store();
  server = started(*store);
  {
    Client client(server->port());
    EXPECT_EQ(client.ask({"SET", "key", "value"}), "+OK\r\n");
    EXPECT_EQ(perdure::test::in_child([] {
                if (server->running()) return 1;
                if (!server->wait(60'000)) return 2;
                if (server->stop().code() != Code::closed) return 3;
                Server moved = std::move(*server);
                server.reset();
                return 0;
              }),
              0);
    EXPECT_EQ(client.ask({"GET", "key"}), "$5\r\nvalue\r\n") << "of a client that was there";
    EXPECT_EQ(perdure::test::in_child([] { return 0; }), 0);
    EXPECT_EQ(Client(server->port()).ask({"GET", "key"}), "$5\r\nvalue\r\n") << "of a new one";
  }
  // A child that lives on does not listen in its parent's stead.
  int release[2], ready[2];
  ASSERT_EQ(::pipe(release), 0);
  ASSERT_EQ(::pipe(ready), 0);
  std::uint16_t const port = server->port();
  char byte = 0;
  ::pid_t const child = perdure::test::start_child([&] {
    ::close(release[1]);
    if (::write(ready[1], "r", 1) != 1) return 1;
    return static_cast<int>(::read(release[0], &byte, 1));
  });
  EXPECT_EQ(::read(ready[0], &byte, 1), 1);  // it runs, and has closed what is its parent's
  EXPECT_TRUE(server->stop().ok());
  EXPECT_FALSE(Client(port).connected());
  ::close(release[1]);
  EXPECT_EQ(perdure::test::wait_for(child), 0);
  for (int const end : {release[0], ready[0], ready[1]}) ::close(end);
  server.reset();
  store.reset();
}

}  // namespace
}  // namespace perdure::serve::test
