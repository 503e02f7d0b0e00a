// Durability power, and a disk that takes no more: what was refused is not shown, for a reopening
// does not have it; and what a reopening has was not refused. The disk is a limit on the size of
// files, above or below which a write fails.
#include <sys/resource.h>

#include <csignal>

#include "lifetime/lifetime_store.hpp"

namespace perdure::test {
namespace {

class Refused : public testing::Test {
 protected:
  static void limit_files(std::uint64_t bytes) {
    ::signal(SIGXFSZ, SIG_IGN);
    rlimit const limit{bytes, RLIM_INFINITY};
    ::setrlimit(RLIMIT_FSIZE, &limit);
  }
  PoolHome home_{Kind{"refused", Index::gphash, Layout::word, true}};
};

TEST_F(Refused, WhatIsNotDurableIsNotRead) {
  EXPECT_EQ(in_child([&] {
              auto store = home_.create();
              if (!store || !put(*store, 0, 50).ok()) return 1;
              Words values;
              limit_files(4096);
              Status const first = put(*store, 0, 60, 1000);
              if (first.code() != Code::no_space) return 2;
              Status const read = get(*store, 0, 60, values);
              if (read.ok()) return values == words(0, 50) ? 3 : 4;  // 4: what was refused is seen
              if (read.code() != Code::no_space || read.message().find("log ") == std::string::npos)
                return 5;
              Words const keys = words(0, 10);
              std::vector<KeyStatus> statuses(10);
              if (store->get_variable(column(keys), statuses).ok()) return 6;
              if (store->scan({}, 100).ok()) return 7;
              if (store->snapshot(home_.scratch.file("snapshot")).ok()) return 8;
              if (put(*store, 0, 1, 5).code() != Code::closed) return 9;
              ::_exit(0);  // as a kill leaves it
            }),
            0);
  auto again = home_.open();
  ASSERT_TRUE(again.ok()) << again.status().message();
  Words values;
  ASSERT_TRUE(get(*again, 0, 60, values).ok());
  Words old = words(0, 60);
  std::fill(old.begin() + 50, old.end(), 0);
  EXPECT_EQ(values, old);
}

TEST_F(Refused, ATransactionThatIsNotDurableIsNotRead) {
  EXPECT_EQ(in_child([&] {
              auto store = home_.create();
              if (!store || !put(*store, 0, 50).ok()) return 1;
              auto t = store->begin({100});
              if (!t) return 2;
              CallOptions how;
              how.transaction = &*t;
              if (!put(*store, 0, 60, 1000, how).ok()) return 3;
              limit_files(4096);
              if (t->commit().ok()) return 4;
              Words values;
              if (get(*store, 0, 60, values).ok()) return 5;
              ::_exit(0);
            }),
            0);
  auto again = home_.open();
  ASSERT_TRUE(again.ok()) << again.status().message();
  Words values;
  ASSERT_TRUE(get(*again, 0, 50, values).ok());
  EXPECT_EQ(values, words(0, 50));
}

// The log takes the batch, the image that is then due finds no room: the batch is durable, so it is
// not refused.
TEST_F(Refused, ABatchWhoseCheckpointFailsIsAcknowledged) {
  // so that the pool, which is not to grow, and its images are larger than the log
  home_.expected_records = 200'000;
  int pipe[2];
  ASSERT_EQ(::pipe(pipe), 0);
  EXPECT_EQ(in_child([&] {
              auto store = home_.create();
              if (!store || !put(*store, 0, 50).ok()) return 1;
              limit_files((1u << 20) + 64 * 1024);
              std::uint64_t acknowledged = 0;
              Status last;
              while (acknowledged < 1000) {
                last = put(*store, 0, 500, acknowledged + 1);
                if (!last.ok()) break;
                ++acknowledged;
              }
              if (last.code() != Code::closed) return 2;  // refused beforehand, not in its midst
              Words values;
              if (!get(*store, 0, 500, values).ok() || values != words(acknowledged, 500)) return 3;
              if (store->close().code() != Code::no_space)
                return 4;  // says what the batch before did not
              static_cast<void>(!::write(pipe[1], &acknowledged, sizeof acknowledged));
              ::_exit(0);
            }),
            0);
  ::close(pipe[1]);
  std::uint64_t acknowledged = 0;
  ASSERT_EQ(::read(pipe[0], &acknowledged, sizeof acknowledged),
            static_cast<ssize_t>(sizeof acknowledged));
  ::close(pipe[0]);
  auto again = home_.open();
  ASSERT_TRUE(again.ok()) << again.status().message();
  EXPECT_GT(acknowledged, 10u);
  Words values;
  ASSERT_TRUE(get(*again, 0, 500, values).ok());
  EXPECT_EQ(values, words(acknowledged, 500));
}

}  // namespace
}  // namespace perdure::test
