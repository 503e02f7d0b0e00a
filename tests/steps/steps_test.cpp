// Steps: a transaction's batches, dense buffers and a step number, all or nothing. What a kill
// leaves is a copy of the pool's file, opened. Invariant checked throughout: table, buffers and
// number are of one step, whichever it is.
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <thread>

#include "steps.hpp"
#include "support/folders.hpp"

namespace perdure::test {
namespace {

TEST_P(Steps, ThereIsNoneBeforeTheFirst) {
  ASSERT_NO_FATAL_FAILURE(register_model());
  model_.train_to(5);
  auto const step = store_->restore_step();
  ASSERT_TRUE(step.ok()) << step.status().message();
  EXPECT_FALSE(step.value().has_value());
  EXPECT_TRUE(model_ == trained_to(5)) << "the buffers stay as they were";
}

TEST_P(Steps, WhatCommittedIsThereAfterReopening) {
  ASSERT_NO_FATAL_FAILURE(register_model());
  ASSERT_NO_FATAL_FAILURE(write_step(0));
  ASSERT_NO_FATAL_FAILURE(write_step(41));
  ASSERT_NO_FATAL_FAILURE(reopen());
  EXPECT_TRUE(store_->recovery().clean);
  expect_step(*store_, 41);
}

TEST_P(Steps, AKillLeavesAllOfOneOrNothingOfIt) {
  ASSERT_NO_FATAL_FAILURE(register_model());
  ASSERT_NO_FATAL_FAILURE(write_step(1));
  for (std::uint64_t number = 2; number < 6; ++number) {
    Transaction t = half_step(number);
    {
      Store killed = as_killed();
      EXPECT_EQ(killed.recovery().undone, kKeys + 1) << "every slot, and the step's word";
      expect_step(killed, number - 1);
    }
    ASSERT_TRUE(t.commit().ok());
    Store killed = as_killed();
    EXPECT_EQ(killed.recovery().undone, 0u);
    expect_step(killed, number);
  }
}

TEST_P(Steps, WhatAKillLeftGoesOn) {
  ASSERT_NO_FATAL_FAILURE(register_model());
  ASSERT_NO_FATAL_FAILURE(write_step(1));
  Transaction t = half_step(2);
  write_file(killed_.str(), read_file(path_.str()));
  store_.emplace(open(killed_.str()));
  ASSERT_NO_FATAL_FAILURE(register_model());
  ASSERT_NO_FATAL_FAILURE(write_step(2));
  ASSERT_NO_FATAL_FAILURE(write_step(3));
  expect_step(*store_, 3);
}

TEST_P(Steps, AnAbortLeavesTheOneBefore) {
  ASSERT_NO_FATAL_FAILURE(register_model());
  ASSERT_NO_FATAL_FAILURE(write_step(7));
  for (int end = 0; end < 3; ++end) {
    {
      Transaction t = half_step(8);
      if (end == 0) {
        ASSERT_TRUE(t.abort().ok());
      } else if (end == 1) {
        ASSERT_NO_FATAL_FAILURE(reopen());  // closing aborts
      }
    }  // as does destroying
    expect_step(*store_, 7);
    ASSERT_NO_FATAL_FAILURE(register_model());
  }
  ASSERT_NO_FATAL_FAILURE(write_step(8));
  expect_step(*store_, 8);
}

TEST_P(Steps, TheTwoCopiesTakeTurns) {
  ASSERT_NO_FATAL_FAILURE(register_model());
  for (std::uint64_t number = 0; number < 9; ++number) {
    ASSERT_NO_FATAL_FAILURE(write_step(number));
    Image const image(read_file(path_.str()));
    std::uint64_t const room = image.root().find(pm::kDenseRoom)->offset;
    auto const word = image.at<std::uint64_t>(room + 128);
    EXPECT_EQ(word & ~(std::uint64_t{1} << 63), number + 1);
    EXPECT_EQ(word >> 63, (number + 1) % 2);
  }
  expect_step(*store_, 8);
}

TEST_P(Steps, TransactionsAndBatchesWithoutOneLeaveItAlone) {
  ASSERT_NO_FATAL_FAILURE(register_model());
  ASSERT_NO_FATAL_FAILURE(write_step(3));
  ASSERT_TRUE(put_all(*store_, table_of(4)).ok());
  Transaction t = begin();
  ASSERT_TRUE(put(*store_, t, table_of(5)).ok());
  model_.train_to(5);
  ASSERT_TRUE(t.commit().ok());
  auto const step = store_->restore_step();
  ASSERT_TRUE(step.ok());
  EXPECT_EQ(step.value(), 3u);
  EXPECT_TRUE(model_ == trained_to(3));
  EXPECT_EQ(scan_all(*store_), table_of(5));
}

TEST_P(Steps, OneNeedsNoBatchAndBatchesMayFollowIt) {
  ASSERT_NO_FATAL_FAILURE(register_model());
  {
    Transaction t = begin(1);
    model_.train_to(1);
    ASSERT_TRUE(t.write_step(1).ok());
    ASSERT_TRUE(t.commit().ok());
  }
  Transaction t = begin();
  model_.train_to(2);
  ASSERT_TRUE(t.write_step(2).ok());
  ASSERT_TRUE(put(*store_, t, table_of(2)).ok());
  EXPECT_EQ(store_->restore_step().value(), 2u) << "a transaction's own thread sees what it wrote";
  ASSERT_TRUE(t.commit().ok());
  Store killed = as_killed();
  expect_step(killed, 2);
}

TEST_P(Steps, ABatchThatFailsInOneLeavesTheStepInIt) {
  ASSERT_NO_FATAL_FAILURE(register_model());
  Transaction t = half_step(1);
  Contents many;
  for (std::uint64_t k = 0; k < 5000; ++k) many[u64_text(k)] = std::string(24, 'x');
  EXPECT_EQ(put(*store_, t, many).code(), Code::no_space);
  ASSERT_TRUE(t.commit().ok());
  expect_step(*store_, 1);
}

TEST_P(Steps, ATransactionHasRoomForItsOperationsAndTheStep) {
  ASSERT_NO_FATAL_FAILURE(register_model());
  Transaction t = begin(256);
  Contents all;
  for (std::uint64_t k = 0; k < 256; ++k) all[u64_text(k)] = std::string(24, 'x');
  ASSERT_TRUE(put(*store_, t, all).ok());
  Status const s = t.write_step(1);
  EXPECT_TRUE(s.ok()) << s.message();
}

TEST_P(Steps, OneThatItsTransactionHasNoRoomForIsRefusedAndTheTransactionGoesOn) {
  ASSERT_NO_FATAL_FAILURE(register_model());
  constexpr std::uint64_t kRoom = 32;  // entries that an undo log has at least
  Transaction t = begin(kRoom - 1);
  Contents all;
  for (std::uint64_t k = 0; k < kRoom; ++k) all[u64_text(k)] = std::string(24, 'x');
  ASSERT_TRUE(put(*store_, t, all).ok());
  Status const s = t.write_step(1);
  EXPECT_EQ(s.code(), Code::no_space) << s.message();
  ASSERT_TRUE(t.commit().ok());
  Store killed = as_killed();
  EXPECT_EQ(scan_all(killed), all);
}

TEST_P(Steps, TheTableGrowsBetweenThem) {
  ASSERT_NO_FATAL_FAILURE(register_model());
  ASSERT_NO_FATAL_FAILURE(write_step(1));
  Contents many;
  for (std::uint64_t k = 0; k < 50000; ++k) many[u64_text(1000 + k)] = std::string(24, 'x');
  ASSERT_TRUE(put_all(*store_, many).ok());
  EXPECT_GT(store_->stats().growths, 0u);
  Strings keys(8);
  for (auto const& [key, value] : many) keys.add(key);
  ASSERT_TRUE(store_->erase(keys.column()).ok());
  expect_step(*store_, 1);
  ASSERT_NO_FATAL_FAILURE(register_model());
  ASSERT_NO_FATAL_FAILURE(write_step(2));
  Store killed = as_killed();
  expect_step(killed, 2);
}

TEST_P(Steps, ASnapshotHoldsTheOneBeforeIt) {
  ASSERT_NO_FATAL_FAILURE(register_model());
  ASSERT_NO_FATAL_FAILURE(write_step(1));
  DiskDir const disk("steps");
  std::filesystem::create_directory(disk.path);
  ASSERT_TRUE(store_->snapshot(disk.file("snapshot")).ok());
  ASSERT_NO_FATAL_FAILURE(write_step(2));
  auto restored = Store::restore(disk.file("snapshot"), killed_.str(), {}, options());
  ASSERT_TRUE(restored.ok()) << restored.status().message();
  expect_step(*restored, 1);
  expect_step(*store_, 2);
}

TEST_P(Steps, AReadOnlyStoreRestores) {
  ASSERT_NO_FATAL_FAILURE(register_model());
  ASSERT_NO_FATAL_FAILURE(write_step(6));
  ASSERT_TRUE(store_->close().ok());
  OpenOptions how = options();
  how.read_only = true;
  store_.emplace(open(path_.str(), how));
  expect_step(*store_, 6);
}

TEST_P(Steps, OneIsWrittenOnceByATransactionThatIsOpen) {
  {
    Transaction t = begin();
    EXPECT_NE(t.write_step(1).message().find("call register_dense before begin"),
              std::string::npos);
    EXPECT_EQ(store_->register_dense(model_.buffers()).code(), Code::busy);
  }
  EXPECT_EQ(store_->restore_step().status().code(), Code::invalid_argument);
  ASSERT_NO_FATAL_FAILURE(register_model());
  Transaction t = begin();
  EXPECT_EQ(t.write_step((std::uint64_t{1} << 63) - 1).code(), Code::invalid_argument);
  std::thread([&] {
    EXPECT_TRUE(t.write_step((std::uint64_t{1} << 63) - 2).ok());
  }).join();  // whoever has it
  Status const again = t.write_step(2);
  EXPECT_NE(again.message().find("has written step 9223372036854775806 already"), std::string::npos)
      << again.message();
  ASSERT_TRUE(t.commit().ok());
  EXPECT_EQ(t.write_step(3).code(), Code::closed);
  EXPECT_EQ(store_->restore_step().value(), (std::uint64_t{1} << 63) - 2);
}

INSTANTIATE_TEST_SUITE_P(Store, Steps,
                         ::testing::Values(Kind{Layout::word, Residency::pm},
                                           Kind{Layout::word, Residency::mirrored},
                                           Kind{Layout::log, Residency::mirrored}),
                         [](auto const& tested) {
                           return tested.param.layout == Layout::log        ? "log"
                                  : tested.param.residency == Residency::pm ? "pm"
                                                                            : "mirrored";
                         });

}  // namespace
}  // namespace perdure::test
