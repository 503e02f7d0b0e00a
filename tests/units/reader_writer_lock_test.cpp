// The reader-writer lock by itself: who may be in beside whom, and in which order those who wait
// come in. A Host that counts its changes says when a thread stands in line.
#include "exec/reader_writer_lock.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <thread>
#include <vector>

namespace perdure::exec {
namespace {

/// Spins where others sleep, and counts how often the word changed.
struct CountingHost {
  std::atomic<int> changes{0};

  static std::uint64_t load(std::uint64_t const* word) { return SleepingThreads::load(word); }
  bool cas(std::uint64_t* word, std::uint64_t expected, std::uint64_t value) {
    bool const done = SleepingThreads::cas(word, expected, value);
    changes += done;
    return done;
  }
  static void pause() { std::this_thread::yield(); }

  void await_changes(int n) const {
    while (changes < n) std::this_thread::yield();
  }
};

class ReaderWriterLocks : public testing::TestWithParam<Newcomers> {
 protected:
  ReaderWriterLock lock_{GetParam()};
};

TEST_P(ReaderWriterLocks, OneWriterOrManyReaders) {
  std::uint64_t plain = 0;  // a sanitizer sees who is beside whom
  std::atomic<int> readers{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 500; ++i) {
        ExclusiveHold const held(lock_);
        EXPECT_EQ(readers, 0);
        ++plain;
      }
    });
    threads.emplace_back([&] {
      for (int i = 0; i < 500; ++i) {
        SharedHold const held(lock_);
        ++readers;
        EXPECT_LE(plain, 1500u);
        --readers;
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(plain, 1500u);
  EXPECT_FALSE(lock_.has_writer());
  EXPECT_FALSE(lock_.is_exclusive());
}

TEST_P(ReaderWriterLocks, WritersTakeTurnsInTheOrderInWhichTheyCame) {
  CountingHost host;
  std::vector<int> order;
  std::vector<std::thread> writers;
  {
    ExclusiveHold const held(lock_);
    for (int n = 0; n < 8; ++n) {
      writers.emplace_back([&, n] {
        ExclusiveHold const mine(host, lock_);
        order.push_back(n);
      });
      host.await_changes(n + 1);
    }
  }
  for (auto& writer : writers) writer.join();
  EXPECT_EQ(order, (std::vector{0, 1, 2, 3, 4, 5, 6, 7}));
}

TEST_P(ReaderWriterLocks, ReadersWhoWaitedGoBeforeTheNextWriter) {
  CountingHost host;
  std::atomic<bool> reader_done{false}, writer_saw_it{false};
  std::thread reader, writer;
  {
    ExclusiveHold const held(lock_);
    writer = std::thread([&] {
      ExclusiveHold const mine(host, lock_);
      writer_saw_it = reader_done.load();
    });
    host.await_changes(1);
    reader = std::thread([&] {
      SharedHold const mine(host, lock_);
      reader_done = true;
    });
    host.await_changes(2);
  }
  reader.join();
  writer.join();
  EXPECT_TRUE(writer_saw_it);
}

TEST_P(ReaderWriterLocks, AnotherThreadUnlocks) {
  lock_.lock(kSleepingThreads);
  std::thread([&] { lock_.unlock(kSleepingThreads); }).join();
  lock_.lock_shared(kSleepingThreads);
  std::thread([&] { lock_.unlock_shared(kSleepingThreads); }).join();
  ExclusiveHold const held(lock_);
}

INSTANTIATE_TEST_SUITE_P(Newcomers, ReaderWriterLocks,
                         testing::Values(Newcomers::wait, Newcomers::enter), [](auto const& test) {
                           return test.param == Newcomers::wait ? "wait" : "enter";
                         });

TEST(ReaderWriterLock, ReadersThatComeAfterAWriterWaitForIt) {
  ReaderWriterLock lock;
  CountingHost host;
  std::vector<char> order;
  lock.lock_shared(host);  // change 1
  std::thread writer([&] {
    ExclusiveHold const mine(host, lock);
    order.push_back('w');
  });
  host.await_changes(3);  // its ticket, and that it waits
  std::thread reader([&] {
    SharedHold const mine(host, lock);
    order.push_back('r');
  });
  host.await_changes(4);
  lock.unlock_shared(host);
  writer.join();
  reader.join();
  EXPECT_EQ(order, (std::vector{'w', 'r'}));
}

TEST(ReaderWriterLock, AReaderMayComeAgainInsideWhatItHoldsWhereNewcomersEnter) {
  ReaderWriterLock lock(Newcomers::enter);
  CountingHost host;
  lock.lock_shared(host);
  std::thread writer([&] { ExclusiveHold const mine(host, lock); });
  host.await_changes(2);
  {
    SharedHold const again(lock);
    EXPECT_FALSE(lock.is_exclusive());
    EXPECT_TRUE(lock.has_writer());
  }
  lock.unlock_shared(host);
  writer.join();
}

}  // namespace
}  // namespace perdure::exec
