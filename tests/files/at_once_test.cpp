// Two that make, replace or open the same files at once: one has them, the other says so, and what
// was acknowledged is there afterwards. The second comes whenever the first is about to lock,
// rename or remove a file, and runs to its end or to such a moment of its own; then several
// processes do it at whatever moment comes.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <functional>
#include <optional>
#include <random>
#include <semaphore>
#include <thread>

#include "files/call_hook.hpp"
#include "files/small_store.hpp"
#include "support/folders.hpp"
#include "support/store_driver.hpp"

namespace perdure::test {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kBefore = 1, kFirst = 11, kSecond = 22;
constexpr int kMostCalls = 40;

std::size_t files_in(std::string const& folder) {
  return static_cast<std::size_t>(
      std::distance(fs::directory_iterator(folder), fs::directory_iterator()));
}

/// One of the two, at a path: a store that is open, or why not.
struct Act {
  char const* name;
  std::function<Result<Store>(std::string const& path)> run;
};

bool says_why(Status const& s) {
  return s.code() == Code::busy || s.code() == Code::already_exists || s.code() == Code::not_found;
}

/// What the two came to, with both still holding what they have.
class AtOnce : public testing::Test {
 protected:
  /// `second` comes before each such call of `first`, in turn.
  void at_each_call(Act const& first, Act const& second, bool there) {
    for (int nth = 1; nth <= kMostCalls; ++nth) {
      ScratchDir const dir;
      SCOPED_TRACE(std::string(second.name) + " before call " + std::to_string(nth) + " of " +
                   first.name + (there ? ", a pool is there" : ""));
      if (there) {
        ASSERT_TRUE(make_marked(dir.file("pool"), kBefore, small_options()).ok());
      }
      if (!once(first, second, nth, dir.file("pool"), there)) return;
      EXPECT_LE(files_in(dir.path()), 1u) << "something is left";
      if (HasFailure()) return;
    }
    FAIL() << "more calls than expected";
  }

  /// And stops at each of its own, until `first` has come to its end.
  void interleaved(Act const& first, Act const& second, bool there) {
    for (int n = 1, m = 1; n <= kMostCalls; ++m) {
      ScratchDir const dir;
      SCOPED_TRACE(std::string(second.name) + " up to call " + std::to_string(m) + " before call " +
                   std::to_string(n) + " of " + first.name);
      if (there) {
        ASSERT_TRUE(make_marked(dir.file("pool"), kBefore, small_options()).ok());
      }
      Stopped const stopped = interleave(first, second, n, m, dir.file("pool"));
      if (!stopped.first) return;
      EXPECT_EQ(files_in(dir.path()), 1u) << "something is left";
      if (HasFailure()) return;
      if (!stopped.second) ++n, m = 0;
    }
    FAIL() << "more calls than expected";
  }

 private:
  struct Stopped {
    bool first, second;
  };
  static Stopped interleave(Act const& first, Act const& second, int n, int m,
                            std::string const& path) {
    std::optional<Result<Store>> one, two;
    std::binary_semaphore come(0), go_on(0);
    std::thread other;
    Stopped stopped{};
    auto const come_in = [&] {
      other = std::thread([&] {
        BeforeNthCall const stop(m, [&] {
          stopped.second = true;
          come.release();
          go_on.acquire();
        });
        two.emplace(second.run(path));
        if (!stop.happened()) come.release();
      });
      come.acquire();
    };
    {
      BeforeNthCall const before(n, come_in);
      one.emplace(first.run(path));
      stopped.first = before.happened();
    }
    if (!stopped.first) return stopped;
    go_on.release();
    other.join();
    EXPECT_NE(one->ok(), two->ok()) << one->status().message() << "; " << two->status().message();
    if (one->ok()) {
      EXPECT_TRUE(write_mark(**one, kFirst).ok());
    }
    if (two->ok()) {
      EXPECT_TRUE(write_mark(**two, kSecond).ok());
    }
    std::uint64_t const expected = one->ok() ? kFirst : kSecond;
    one.reset();
    two.reset();
    EXPECT_EQ(mark_at(path), expected);
    return stopped;
  }

  static bool once(Act const& first, Act const& second, int nth, std::string const& path,
                   bool there) {
    std::optional<Result<Store>> two;
    bool happened = false;
    {
      std::optional<Result<Store>> one;
      {
        BeforeNthCall const before(nth, [&] {
          two.emplace(second.run(path));
          if (two->ok()) {
            EXPECT_TRUE(write_mark(**two, kSecond).ok());
          }
        });
        one.emplace(first.run(path));
        happened = before.happened();
      }
      if (!happened) return false;
      EXPECT_FALSE(one->ok() && two->ok()) << "both have it";
      if (!one->ok()) {
        EXPECT_TRUE(says_why(one->status())) << one->status().message();
      }
      if (!two->ok()) {
        EXPECT_TRUE(says_why(two->status())) << two->status().message();
      }
      if (one->ok()) {
        EXPECT_TRUE(write_mark(**one, kFirst).ok());
      }
      std::uint64_t const expected = one->ok() ? kFirst : two->ok() ? kSecond : there ? kBefore : 0;
      one.reset();
      two.reset();
      EXPECT_EQ(mark_at(path), expected);
    }
    return true;
  }
};

Act const kCreate{"create", [](std::string const& path) { return create(path, small_options()); }};
Act const kReplace{"create with overwrite",
                   [](std::string const& path) { return create(path, overwriting()); }};
Act const kOpen{"open", [](std::string const& path) { return open(path); }};
/// Done with it before it comes back, but for somebody who has opened it then.
Act const kReplaceThenOpen{"create with overwrite, close and open",
                           [](std::string const& path) -> Result<Store> {
                             if (Status s = make_marked(path, kSecond, overwriting()); !s.ok())
                               return s;
                             return open(path);
                           }};

TEST_F(AtOnce, TwoCreationsAtAFreePath) {
  for (Act const& second : {kCreate, kReplace, kReplaceThenOpen})
    at_each_call(kCreate, second, false);
}
TEST_F(AtOnce, TwoThatReplaceWhateverIsThere) {
  for (Act const& second : {kCreate, kReplace, kReplaceThenOpen})
    at_each_call(kReplace, second, false);
}
TEST_F(AtOnce, TwoThatReplaceAPool) {
  for (Act const& second : {kReplace, kReplaceThenOpen, kOpen})
    at_each_call(kReplace, second, true);
}
TEST_F(AtOnce, OneThatOpensAndOneThatReplaces) {
  for (Act const& second : {kReplace, kReplaceThenOpen}) at_each_call(kOpen, second, true);
}
TEST_F(AtOnce, OneThatRestoresAndOneThatReplaces) {
  ScratchDir const dir;
  {
    auto store = create(dir.file("pool"), small_options());
    ASSERT_TRUE(store.ok());
    ASSERT_TRUE(store->snapshot(dir.file("snapshot")).ok());
  }
  Act const restore{"restore with overwrite", [&](std::string const& path) {
                      return Store::restore(dir.file("snapshot"), path,
                                            {.file = {.overwrite = true}}, one_thread());
                    }};
  for (Act const& second : {kReplace, kReplaceThenOpen, kOpen}) at_each_call(restore, second, true);
}

TEST_F(AtOnce, TwoThatTakeTurns) {
  interleaved(kCreate, kCreate, false);
  interleaved(kCreate, kReplace, false);
  interleaved(kReplace, kReplace, false);
  interleaved(kReplace, kReplace, true);
  interleaved(kReplace, kOpen, true);
  interleaved(kOpen, kReplace, true);
}

// The pool was replaced, and closed, between being opened and being locked: its successor is what
// is opened.
TEST_F(AtOnce, WhoOpensMeetsTheSuccessorAndNotWhatWasReplaced) {
  ScratchDir const dir;
  std::string const path = dir.file("pool");
  ASSERT_TRUE(make_marked(path, kBefore, small_options()).ok());
  BeforeNthCall const before(1,
                             [&] { EXPECT_TRUE(make_marked(path, kSecond, overwriting()).ok()); });
  auto store = open(path);
  ASSERT_TRUE(before.happened());
  ASSERT_TRUE(store.ok()) << store.status().message();
  EXPECT_EQ(mark_of(*store), kSecond);
}

TEST_F(AtOnce, TwoSnapshotsToOneFile) {
  for (bool const there : {false, true}) {
    for (int nth = 1; nth <= kMostCalls; ++nth) {
      ScratchDir const dir;
      SCOPED_TRACE("call " + std::to_string(nth));
      auto one = create(dir.file("one"), small_options()),
           two = create(dir.file("two"), small_options());
      ASSERT_TRUE(one.ok() && two.ok() && write_mark(*one, kFirst).ok() &&
                  write_mark(*two, kSecond).ok());
      SnapshotOptions const over{.overwrite = true};
      std::string const file = dir.file("snapshot");
      if (there) {
        ASSERT_TRUE(two->snapshot(file).ok());
      }
      Status second;
      BeforeNthCall const before(nth, [&] { second = two->snapshot(file, over); });
      Status const first = one->snapshot(file, over);
      if (!before.happened()) break;
      EXPECT_TRUE(first.ok() || (says_why(first) && second.ok()))
          << first.message() << "; " << second.message();
      EXPECT_EQ(files_in(dir.path()), 3u) << "something is left";
      auto restored = Store::restore(file, dir.file("three"), {}, one_thread());
      ASSERT_TRUE(restored.ok()) << restored.status().message();
      EXPECT_EQ(mark_of(*restored), first.ok() ? kFirst : kSecond);
    }
  }
}

// Two pools of durability power that name the same log_dir.
TEST_F(AtOnce, TwoLogsInOneDirectory) {
  for (bool const there : {false, true}) {
    // Locks of the pool and of four files, twice where they replace others, then names. Not each of
    // those that are alike: it takes long.
    for (int const nth : there ? std::vector{1, 2, 3, 4, 5, 9, 11, 13} : std::vector{1, 2, 3, 7}) {
      ScratchDir const dir;
      DiskDir const log{"at-once"};
      SCOPED_TRACE("call " + std::to_string(nth));
      std::string const zero = dir.file("zero"), one = dir.file("one"), two = dir.file("two");
      if (there) {
        ASSERT_TRUE(make_marked(zero, kBefore, powered(log.path)).ok());
      }
      std::optional<Result<Store>> first, second;
      {
        BeforeNthCall const before(nth, [&] {
          second.emplace(create(two, powered(log.path, true)));
          if (second->ok()) {
            EXPECT_TRUE(write_mark(**second, kSecond).ok());
          }
        });
        first.emplace(create(one, powered(log.path, true)));
        ASSERT_TRUE(before.happened());
      }
      ASSERT_TRUE(first->ok() != second->ok())
          << "first: " << first->status().message() << "; second: " << second->status().message();
      if (first->ok()) {
        EXPECT_TRUE(write_mark(**first, kFirst).ok());
      }
      bool const has_first = first->ok();
      first.reset();
      second.reset();
      EXPECT_EQ(mark_at(has_first ? one : two, log.path), has_first ? kFirst : kSecond);
      EXPECT_EQ(files_in(log.path), 4u) << "something is left";
      if (HasFailure()) return;
    }
  }
}

/// What the processes know of each other.
struct Shared {
  std::atomic<int> holders;
  std::atomic<std::uint64_t>
      last;  // mark that was acknowledged last; changed by who holds the pool
  std::atomic<std::uint64_t> next;
  std::atomic<int> made, faults;
};

constexpr int kMadeAtOnce = 20;  // and more, however slow the machine is

void make_and_open(Shared& shared, std::string const& path, unsigned seed) {
  std::mt19937 random(seed);
  auto const end = std::chrono::steady_clock::now() + std::chrono::milliseconds(1200);
  auto const is_over = [&] {
    return shared.made > kMadeAtOnce && std::chrono::steady_clock::now() >= end;
  };
  while (!is_over() && shared.faults == 0) {
    bool const makes = random() % 2 == 0;
    auto store = makes ? create(path, overwriting()) : open(path);
    if (!store.ok()) {
      if (!says_why(store.status())) ++shared.faults;
      continue;
    }
    if (shared.holders.fetch_add(1) != 0) ++shared.faults;
    if (!makes && shared.last != 0 && mark_of(*store) != shared.last) ++shared.faults;
    std::uint64_t const mark = ++shared.next;
    if (!write_mark(*store, mark).ok()) ++shared.faults;
    shared.last = mark;
    ++shared.made;
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 300));
    --shared.holders;
    if (!store->close().ok()) ++shared.faults;
  }
}

TEST(ManyAtOnce, NoProcessLosesWhatItAcknowledged) {
  ScratchDir const dir;
  void* const page =
      ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(page, MAP_FAILED);
  auto& shared = *new (page) Shared{};
  std::vector<pid_t> children;
  for (unsigned n = 0; n < 4; ++n) {
    children.push_back(::fork());
    if (children.back() == 0) {
      make_and_open(shared, dir.file("pool"), n);
      ::_exit(0);
    }
  }
  for (pid_t const child : children) {
    int status = 0;
    ::waitpid(child, &status, 0);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  }
  EXPECT_EQ(shared.faults, 0);
  EXPECT_GT(shared.made, kMadeAtOnce);
  EXPECT_EQ(mark_at(dir.file("pool")), shared.last);
  EXPECT_EQ(files_in(dir.path()), 1u);
  ::munmap(page, 4096);
}

}  // namespace
}  // namespace perdure::test
