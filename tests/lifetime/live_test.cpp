// Looks at pools that somebody else has open for writing: each is of one moment, none disturbs or
// changes anything, and where there can be none, it says so. One test waits as long as a look does
// for a moment, two seconds.
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <fstream>
#include <thread>

#include "lifetime/live_checks.hpp"
#include "support/whole_file.hpp"

namespace perdure::test {
namespace {

TEST(LiveLook, SeesNothingOfATransactionThatHasNotCommitted) {
  auto const wrong = a_transaction_is_one_change();
  EXPECT_FALSE(wrong) << *wrong;
}

TEST(LiveLook, GoesByAWordThatMovesOn) {
  auto const wrong = the_word_moves_on();
  EXPECT_FALSE(wrong) << *wrong;
}

class LiveLooks : public testing::TestWithParam<Kind> {};
INSTANTIATE_TEST_SUITE_P(Kinds, LiveLooks,
                         testing::Values(Kind{"word"},
                                         Kind{"in_place", Index::gphash, Layout::in_place}),
                         [](auto const& one) { return std::string(one.param.name); });

/// Another process writes: all keys of a batch have its number, and there are more keys with each,
/// so that the table grows. A look finds one number, not older than the last that was acknowledged
/// before it.
TEST_P(LiveLooks, AreOfOneMomentWhileAnotherProcessWrites) {
  constexpr std::uint64_t kKeys = 64;
  struct Shared {
    std::atomic<std::uint64_t> acknowledged{0}, growths{0};
    std::atomic<bool> stop{false};
  };
  auto* const shared =
      new (::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0)) Shared;
  PoolHome const home(GetParam());
  pid_t const owner = start_child([&] {
    ::alarm(300);  // as long as it is looked at
    auto store = home.create();
    Words const keys = words(1u << 20, kKeys);
    for (std::uint64_t round = 1; store && !shared->stop; ++round) {
      if (!store->put(column(keys), column(Words(kKeys, round))).ok() ||
          !put(*store, 40 * round, 40).ok())
        return 1;
      shared->acknowledged = round;
      shared->growths = store->stats().growths;
      if (round % 8 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(15));
    }
    return store.ok() && store->close().ok() ? 0 : 2;
  });
  while (shared->acknowledged == 0) std::this_thread::yield();
  for (int look = 0; look < 30 || shared->growths == 0; ++look) {
    std::uint64_t const before = shared->acknowledged;
    auto store = Store::open(home.path(), looking());
    for (int more = 0; store.status().code() == Code::busy && more < 10; ++more)
      store = Store::open(home.path(), looking());  // the owner slept in the midst of a batch
    ASSERT_TRUE(store.ok()) << store.status().message();
    Words const keys = words(1u << 20, kKeys);
    Words values(kKeys);
    std::vector<KeyStatus> statuses(kKeys);
    ASSERT_TRUE(
        store
            ->get(column(keys),
                  {reinterpret_cast<std::byte*>(values.data()), 8, kKeys, MemorySpace::host},
                  statuses)
            .ok());
    EXPECT_EQ(std::count(values.begin(), values.end(), values[0]), std::ssize(values));
    EXPECT_GE(values[0], before);
    auto verified = store->verify();
    ASSERT_TRUE(verified.ok()) << verified.status().message();
    EXPECT_EQ(verified->fault_count, 0u) << verified->faults[0];
    EXPECT_GE(store->stats().records,
              kKeys + 40 * (values[0] - 1));  // between the two batches of a number
    EXPECT_LE(store->stats().records, kKeys + 40 * values[0]);
    EXPECT_TRUE(store->recovery().clean);
    ASSERT_FALSE(HasFailure());
  }
  shared->stop = true;
  EXPECT_EQ(wait_for(owner), 0);
  ::munmap(shared, 4096);
}

TEST_P(LiveLooks, FindWhatAKilledOwnerLeftAndChangeNothing) {
  PoolHome const home(GetParam());
  pid_t const owner = start_child([&] {
    auto store = home.create();
    if (!store || !put(*store, 0, 50).ok()) return 1;
    if (GetParam().layout != Layout::word) return ::raise(SIGKILL);
    auto transaction = store->begin({64});
    CallOptions how;
    how.transaction = &*transaction;
    if (!put(*store, 0, 50, 1000, how).ok() || !put(*store, 50, 10, 1000, how).ok()) return 2;
    return ::raise(SIGKILL);
  });
  ASSERT_EQ(wait_for(owner), 1000 + SIGKILL);
  std::string const before = whole_file(home.path());
  {
    auto look = Store::open(home.path(), looking());
    ASSERT_TRUE(look.ok()) << look.status().message();
    Words values;
    ASSERT_TRUE(get(*look, 0, 60, values).ok());
    EXPECT_EQ(Words(values.begin(), values.begin() + 50), words(0, 50));
    EXPECT_EQ(look->stats().records, 50u);
    EXPECT_EQ(look->recovery().undone > 0, GetParam().layout == Layout::word);
    EXPECT_EQ(look->recovery().clean, look->recovery().undone == 0);
    EXPECT_TRUE(look->close().ok());
  }
  EXPECT_TRUE(whole_file(home.path()) == before);
  auto store = home.open();
  ASSERT_TRUE(store.ok()) << store.status().message();
  EXPECT_EQ(store->stats().records, 50u);
}

TEST_P(LiveLooks, OutlastTheirPoolAndKeepNobodyOut) {
  PoolHome const home(GetParam());
  auto store = home.create();
  ASSERT_TRUE(store.ok() && put(*store, 0, 50).ok() && store->close().ok());
  std::string const before = whole_file(home.path());
  auto look = Store::open(home.path(), looking());
  ASSERT_TRUE(look.ok()) << look.status().message();
  EXPECT_TRUE(whole_file(home.path()) == before);
  store = home.open();
  ASSERT_TRUE(store.ok()) << store.status().message();
  ASSERT_TRUE(put(*store, 0, 5000, 7).ok());
  Words values;
  ASSERT_TRUE(get(*look, 0, 50, values).ok());
  EXPECT_EQ(values, words(0, 50));
  EXPECT_EQ(look->stats().records, 50u);
  EXPECT_EQ(look->stats().medium, store->stats().medium);
  Status const written = put(*look, 0, 1);
  EXPECT_EQ(written.code(), Code::invalid_argument) << written.message();
  EXPECT_FALSE(look->begin({8}).ok());
  ASSERT_TRUE(store->close().ok());
  std::filesystem::remove(home.path());
  ASSERT_TRUE(get(*look, 0, 50, values).ok());
  EXPECT_EQ(values, words(0, 50));
}

/// Who writes the pool can take its commit back; who looks at it, or may only read it, cannot.
TEST(LiveLook, HasNothingToTakeBack) {
  PoolHome const home({"word"});
  auto store = home.create();
  ASSERT_TRUE(store.ok());
  auto transaction = store->begin({.max_operations = 10, .revertible = true});
  ASSERT_TRUE(transaction.ok());
  CallOptions how;
  how.transaction = &*transaction;
  Words const some = words(0, 10);
  ASSERT_TRUE(store->put(column(some), column(some), {}, how).ok() && transaction->commit().ok());
  auto look = Store::open(home.path(), looking());
  ASSERT_TRUE(look.ok()) << look.status().message();
  EXPECT_FALSE(look->can_revert().value());
  EXPECT_EQ(look->revert().code(), Code::invalid_argument);
  EXPECT_TRUE(store->can_revert().value());
  ASSERT_TRUE(store->close().ok());
  auto reader = Store::open(home.path(), {.read_only = true});
  ASSERT_TRUE(reader.ok()) << reader.status().message();
  EXPECT_FALSE(reader->can_revert().value());
}

TEST(LiveLook, IsRefusedWhereThereIsNoMomentToLookAt) {
  for (Kind const& kind : kinds()) {
    if (kind.index == Index::gphash && !kind.power) continue;
    PoolHome const home(kind);
    auto store = home.create();
    ASSERT_TRUE(store.ok()) << store.status().message();
    Status const look = Store::open(home.path(), looking()).status();
    EXPECT_EQ(look.code(), Code::unsupported) << kind.name << ": " << look.message();
  }
  PoolHome const home({"word"});
  EXPECT_EQ(Store::open(home.path(), looking()).status().code(), Code::not_found);
  EXPECT_EQ(Store::open("memfd:x", looking()).status().code(), Code::not_found);
  std::ofstream(home.path()) << "no pool";
  EXPECT_EQ(Store::open(home.path(), looking()).status().code(), Code::corrupt);
  auto store = home.create();
  ASSERT_FALSE(store.ok());
  std::filesystem::remove(home.path());
  store = home.create();
  ASSERT_TRUE(store.ok());
  OpenOptions repairing = looking();
  repairing.repair = true;
  EXPECT_EQ(Store::open(home.path(), repairing).status().code(), Code::invalid_argument);
  ASSERT_TRUE(put(*store, 0, 10).ok() && store->close().ok());
  std::string const damaged = whole_file(home.path());
  std::ofstream(home.path(), std::ios::binary) << damaged.substr(0, 8192);
  EXPECT_EQ(Store::open(home.path(), looking()).status().code(), Code::corrupt);
}

}  // namespace
}  // namespace perdure::test
