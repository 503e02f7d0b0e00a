// Commits that are taken back: the store is as it was before the transaction, whatever happened
// between its commit and that; and once anything else was written, nothing takes it back.
#include <optional>

#include "conformance/conformance.hpp"

namespace perdure::test {
namespace {

class Reverts : public Conformance {
 protected:
  void SetUp() override {
    Conformance::SetUp();
    if (IsSkipped()) return;
    if (GetParam().layout == Layout::in_place) GTEST_SKIP() << "layout in_place cannot undo";
    if (GetParam().single()) GTEST_SKIP() << "a Dash index has single operations";
    ASSERT_NO_FATAL_FAILURE(fill(0, 100));
  }
  Store& store() { return driver_->store(); }

  /// Commits one of several batches, which change keys twice, erase some, and make new ones.
  void commit_revertible(std::uint64_t version) {
    auto t = store().begin({1000, true});
    ASSERT_TRUE(t.ok()) << t.status().message();
    driver_->how.transaction = &*t;
    attempt({OpKind::erase}, 0, 60, 0);
    attempt({OpKind::put}, 20, 130, version);
    attempt({OpKind::put, OpKind::erase}, 20, 40, version + 1);
    driver_->how = {};
    Status const s = t->commit();
    ASSERT_TRUE(s.ok()) << s.message();
  }
  void expect_as(Model const& model) {
    driver_->model = model;
    ASSERT_NO_FATAL_FAILURE(driver_->check_all());
    EXPECT_EQ(store().stats().records, model.held.size());
  }
  void expect_can_revert(bool can) {
    auto answer = store().can_revert();
    ASSERT_TRUE(answer.ok()) << answer.status().message();
    EXPECT_EQ(*answer, can);
  }

 private:
  /// A batch of operations of those kinds in turns. With few candidates a key it may find no room.
  void attempt(std::vector<OpKind> const& kinds, std::uint64_t from, std::uint64_t to,
               std::uint64_t version) {
    std::vector<Op> ops;
    for (std::uint64_t n = from; n < to; ++n)
      ops.push_back({kinds[n % kinds.size()], key(n), value(n, version)});
    std::vector<Answer> answers;
    Status const s = driver_->mixed(ops, Rmw::replace, Element::u8, answers);
    if (s.code() == Code::no_space) return;
    ASSERT_TRUE(s.ok()) << s.message();
    for (Op const& op : ops) driver_->model.apply(op, Rmw::replace, Element::u8);
  }
};

TEST_P(Reverts, ACommitIsTakenBackAndTheStoreIsAsItWas) {
  Model const before = driver_->model;
  ASSERT_NO_FATAL_FAILURE(commit_revertible(1));
  ASSERT_NO_FATAL_FAILURE(expect_as(Model(driver_->model)));
  expect_can_revert(true);
  Status const s = store().revert();
  ASSERT_TRUE(s.ok()) << s.message();
  ASSERT_NO_FATAL_FAILURE(expect_as(before));
  expect_can_revert(false);
  ASSERT_NO_FATAL_FAILURE(reopen_killed(GetParam().open()));
  expect_can_revert(false);
  ASSERT_NO_FATAL_FAILURE(expect_as(before));
  ASSERT_NO_FATAL_FAILURE(fill(0, 300, 7));
  driver_->check_all();
}

TEST_P(Reverts, OneOfAProcessThatWasKilledOrClosedIsTakenBackByTheNext) {
  for (bool const killed : {true, false}) {
    Model const before = driver_->model;
    ASSERT_NO_FATAL_FAILURE(commit_revertible(killed ? 3 : 5));
    Model const after = driver_->model;
    for (int openings = 0; openings < 2; ++openings) {
      if (killed) {
        ASSERT_NO_FATAL_FAILURE(reopen_killed(GetParam().open()));
      } else {
        ASSERT_NO_FATAL_FAILURE(reopen());
      }
      ASSERT_NO_FATAL_FAILURE(expect_as(after));
      expect_can_revert(true);
    }
    Status const s = store().revert();
    ASSERT_TRUE(s.ok()) << s.message();
    ASSERT_NO_FATAL_FAILURE(expect_as(before));
    ASSERT_NO_FATAL_FAILURE(fill(0, 200, 9));  // over records that were free again
    ASSERT_NO_FATAL_FAILURE(reopen_killed(GetParam().open()));
    driver_->check_all();
  }
}

TEST_P(Reverts, WhateverIsWrittenAfterwardsKeepsTheCommit) {
  for (int what = 0; what < 3; ++what) {
    ASSERT_NO_FATAL_FAILURE(commit_revertible(static_cast<std::uint64_t>(1 + what)));
    if (what == 0) {
      ASSERT_NO_FATAL_FAILURE(fill(300, 301));
    } else if (what == 1) {
      ASSERT_TRUE(store().begin({8}).ok());  // aborted at once
    } else {
      ASSERT_NO_FATAL_FAILURE(reopen_killed(GetParam().open()));
      ASSERT_NO_FATAL_FAILURE(driver_->run_erase({key(100)}));
    }
    expect_can_revert(false);
    Status const s = store().revert();
    EXPECT_EQ(s.code(), Code::invalid_argument);
    EXPECT_NE(s.message().find("no commit to take back"), std::string::npos) << s.message();
    ASSERT_NO_FATAL_FAILURE(driver_->check_all());
    ASSERT_NO_FATAL_FAILURE(reopen_killed(GetParam().open()));
    expect_can_revert(false);
    ASSERT_NO_FATAL_FAILURE(driver_->check_all());
  }
}

TEST_P(Reverts, BatchesOfNothingAreNoWrites) {
  Model const before = driver_->model;
  ASSERT_NO_FATAL_FAILURE(commit_revertible(1));
  for (bool const atomic : {false, true}) {
    driver_->how.atomic = atomic;
    ASSERT_NO_FATAL_FAILURE(driver_->run_put({}, {}));
    ASSERT_NO_FATAL_FAILURE(driver_->run_erase({}));
    expect_can_revert(true);
  }
  driver_->how = {};
  ASSERT_TRUE(store().revert().ok());
  ASSERT_NO_FATAL_FAILURE(expect_as(before));
}

TEST_P(Reverts, NothingIsTakenBackOfAnEmptyOneNorOfOneThatIsNotRevertible) {
  EXPECT_EQ(store().revert().code(), Code::invalid_argument);
  for (bool const revertible : {true, false}) {
    auto t = store().begin({100, revertible});
    ASSERT_TRUE(t.ok()) << t.status().message();
    EXPECT_EQ(store().revert().code(), Code::busy);
    driver_->how.transaction = &*t;
    if (!revertible) {
      ASSERT_NO_FATAL_FAILURE(driver_->run_erase(keys(0, 10)));
    }
    driver_->how = {};
    ASSERT_TRUE(t->commit().ok());
    EXPECT_EQ(store().revert().code(), Code::invalid_argument);
    ASSERT_NO_FATAL_FAILURE(driver_->check_all());
  }
}

TEST_P(Reverts, ManyTakeNoMoreRoomThanTwo) {
  std::uint64_t used = 0;
  for (std::uint64_t turn = 0; turn < volume(40); ++turn) {
    Model const before = driver_->model;
    ASSERT_NO_FATAL_FAILURE(commit_revertible(turn));
    if (turn % 3 == 0) {
      ASSERT_TRUE(store().revert().ok());
      driver_->model = before;
    }
    if (turn == 6) used = store().stats().space.used_bytes;
  }
  EXPECT_LE(store().stats().space.used_bytes, used + (4u << 20));
  driver_->check_all();
}

TEST_P(Reverts, ASnapshotHasNothingToTakeBack) {
  ASSERT_NO_FATAL_FAILURE(commit_revertible(1));
  std::string const file = testing::TempDir() + "reverts." + GetParam().name + ".snapshot";
  SnapshotOptions how;
  how.overwrite = true;
  ASSERT_TRUE(store().snapshot(file, how).ok());
  expect_can_revert(true);  // the store still has
  auto copy = Store::restore(file, "memfd:restored", {}, GetParam().open());
  std::remove(file.c_str());
  ASSERT_TRUE(copy.ok()) << copy.status().message();
  EXPECT_FALSE(copy->can_revert().value());
  EXPECT_EQ(copy->stats().records, driver_->model.held.size());
}

TEST_P(Reverts, GeneratedOnesFollowTheModel) {
  auto const draw = [&](std::uint64_t n) { return random_() % n; };
  for (std::size_t turn = 0; turn < volume(40); ++turn) {
    Model const before = driver_->model;
    ASSERT_NO_FATAL_FAILURE(commit_revertible(draw(1000)));
    std::uint64_t const between = draw(4);
    if (between == 1) {
      ASSERT_NO_FATAL_FAILURE(reopen_killed(GetParam().open()));
    } else if (between == 2) {
      ASSERT_NO_FATAL_FAILURE(reopen());
    }
    if (draw(2) == 0) {
      Status const s = store().revert();
      ASSERT_TRUE(s.ok()) << s.message();
      driver_->model = before;
    }
    if (draw(3) == 0) {
      ASSERT_NO_FATAL_FAILURE(driver_->run_put(keys(0, 80), values(0, 80, turn)));
    }
    if (turn % 4 == 0) {
      ASSERT_NO_FATAL_FAILURE(driver_->check_all());
    }
  }
  driver_->check_all();
}

INSTANTIATE_TEST_SUITE_P(Store, Reverts, testing::ValuesIn(configurations()),
                         [](testing::TestParamInfo<Config> const& config) {
                           return config.param.name;
                         });

}  // namespace
}  // namespace perdure::test
