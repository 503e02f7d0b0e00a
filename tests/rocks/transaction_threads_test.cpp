// Transactions of several threads: sums that must stay, cycles of waiting, waking up.
#include <atomic>
#include <chrono>
#include <random>
#include <thread>

#include "rocks/transaction_databases.hpp"

namespace perdure::test {
namespace {

using rocksdb::Status;
using namespace std::chrono_literals;

constexpr int kAccounts = 12;
constexpr int kStart = 100;

std::string account(int number) { return "account" + std::to_string(number); }

/// Moves one unit. False: it conflicted, and nothing has changed.
bool transfer(rocksdb::Transaction& one, int from, int to) {
  std::string source, target;
  if (!one.GetForUpdate({}, account(from), &source).ok()) return false;
  if (!one.GetForUpdate({}, account(to), &target).ok()) return false;
  must(one.Put(account(from), std::to_string(std::stoi(source) - 1)));
  must(one.Put(account(to), std::to_string(std::stoi(target) + 1)));
  return one.Commit().ok();
}

/// What all accounts hold, as one transaction reads them at a snapshot.
int sum(TransactionDatabase const& d) {
  TransactionPtr const one = d.begin();
  one->SetSnapshot();
  rocksdb::ReadOptions options;
  options.snapshot = one->GetSnapshot();
  int total = 0;
  std::unique_ptr<rocksdb::Iterator> const at(one->GetIterator(options));
  for (at->SeekToFirst(); at->Valid(); at->Next()) total += std::stoi(at->value().ToString());
  return total;
}

using Subject = std::pair<Locking, Maker>;
std::string name_of(::testing::TestParamInfo<Subject> const& one) {
  auto const [locking, maker] = one.param;
  std::string const how = locking == Locking::pessimistic ? "Pessimistic" : "Optimistic";
  return how + (maker == Maker::perdure ? "OverRocksDB" : "OverBoth");
}
class Bank : public ::testing::TestWithParam<Subject> {};

TEST_P(Bank, HasAlwaysTheSameMoney) {
  auto const [locking, maker] = GetParam();
  TransactionDatabase const d(maker, locking);
  for (int i = 0; i < kAccounts; ++i) must(d.db().Put({}, account(i), std::to_string(kStart)));
  constexpr int kThreads = 3, kTransfers = 600;
  std::atomic<int> running{kThreads}, tries{0};
  auto const work = [&](unsigned seed) {
    std::mt19937 random(seed);
    rocksdb::TransactionOptions options;
    options.deadlock_detect = true;
    options.lock_timeout = 1000;
    TransactionPtr const one = d.begin(options);
    for (int done = 0; done < kTransfers; ++tries) {
      int const from = static_cast<int>(random() % kAccounts);
      int const to = (from + 1 + static_cast<int>(random() % (kAccounts - 1))) % kAccounts;
      done += transfer(*one, from, to) ? 1 : 0;
      must(one->GetState() == rocksdb::Transaction::COMMITTED ? Status::OK() : one->Rollback());
      d.begin_over(options, one.get());
    }
    --running;
  };
  std::vector<std::jthread> threads;
  for (unsigned i = 0; i < kThreads; ++i) threads.emplace_back(work, i + 1);
  int looks = 0;
  for (; running > 0 || looks == 0; ++looks) {
    ASSERT_EQ(sum(d), kAccounts * kStart);
    must(d.db().Flush({}));  // memtables come and go
  }
  threads.clear();
  EXPECT_EQ(sum(d), kAccounts * kStart);
  EXPECT_GE(tries, kThreads * kTransfers);
}

INSTANTIATE_TEST_SUITE_P(All, Bank,
                         ::testing::Values(Subject{Locking::pessimistic, Maker::perdure},
                                           Subject{Locking::pessimistic, Maker::mixed},
                                           Subject{Locking::optimistic, Maker::perdure},
                                           Subject{Locking::optimistic, Maker::mixed}),
                         name_of);

class Increments : public ::testing::TestWithParam<Maker> {};

TEST_P(Increments, BesidePlainWritesLoseNothing) {
  TransactionDatabase const d(GetParam(), Locking::optimistic);
  must(d.db().Put({}, "count", "0"));
  constexpr int kEach = 400;
  auto const increment = [&] {
    for (int done = 0; done < kEach;) {
      TransactionPtr const one = d.begin();
      std::string value;
      must(one->GetForUpdate({}, "count", &value));
      must(one->Put("count", std::to_string(std::stoi(value) + 1)));
      done += one->Commit().ok() ? 1 : 0;
      must(d.db().Put({}, "beside", value));
      if (done % 8 == 0) must(d.db().Flush({}));
    }
  };
  {
    std::jthread const first(increment), second(increment);
  }
  EXPECT_EQ(d.get("count"), std::to_string(2 * kEach));
}

INSTANTIATE_TEST_SUITE_P(All, Increments, ::testing::Values(Maker::perdure, Maker::mixed),
                         [](auto const& one) {
                           return one.param == Maker::perdure ? "OverRocksDB" : "OverBoth";
                         });

TEST(TransactionThreads, NoWakeUpIsLost) {
  rocksdb::TransactionDBOptions options;
  options.num_stripes = 1;  // waiters of several keys in one queue
  options.transaction_lock_timeout = -1;
  TransactionDatabase const d(Maker::perdure, Locking::pessimistic, options);
  rocksdb::TransactionOptions forever;
  forever.lock_timeout = 60000;
  for (char const* const key : {"a", "b"}) must(d.db().Put({}, key, "0"));
  constexpr int kEach = 400;
  auto const increment = [&](char const* key) {
    for (int i = 0; i < kEach; ++i) {
      TransactionPtr const one = d.begin(forever);
      std::string value;
      must(one->GetForUpdate({}, key, &value));
      if (i % 16 == 0) std::this_thread::yield();
      must(one->Put(key, std::to_string(std::stoi(value) + 1)));
      must(one->Commit());
    }
  };
  auto const began = std::chrono::steady_clock::now();
  {
    std::jthread const a1(increment, "a"), a2(increment, "a"), b1(increment, "b"),
        b2(increment, "b");
  }
  EXPECT_LT(std::chrono::steady_clock::now() - began, 30s) << "somebody slept to its timeout";
  EXPECT_EQ(d.get("a"), std::to_string(2 * kEach));
  EXPECT_EQ(d.get("b"), std::to_string(2 * kEach));
}

/// Waits until the transaction waits for a lock.
void until_waiting(rocksdb::Transaction const& one) {
  std::uint32_t family = 0;
  std::string key;
  while (one.GetWaitingTxns(&family, &key).empty()) std::this_thread::sleep_for(1ms);
}

class Waiting : public ::testing::TestWithParam<Maker> {};

TEST_P(Waiting, EndsWhenTheLockIsGivenBack) {
  TransactionDatabase const d(GetParam(), Locking::pessimistic);
  rocksdb::TransactionOptions patient;
  patient.lock_timeout = 60000;
  TransactionPtr const one = d.begin(), two = d.begin(patient);
  must(one->Put("k", "1"));
  std::jthread waiter([&] {
    must(two->Put("k", "2"));
    must(two->Commit());
  });
  until_waiting(*two);
  std::uint32_t family = 7;
  std::string key;
  EXPECT_EQ(two->GetWaitingTxns(&family, &key), std::vector{one->GetID()});
  EXPECT_EQ(family, 0U);
  EXPECT_EQ(key, "k");
  must(one->Commit());
  waiter.join();
  EXPECT_EQ(d.get("k"), "2");
}

TEST_P(Waiting, EndsWithItsTime) {
  TransactionDatabase const d(GetParam(), Locking::pessimistic);
  TransactionPtr const one = d.begin(), two = d.begin();
  must(one->Put("k", "1"));
  two->SetLockTimeout(30);
  auto const began = std::chrono::steady_clock::now();
  EXPECT_EQ(told(two->Put("k", "2")), "9/2");
  EXPECT_GE(std::chrono::steady_clock::now() - began, 30ms);
}

TEST_P(Waiting, InACircleIsFoundAndTold) {
  TransactionDatabase const d(GetParam(), Locking::pessimistic);
  rocksdb::TransactionOptions options;
  options.deadlock_detect = true;
  options.lock_timeout = 60000;
  TransactionPtr const one = d.begin(options), two = d.begin(options), three = d.begin(options);
  must(one->Put("k1", ""));
  must(two->Put("k2", ""));
  must(three->Put("k3", ""));
  std::jthread first([&] { must(one->Put("k2", "")); });
  until_waiting(*one);
  std::jthread second([&] { must(two->Put("k3", "")); });
  until_waiting(*two);
  EXPECT_EQ(told(three->Put("k1", "")), "11/5");
  auto const paths = d.locking().GetDeadlockInfoBuffer();
  ASSERT_EQ(paths.size(), 1U);
  EXPECT_FALSE(paths[0].limit_exceeded);
  std::string told_path;
  for (rocksdb::DeadlockInfo const& step : paths[0].path) {
    EXPECT_TRUE(step.m_exclusive);
    told_path += step.m_waiting_key + (step.m_txn_id == one->GetID()   ? " one, "
                                       : step.m_txn_id == two->GetID() ? " two, "
                                                                       : " three, ");
  }
  EXPECT_EQ(told_path, "k2 one, k3 two, k1 three, ");
  must(three->Rollback());
  second.join();
  must(two->Rollback());
  first.join();
}

TEST_P(Waiting, ThatIsTooLongToSearchCountsAsACircle) {
  TransactionDatabase const d(GetParam(), Locking::pessimistic);
  rocksdb::TransactionOptions options;
  options.deadlock_detect = true;
  options.lock_timeout = 60000;
  options.deadlock_detect_depth = 1;
  TransactionPtr const one = d.begin(options), two = d.begin(options), three = d.begin(options);
  must(one->Put("k1", ""));
  must(two->Put("k2", ""));
  must(three->Put("k3", ""));
  std::jthread first([&] { must(one->Put("k2", "")); });
  until_waiting(*one);
  std::jthread second([&] { must(three->Put("k1", "")); });
  until_waiting(*three);
  EXPECT_EQ(told(two->Put("k3", "")), "11/5") << "a circle of three, and one step to look";
  EXPECT_TRUE(d.locking().GetDeadlockInfoBuffer().front().limit_exceeded);
  must(two->Rollback());
  first.join();
  must(one->Rollback());
  second.join();
}

TEST(TransactionThreads, WhoWasWokenWaitsForNobody) {
  TransactionDatabase const d(Maker::perdure, Locking::pessimistic);
  rocksdb::TransactionOptions options;
  options.deadlock_detect = true;
  options.lock_timeout = 60000;
  for (int i = 0; i < 20; ++i) {
    TransactionPtr const one = d.begin(options), two = d.begin(options);
    must(one->Put("a", ""));
    EXPECT_TRUE(two->GetForUpdate({}, "b", static_cast<std::string*>(nullptr)).ok());
    std::jthread waiter([&] {
      must(one->Put("b", ""));
      must(one->Commit());
    });
    until_waiting(*one);
    two->UndoGetForUpdate("b");
    ASSERT_TRUE(two->Put("a", "").ok()) << "a circle that is none, in turn " << i;
  }
}

INSTANTIATE_TEST_SUITE_P(All, Waiting, ::testing::Values(Maker::rocksdb, Maker::perdure),
                         [](auto const& one) {
                           return one.param == Maker::rocksdb ? "RocksDB" : "Perdure";
                         });

}  // namespace
}  // namespace perdure::test
