// Memory of the host that is not to be had: the n-th `operator new` of a public call fails, for
// every n that the call comes to, and nothing else in the process does. A program of its own, for
// it replaces operator new. Each time the call answers a Status; what it was to do has not
// happened, or (a batch that is not atomic) has for some of its keys, or the store refuses
// everything until it is opened anew. Whatever was acknowledged before and afterwards is there when
// the process is killed then.
#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <string>
#include <utility>

#include "host_allocation.hpp"

namespace perdure::test {
namespace {

TEST_P(HostAllocation, ThatFailsInACallLosesNothing) {
  ASSERT_NO_FATAL_FAILURE(make());
  for (std::size_t which = 0; which < steps().size(); ++which) {
    Step const step = steps()[which];
    SCOPED_TRACE(step.name);
    std::uint64_t refused = 0;
    Contents after;
    auto const run = [&] {
      after = held_;
      return step.run(*store_, after);
    };
    ASSERT_NO_FATAL_FAILURE(with_each_failing(run, [&](Status const& came_to, bool reached) {
      refused += came_to.ok() ? 0 : 1;
      reached ? check(step, came_to, after) : static_cast<void>(held_ = after);
    }));
    // Some need none, of some kinds: of any other this would be no test.
    std::string const name = step.name;
    bool const needs_none =
        (gphash() && name == "get") || name == "stats" || (GetParam().power && name == "step");
    EXPECT_TRUE(refused > 0 || needs_none);
  }
}

TEST_P(HostAllocation, ThatFailsInACloseLeavesWhatWasThere) {
  ASSERT_NO_FATAL_FAILURE(make());
  auto const close = [&] { return counted([&] { return store_->close(); }); };
  with_each_failing(close, [&](Status const& closed, bool) {
    store_.reset();
    auto again = open();
    ASSERT_TRUE(again.ok()) << closed.message() << "; " << again.status().message();
    store_ = std::make_unique<Store>(std::move(*again));
    Contents found;
    ASSERT_TRUE(read_all(*store_, found).ok());
    ASSERT_TRUE(found == held_);
    ASSERT_TRUE(put_new(*store_, 3, held_).ok());
  });
}

TEST_P(HostAllocation, ThatFailsInAnOpenLeavesThePoolAsItIs) {
  for (bool const clean : {true, false}) {
    ASSERT_NO_FATAL_FAILURE(make());
    if (!clean && GetParam().power) continue;  // it is made anew from its log, clean or not
    std::string const copy = scratch_.file("as-it-was");
    if (clean) {
      ASSERT_TRUE(store_->close().ok());
    }
    copy_as_if_killed(path(), copy);
    store_.reset();
    if (!clean) fs::copy_file(copy, path(), fs::copy_options::overwrite_existing);
    std::unique_ptr<Store> opened;
    auto const opening = [&] {
      auto store = open();
      if (store) opened = std::make_unique<Store>(std::move(*store));
      return store.status();
    };
    ASSERT_NO_FATAL_FAILURE(with_each_failing(opening, [&](Status const& came_to, bool) {
      if (!opened) {
        auto store = open();
        ASSERT_TRUE(store.ok()) << came_to.message() << "; then: " << store.status().message();
        opened = std::make_unique<Store>(std::move(*store));
      }
      Contents found;
      ASSERT_TRUE(read_all(*opened, found).ok());
      ASSERT_TRUE(found == held_);
      opened.reset();
      if (!clean) fs::copy_file(copy, path(), fs::copy_options::overwrite_existing);
    }));
  }
}

// Of a pool of durability power one thread reads the log and another runs it.
TEST_P(HostAllocation, ThatFailsInAnyThreadOfAnOpeningEndsIt) {
  ASSERT_NO_FATAL_FAILURE(make());
  for (int i = 0; i < 20; ++i) ASSERT_TRUE(put_new(*store_, 8, held_).ok());
  store_.reset();
  int refused = 0;
  for (std::uint64_t n = 1;; n += n < 300 ? 1 : n / 8) {
    SCOPED_TRACE("allocation " + std::to_string(n));
    std::string const pool = path();
    OpenOptions const how = options(GetParam().power ? log_ : "");
    all_threads_left = n;
    bool const opened = Store::open(pool, how).ok();
    bool const reached = all_threads_left.exchange(0) == 0;
    refused += opened ? 0 : 1;
    auto again = open();
    ASSERT_TRUE(again.ok()) << again.status().message();
    Contents found;
    ASSERT_TRUE(read_all(*again, found).ok());
    ASSERT_TRUE(found == held_);
    if (!reached) break;
  }
  EXPECT_GT(refused, 10);
}

TEST_P(HostAllocation, ThatFailsWhileAPoolIsMadeLeavesNothing) {
  std::unique_ptr<Store> made;
  auto const making = [&] {
    auto store = create();
    if (store) made = std::make_unique<Store>(std::move(*store));
    return store.status();
  };
  with_each_failing(making, [&](Status const& came_to, bool) {
    if (!made) {
      EXPECT_FALSE(fs::exists(path()));
      auto store = create();  // without overwrite: nothing is in the way
      ASSERT_TRUE(store.ok()) << came_to.message() << "; then: " << store.status().message();
      made = std::make_unique<Store>(std::move(*store));
    }
    Contents held;
    next_ = 0;
    ASSERT_TRUE(put_new(*made, 5, held).ok());
    made.reset();
    fs::remove(path());
    fs::remove_all(log_);
  });
}

// What says why has to be had, too.
TEST_P(HostAllocation, ThatFailsInARefusalIsARefusal) {
  ASSERT_NO_FATAL_FAILURE(make());
  std::string const absent = scratch_.file("a pool that is not there"), there = path();
  OpenOptions const plain = options("");
  CreateOptions same;
  same.value_bytes = sizeof(Value);
  for (std::uint64_t n = 1; n < 60; ++n) {
    EXPECT_FALSE(strike(n, [&] {
                   return counted([&] { return Store::open(absent, plain); }).status();
                 }).ok());
    EXPECT_FALSE(strike(n, [&] {
                   return counted([&] { return Store::open(there, plain); }).status();
                 }).ok());
    EXPECT_FALSE(strike(n, [&] {
                   return counted([&] { return Store::create(there, same, plain); }).status();
                 }).ok());
    EXPECT_FALSE(
        strike(n, [&] {
          return counted([&] { return Store::restore(absent, there, {}, plain); }).status();
        }).ok());
    ASSERT_FALSE(HasFailure()) << "allocation " << n;
  }
}

INSTANTIATE_TEST_SUITE_P(Failures, HostAllocation,
                         testing::Values(Kind{"word", Index::gphash, Layout::word, false},
                                         Kind{"in_place", Index::gphash, Layout::in_place, false},
                                         Kind{"log", Index::gphash, Layout::log, false},
                                         Kind{"dash_eh", Index::dash_eh, Layout::word, false},
                                         Kind{"dash_lh", Index::dash_lh, Layout::word, false},
                                         Kind{"btree", Index::btree, Layout::word, false},
                                         Kind{"btree_full", Index::btree, Layout::word, false,
                                              Persist::full},
                                         Kind{"power", Index::gphash, Layout::word, true},
                                         Kind{"power_log", Index::gphash, Layout::log, true}),
                         [](testing::TestParamInfo<Kind> const& kind) { return kind.param.name; });

}  // namespace
}  // namespace perdure::test
