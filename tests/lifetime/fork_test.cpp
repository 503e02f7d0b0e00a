// Processes that fork while a store is open. The child has a copy of the store, of its threads
// nothing, and shares its files: whatever it does with the copy, leaving included, neither the
// parent nor the pool notices. Children leave by exit(), with the store in static memory, so that
// every destructor and handler runs.
#include <sys/syscall.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <optional>
#include <thread>

#include "base/sanitizer.hpp"
#include "lifetime/lifetime_store.hpp"

namespace perdure::test {
namespace {

std::optional<Store> store;  // destroyed by whoever exits
std::optional<Transaction> transaction;

/// 0, or the number of the first call that is not refused as it should be.
int call_everything(Store& s) {
  int number = 0;
  int failed = 0;
  auto const refused = [&](Status const& status) {
    ++number;
    bool const right =
        status.code() == Code::closed && status.message().find("process") != std::string::npos;
    if (!right && failed == 0) failed = number;
  };
  Words values;
  Words const keys = words(0, 4);
  refused(get(s, 0, 10, values));
  refused(s.get_variable(column(keys), {}).status());
  refused(put(s, 0, 10, 5));
  refused(put(s, 5000, 10));
  refused(s.update(column(keys), column(keys), Rmw::add, Element::u64));
  refused(s.erase(column(keys)));
  std::vector<OpKind> const kinds(4, OpKind::erase);
  MixedBatch batch;
  batch.keys = column(keys);
  batch.kinds = kinds;
  refused(s.apply(batch));
  refused(s.begin().status());
  refused(s.register_dense({}));
  refused(s.restore_step().status());
  refused(s.device_session().status());
  refused(s.load_cache().status());
  refused(s.scan({}, 10).status());
  refused(s.snapshot("/dev/shm/perdure-no-snapshot"));
  refused(s.verify().status());
  refused(s.close());
  s.reset_counts();
  if (s.stats().records != 0 && failed == 0) failed = 100;
  return failed;
}

class Fork : public testing::TestWithParam<Kind> {
 protected:
  void SetUp() override {
    if (kThreadSanitizer) GTEST_SKIP() << "this sanitizer's own locks stay held in a child";
    auto made = home_.create();
    ASSERT_TRUE(made.ok()) << made.status().message();
    store.emplace(std::move(*made));
    ASSERT_TRUE(put(*store, 0, 500).ok());
  }
  void TearDown() override {
    transaction.reset();
    store.reset();
  }

  /// A child releases its parent's locks as it begins to run, which may be a moment after its
  /// parent is gone.
  [[nodiscard]] Result<Store> open_soon() const {
    auto const until = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    for (;;) {
      auto opened = home_.open();
      if (opened.status().code() != Code::busy || std::chrono::steady_clock::now() > until)
        return opened;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }

  /// The parent has everything, and its pool is not closed in order.
  void check_parent(std::uint64_t records) {
    Words values;
    ASSERT_TRUE(get(*store, 0, records, values).ok());
    ASSERT_EQ(values, words(0, records));
    ASSERT_TRUE(put(*store, records, 100).ok());
    if (!GetParam().power) {
      std::string const killed = home_.scratch.file("killed");
      copy_as_if_killed(home_.path(), killed);
      auto other = Store::open(killed, home_.options());
      ASSERT_TRUE(other.ok()) << other.status().message();
      EXPECT_FALSE(other->recovery().clean);
      ASSERT_TRUE(get(*other, 0, records + 100, values).ok());
      EXPECT_EQ(values, words(0, records + 100));
    }
    auto verified = store->verify();
    ASSERT_TRUE(verified.ok());
    EXPECT_EQ(verified->fault_count, 0u);
    EXPECT_EQ(store->stats().records, records + 100);
  }

  PoolHome home_{GetParam()};
};

TEST_P(Fork, AChildThatOnlyLeavesChangesNothing) {
  EXPECT_EQ(in_child([] { return 0; }), 0);
  check_parent(500);
}

TEST_P(Fork, AChildIsRefusedByEveryCall) {
  EXPECT_EQ(in_child([] {
              int const failed = call_everything(*store);
              Store moved = std::move(*store);
              store.reset();
              return failed != 0 ? failed : call_everything(moved);
            }),
            0);
  check_parent(500);
}

TEST_P(Fork, AGrandchildIsRefusedToo) {
  EXPECT_EQ(in_child([] { return in_child([] { return call_everything(*store); }); }), 0);
  check_parent(500);
}

// Locks that threads of the parent hold at that moment are held for ever in the child.
TEST_P(Fork, AChildIsRefusedWhateverTheParentsThreadsAreDoing) {
  std::atomic<bool> stop{false};
  std::atomic<std::uint64_t> written{500};
  std::thread writer([&] {
    while (!stop && written < 20'000) {
      if (put(*store, written, 20).ok()) written += 20;
    }
  });
  std::thread reader([&] {
    Words values;
    while (!stop) static_cast<void>(get(*store, 0, 500, values));
  });
  for (int round = 0; round < 12; ++round)
    EXPECT_EQ(in_child([] { return call_everything(*store); }), 0);
  stop = true;
  writer.join();
  reader.join();
  check_parent(written);
}

TEST_P(Fork, AnOrphanDoesNotKeepTheLock) {
  TearDown();
  // A process that opens the pool, forks a child, and is killed or closes it; the child stays.
  for (bool const killed : {true, false}) {
    int to_us[2];
    ASSERT_EQ(::pipe(to_us), 0);
    pid_t const owner = start_child([&] {
      auto opened = open_soon();
      if (!opened) return 1;
      store.emplace(std::move(*opened));
      pid_t const orphan = ::fork();
      if (orphan == 0) {
        ::alarm(60);
        ::pause();
        return 0;
      }
      if (!killed && !store->close().ok()) return 2;
      static_cast<void>(!::write(to_us[1], &orphan, sizeof orphan));
      ::pause();
      return 3;
    });
    pid_t orphan = 0;
    ::close(to_us[1]);  // so that an owner that fails ends the reading
    ASSERT_EQ(::read(to_us[0], &orphan, sizeof orphan), static_cast<ssize_t>(sizeof orphan));
    if (killed) {
      ::kill(owner, SIGKILL);
      EXPECT_EQ(wait_for(owner), 1000 + SIGKILL);
    }
    {
      auto opened = open_soon();
      EXPECT_TRUE(opened.ok()) << opened.status().message();
    }
    ::kill(orphan, SIGKILL);
    ::kill(owner, SIGKILL);
    if (!killed) wait_for(owner);
    ::close(to_us[0]);
  }
}

// Without fork()'s handlers: by the system call.
TEST_P(Fork, AChildOfClone) {
  auto const child =
      static_cast<pid_t>(::syscall(SYS_clone, SIGCHLD, nullptr, nullptr, nullptr, nullptr));
  if (child == 0) {
    ::alarm(30);
    ::_exit(call_everything(*store));
  }
  EXPECT_EQ(wait_for(child), 0);
  auto const stays =
      static_cast<pid_t>(::syscall(SYS_clone, SIGCHLD, nullptr, nullptr, nullptr, nullptr));
  if (stays == 0) {
    ::alarm(60);
    for (;;) ::pause();
  }
  check_parent(500);
  ASSERT_TRUE(store->close().ok());
  auto again = home_.open();
  EXPECT_TRUE(again.ok()) << again.status().message();
  ::kill(stays, SIGKILL);
  wait_for(stays);
}

TEST_P(Fork, AChildOpensPoolsOfItsOwn) {
  EXPECT_EQ(in_child([&] {
              if (home_.open().status().code() != Code::busy) return 1;
              CreateOptions create;
              create.value_bytes = 8;
              auto mine = Store::create(home_.scratch.file("mine"), create, home_.options());
              if (!mine || !put(*mine, 0, 5000).ok()) return 2;
              Words values;
              if (!get(*mine, 0, 5000, values).ok() || values != words(0, 5000)) return 3;
              if (in_child([&] { return call_everything(*mine); }) != 0) return 4;
              return mine->close().ok() && Store::open(home_.scratch.file("mine")).ok() ? 0 : 5;
            }),
            0);
  check_parent(500);
  ASSERT_TRUE(store->close().ok());
  EXPECT_EQ(in_child([&] {
              auto same = home_.open();
              return same.ok() && put(*same, 600, 100).ok() && same->close().ok() ? 0 : 1;
            }),
            0);
  auto again = home_.open();
  ASSERT_TRUE(again.ok()) << again.status().message();
  store.emplace(std::move(*again));
  check_parent(700);
}

TEST_P(Fork, ATransactionStaysTheParents) {
  if (GetParam().index != Index::gphash || GetParam().layout != Layout::word)
    GTEST_SKIP() << "no transactions";
  for (bool const commits : {true, false}) {
    auto begun = store->begin({1000});
    ASSERT_TRUE(begun.ok()) << begun.status().message();
    transaction.emplace(std::move(*begun));
    CallOptions how;
    how.transaction = &*transaction;
    ASSERT_TRUE(put(*store, 500, 100, commits ? 0 : 7, how).ok());
    EXPECT_EQ(in_child([] {
                if (transaction->commit().code() != Code::closed) return 1;
                if (transaction->abort().code() != Code::closed) return 2;
                CallOptions mine;
                mine.transaction = &*transaction;
                if (put(*store, 0, 10, 1, mine).code() != Code::closed) return 3;
                transaction.reset();
                store.reset();
                return 0;
              }),
              0);
    EXPECT_TRUE((commits ? transaction->commit() : transaction->abort()).ok());
    transaction.reset();
  }
  check_parent(600);
}

INSTANTIATE_TEST_SUITE_P(Stores, Fork, testing::ValuesIn(kinds()),
                         [](testing::TestParamInfo<Kind> const& kind) { return kind.param.name; });

}  // namespace
}  // namespace perdure::test
