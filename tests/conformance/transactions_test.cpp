// Atomic batches and transactions: all of one or nothing of it, whatever happens.
#include <atomic>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

#include "conformance/conformance.hpp"

namespace perdure::test {
namespace {

class Transactions : public Conformance {
 protected:
  void SetUp() override {
    Conformance::SetUp();
    if (IsSkipped()) return;
    if (GetParam().layout == Layout::in_place) GTEST_SKIP() << "layout in_place cannot undo";
    if (GetParam().single()) GTEST_SKIP() << "a Dash index has single operations";
    ASSERT_NO_FATAL_FAILURE(fill(0, 100));
  }
  Store& store() { return driver_->store(); }
  Status put(std::uint64_t from, std::uint64_t to, std::uint64_t version, CallOptions const& how) {
    driver_->how = how;
    Status s = driver_->put(keys(from, to), values(from, to, version), statuses_);
    driver_->how = {};
    return s;
  }
  void believe(std::uint64_t from, std::uint64_t to, std::uint64_t version) {
    for (std::uint64_t n = from; n < to; ++n) driver_->model.held[key(n)] = value(n, version);
  }
  /// Inside a transaction of layout word nothing is displaced and the table does not grow: with few
  /// candidates a key, a batch may find no room at any load.
  [[nodiscard]] bool room_is_sure() const {
    Shape const& shape = GetParam().shape;
    return shape.levels * shape.hashes * shape.slots >= 8;
  }
  static CallOptions in(Transaction& t) {
    CallOptions how;
    how.transaction = &t;
    return how;
  }
  /// Where in the pool's file these bytes lie.
  [[nodiscard]] std::vector<std::uint64_t> places_of(Bytes const& bytes) const {
    std::ifstream file(pool(), std::ios::binary);
    std::string const all((std::istreambuf_iterator<char>(file)), {});
    std::vector<std::uint64_t> places;
    for (auto at = all.find(bytes); at != std::string::npos; at = all.find(bytes, at + 1))
      places.push_back(at);
    return places;
  }
  void overwrite(std::uint64_t place, char byte) const {
    std::fstream file(pool(), std::ios::binary | std::ios::in | std::ios::out);
    file.seekp(static_cast<std::streamoff>(place));
    ASSERT_TRUE(file.put(byte).flush());
  }
  static CallOptions atomic() {
    CallOptions how;
    how.atomic = true;
    return how;
  }
  std::vector<KeyStatus> statuses_;
};

TEST_P(Conformance, StoresWithoutAtomicBatchesRefuseThem) {
  if (GetParam().layout != Layout::in_place && !GetParam().single())
    GTEST_SKIP() << "layouts word and log have them";
  ASSERT_NO_FATAL_FAILURE(fill(0, 10));
  driver_->how.atomic = true;
  std::vector<KeyStatus> statuses;
  EXPECT_EQ(driver_->put({key(50)}, {value(50)}, statuses).code(), Code::unsupported);
  EXPECT_EQ(driver_->store().begin().status().code(), Code::unsupported);
  EXPECT_EQ(driver_->store().revert().code(), Code::unsupported);
  EXPECT_FALSE(driver_->store().can_revert().value());
  driver_->how = {};
  driver_->check_all();
}

TEST_P(Transactions, AnAtomicBatchThatGrowsTheTableTakesEffect) {
  std::uint64_t const n = volume(1000);
  Status const s = put(50, 50 + n, 1, atomic());
  ASSERT_TRUE(s.ok()) << s.message();
  believe(50, 50 + n, 1);
  ASSERT_NO_FATAL_FAILURE(driver_->check_all());
  EXPECT_GT(store().stats().growths, 0u);
  ASSERT_NO_FATAL_FAILURE(reopen_killed(GetParam().open()));
  EXPECT_EQ(store().recovery().undone, 0u);
  driver_->check_all();
}

TEST_P(Transactions, AnAtomicBatchWithoutRoomLeavesNothing) {
  OpenOptions open = GetParam().open();
  open.grow = false;
  ASSERT_NO_FATAL_FAILURE(reopen(open));
  std::uint64_t const n = 2 * store().stats().slots;
  Status const s = put(50, 50 + n, 1, atomic());
  EXPECT_EQ(s.code(), Code::no_space) << s.message();
  EXPECT_NE(s.message().find("nothing of this batch took effect"), std::string::npos)
      << s.message();
  ASSERT_NO_FATAL_FAILURE(driver_->check_all());
  ASSERT_NO_FATAL_FAILURE(reopen_killed(open));
  driver_->check_all();
}

TEST_P(Transactions, AnAtomicBatchWithOneImpossibleOperationLeavesNothing) {
  if (fixed_values()) GTEST_SKIP() << "every value fits";
  std::vector<Bytes> operands = values(0, 20, 3);
  operands[7] += "one byte more than is stored";
  driver_->how = atomic();
  Status const s = driver_->update(keys(0, 20), operands, Rmw::add, Element::u8, statuses_);
  driver_->how = {};
  EXPECT_EQ(s.code(), Code::invalid_argument) << s.message();
  EXPECT_NE(s.message().find("for operation "), std::string::npos) << s.message();
  EXPECT_EQ(statuses_[7], KeyStatus::size_mismatch);
  driver_->check_all();
}

/// On a GPU launches give records back unless the batch is undone: the only one of a small batch,
/// the last of a large one.
TEST_P(Transactions, AnAtomicBatchThatFindsADamagedRecordLeavesNothing) {
  Bytes const damaged = value(7);
  if (damaged.size() < 12) GTEST_SKIP() << "too short to be found in the pool's file";
  std::uint64_t const large = GetParam().device == Device::cuda ? 5000 : 100;
  ASSERT_NO_FATAL_FAILURE(fill(100, large));
  std::vector<std::uint64_t> const at = places_of(damaged);
  ASSERT_FALSE(at.empty());
  for (std::uint64_t const place : at) overwrite(place, static_cast<char>(damaged[0] ^ 1));
  for (std::uint64_t const many : {std::uint64_t{20}, large, std::uint64_t{20}, large}) {
    driver_->how = atomic();
    Status const s =
        driver_->update(keys(0, many), values(0, many), Rmw::add, Element::u8, statuses_);
    driver_->how = {};
    EXPECT_EQ(s.code(), Code::corrupt) << s.message();
    EXPECT_EQ(statuses_[7], KeyStatus::corrupt);
    ASSERT_NO_FATAL_FAILURE(fill(large, large + 50));  // with what it must not have given back
  }
  for (std::uint64_t const place : at) overwrite(place, damaged[0]);
  ASSERT_NO_FATAL_FAILURE(driver_->check_all());
  ASSERT_NO_FATAL_FAILURE(fill(large + 50, large + 100));
  ASSERT_TRUE(put(0, 60, 4, atomic()).ok());
  believe(0, 60, 4);
  ASSERT_NO_FATAL_FAILURE(fill(large + 100, large + 200));
  ASSERT_NO_FATAL_FAILURE(driver_->check_all());
  ASSERT_NO_FATAL_FAILURE(reopen_killed(GetParam().open()));
  driver_->check_all();
}

TEST_P(Transactions, WhatATransactionWroteIsSeenInsideAndStaysOnceCommitted) {
  if (!room_is_sure()) GTEST_SKIP() << "too few candidates a key";
  auto t = store().begin({600});
  ASSERT_TRUE(t.ok()) << t.status().message();
  ASSERT_TRUE(put(50, 150, 1, in(*t)).ok());
  believe(50, 150, 1);
  driver_->how = in(*t);
  ASSERT_NO_FATAL_FAILURE(driver_->run_erase(keys(0, 60)));
  ASSERT_NO_FATAL_FAILURE(driver_->run_put(keys(0, 30), values(0, 30, 2)));
  driver_->how = {};
  ASSERT_NO_FATAL_FAILURE(driver_->check_all());
  ASSERT_TRUE(t->commit().ok());
  EXPECT_EQ(t->commit().code(), Code::closed);
  ASSERT_NO_FATAL_FAILURE(driver_->check_all());
  ASSERT_NO_FATAL_FAILURE(reopen_killed(GetParam().open()));
  EXPECT_EQ(store().recovery().undone, 0u);
  driver_->check_all();
}

TEST_P(Transactions, AnAbortedTransactionLeavesTheStoreAsItWas) {
  if (!room_is_sure()) GTEST_SKIP() << "too few candidates a key";
  Model const before = driver_->model;
  for (int end = 0; end < 3; ++end) {
    {
      auto t = store().begin({600});
      ASSERT_TRUE(t.ok()) << t.status().message();
      driver_->how = in(*t);
      ASSERT_NO_FATAL_FAILURE(driver_->run_erase(keys(0, 60)));
      ASSERT_NO_FATAL_FAILURE(driver_->run_put(keys(20, 130), values(20, 130, 2)));
      ASSERT_NO_FATAL_FAILURE(driver_->run_put(keys(20, 40), values(20, 40, 3)));
      driver_->how = {};
      if (end == 0) {
        ASSERT_TRUE(t->abort().ok());
      } else if (end == 1) {
        ASSERT_NO_FATAL_FAILURE(reopen());  // closing aborts
      }
    }  // as does destroying
    driver_->model = before;
    ASSERT_NO_FATAL_FAILURE(driver_->check_all());
  }
  ASSERT_NO_FATAL_FAILURE(fill(100, 300));
  driver_->check_all();
}

TEST_P(Transactions, AKilledTransactionIsUndone) {
  if (!room_is_sure()) GTEST_SKIP() << "too few candidates a key";
  auto t = store().begin({600});
  ASSERT_TRUE(t.ok()) << t.status().message();
  ASSERT_TRUE(put(50, 150, 1, in(*t)).ok());
  ASSERT_TRUE(put(0, 60, 2, in(*t)).ok());
  ASSERT_NO_FATAL_FAILURE(reopen_killed(GetParam().open()));
  EXPECT_GE(store().recovery().undone, 160u);
  ASSERT_NO_FATAL_FAILURE(driver_->check_all());
  // Its entries must not count once more.
  ASSERT_NO_FATAL_FAILURE(fill(0, 100, 4));
  ASSERT_NO_FATAL_FAILURE(reopen_killed(GetParam().open()));
  EXPECT_EQ(store().recovery().undone, 0u);
  driver_->check_all();
}

TEST_P(Transactions, ABatchBeyondItsRoomFailsAloneAndTheOthersCount) {
  if (!room_is_sure()) GTEST_SKIP() << "too few candidates a key";
  auto t = store().begin({64});
  ASSERT_TRUE(t.ok()) << t.status().message();
  ASSERT_TRUE(put(0, 40, 1, in(*t)).ok());
  Status const s = put(40, 100, 1, in(*t));
  EXPECT_EQ(s.code(), Code::no_space);
  EXPECT_NE(s.message().find("max_operations of at least 100"), std::string::npos) << s.message();
  ASSERT_TRUE(t->commit().ok());
  believe(0, 40, 1);
  driver_->check_all();
}

TEST_P(Transactions, ABatchThatIsRefusedInsideOneLeavesWhatWasWrittenBefore) {
  if (!room_is_sure()) GTEST_SKIP() << "too few candidates a key";
  OpenOptions open = GetParam().open();
  open.grow = false;
  ASSERT_NO_FATAL_FAILURE(reopen(open));
  std::uint64_t const n = 2 * store().stats().slots;
  auto t = store().begin({n + 200});
  ASSERT_TRUE(t.ok()) << t.status().message();
  ASSERT_TRUE(put(50, 100, 1, in(*t)).ok());
  believe(50, 100, 1);
  for (int again = 0; again < 2; ++again) {
    Status const s = put(200, 200 + n, 1, in(*t));
    EXPECT_EQ(s.code(), Code::no_space) << s.message();
    EXPECT_NE(s.message().find("nothing of this batch took effect"), std::string::npos)
        << s.message();
    ASSERT_NO_FATAL_FAILURE(driver_->check_all());
  }
  driver_->how = in(*t);
  ASSERT_NO_FATAL_FAILURE(driver_->run_erase(keys(0, 30)));
  driver_->how = {};
  ASSERT_TRUE(t->commit().ok());
  ASSERT_NO_FATAL_FAILURE(driver_->check_all());
  ASSERT_NO_FATAL_FAILURE(reopen_killed(open));
  EXPECT_EQ(store().recovery().undone, 0u);
  driver_->check_all();
}

TEST_P(Transactions, InLayoutLogTheTableGrowsInsideOneWhichMayStillBeAborted) {
  if (GetParam().layout != Layout::log) GTEST_SKIP() << "layout word makes room before";
  Model const before = driver_->model;
  std::uint64_t const n = volume(2000);
  for (bool const commits : {false, true}) {
    auto const growths = store().stats().growths;
    auto t = store().begin({2 * n});
    ASSERT_TRUE(t.ok()) << t.status().message();
    ASSERT_TRUE(put(50, n / 2, 1, in(*t)).ok());
    Status const s = put(n / 4, n, 2, in(*t));
    ASSERT_TRUE(s.ok()) << s.message();
    if (!commits) {
      EXPECT_GT(store().stats().growths, growths);
    }
    believe(50, n / 4, 1);
    believe(n / 4, n, 2);
    ASSERT_NO_FATAL_FAILURE(driver_->check_all());
    ASSERT_TRUE((commits ? t->commit() : t->abort()).ok());
    if (!commits) driver_->model = before;
    ASSERT_NO_FATAL_FAILURE(driver_->check_all());
  }
  ASSERT_NO_FATAL_FAILURE(reopen_killed(GetParam().open()));
  driver_->check_all();
}

TEST_P(Transactions, OneOfMoreOperationsThanThereCanBeIsRefused) {
  Status const s = store().begin({~std::uint64_t{0}}).status();
  EXPECT_EQ(s.code(), Code::invalid_argument) << s.message();
  EXPECT_NE(s.message().find("at most 2^31 operations"), std::string::npos) << s.message();
  driver_->check_all();
}

TEST_P(Transactions, OneTooLargeForThePoolIsRefusedAndTakesNoRoom) {
  CreateOptions create = GetParam().create();
  create.max_bytes = 24u << 20;
  ASSERT_NO_FATAL_FAILURE(make(GetParam(), create, GetParam().open()));
  ASSERT_NO_FATAL_FAILURE(fill(0, 100));
  Stats const before = store().stats();
  Status const s = store().begin({std::uint64_t{1} << 24}).status();
  EXPECT_EQ(s.code(), Code::no_space) << s.message();
  EXPECT_NE(s.message().find("max_operations"), std::string::npos) << s.message();
  EXPECT_LE(store().stats().space.used_bytes, before.space.used_bytes);
  EXPECT_EQ(store().stats().slots, before.slots);
  ASSERT_NO_FATAL_FAILURE(fill(50, 500));
  ASSERT_NO_FATAL_FAILURE(reopen_killed(GetParam().open()));
  driver_->check_all();
}

TEST_P(Transactions, InLayoutLogABatchThatThePoolHasNoRecordsForFailsAlone) {
  if (GetParam().layout != Layout::log) GTEST_SKIP() << "layout word makes room before";
  CreateOptions create = GetParam().create();
  // Longer keys have larger entries, and records of each length have superblocks of their own.
  bool const hashes = !fixed_keys() || GetParam().key_bytes > 32;
  bool const short_keys = GetParam().key_bytes <= 8;
  create.max_bytes = (!fixed_values() ? 32u : hashes ? 14u : short_keys ? 8u : 16u) << 20;
  ASSERT_NO_FATAL_FAILURE(make(GetParam(), create, GetParam().open()));
  std::uint64_t n = 0;
  for (bool full = false; !full; n += 500) {
    ASSERT_LT(n, 1'000'000u) << "the pool never fills";
    full = put(n, n + 500, 0, {}).code() == Code::no_space;
    for (std::uint64_t i = 0; i < 500; ++i)
      if (statuses_[i] == KeyStatus::ok) believe(n + i, n + i + 1, 0);
  }
  auto t = store().begin({4000});
  ASSERT_TRUE(t.ok()) << t.status().message();
  driver_->how = in(*t);
  ASSERT_NO_FATAL_FAILURE(driver_->run_erase(keys(0, 1000)));
  driver_->how = {};
  Status const s = put(0, 1000, 1, in(*t));
  EXPECT_EQ(s.code(), Code::no_space)
      << "what it erased may come back: nobody may have its records";
  ASSERT_NO_FATAL_FAILURE(driver_->check_all());
  ASSERT_TRUE(t->commit().ok());
  ASSERT_NO_FATAL_FAILURE(driver_->check_all());
  // Of the lengths that were erased, for whose records there is room.
  ASSERT_NO_FATAL_FAILURE(fill(0, 1000, fixed_values() ? 1 : 0, 500));
  ASSERT_NO_FATAL_FAILURE(reopen_killed(GetParam().open()));
  driver_->check_all();
}

TEST_P(Transactions, ManyThatAreAbortedOrCommittedTakeNoMoreRoomThanOne) {
  if (!room_is_sure()) GTEST_SKIP() << "too few candidates a key";
  std::uint64_t used = 0;
  for (std::uint64_t round = 0; round < volume(200); ++round) {
    auto t = store().begin({100});
    ASSERT_TRUE(t.ok()) << t.status().message();
    ASSERT_TRUE(put(0, 100, round, in(*t)).ok());
    bool const commits = round % 2 == 0;
    ASSERT_TRUE((commits ? t->commit() : t->abort()).ok());
    if (commits) believe(0, 100, round);
    if (round == 4) used = store().stats().space.used_bytes;
  }
  EXPECT_LE(store().stats().space.used_bytes, used + (4u << 20));
  driver_->check_all();
}

/// More than whose sessions are kept.
TEST_P(Transactions, OfManyBatchesTakeNoMoreRoomThanOne) {
  if (!room_is_sure()) GTEST_SKIP() << "too few candidates a key";
  std::uint64_t used = 0;
  for (std::uint64_t round = 0; round < volume(60); ++round) {
    auto t = store().begin({200});
    ASSERT_TRUE(t.ok()) << t.status().message();
    for (std::uint64_t at = 0; at < 100; at += 5) {
      ASSERT_TRUE(put(0, 5, round + 1000, in(*t)).ok());  // again and again
      ASSERT_TRUE(put(at, at + 5, round, in(*t)).ok());
    }
    bool const commits = round % 2 == 0;
    ASSERT_TRUE((commits ? t->commit() : t->abort()).ok());
    if (commits) believe(5, 100, round);
    if (commits) believe(0, 5, round + 1000);
    if (round == 4) used = store().stats().space.used_bytes;
  }
  EXPECT_LE(store().stats().space.used_bytes, used + (4u << 20));
  driver_->check_all();
}

TEST_P(Transactions, GetsOfAMixedBatchAreAnsweredBeforeTheNextOne) {
  if (!fixed_values()) GTEST_SKIP() << "gets of a mixed batch need fixed-width values";
  auto t = store().begin({300});
  ASSERT_TRUE(t.ok()) << t.status().message();
  driver_->how = in(*t);
  for (std::uint64_t round = 1; round < 4; ++round) {
    std::vector<Op> ops;
    for (std::uint64_t n = 0; n < 50; ++n) {
      ops.push_back({OpKind::get, key(n), {}});
      ops.push_back({OpKind::put, key(n), value(n, round)});
    }
    std::vector<Answer> answers;
    ASSERT_TRUE(driver_->mixed(ops, Rmw::replace, Element::u8, answers).ok());
    for (std::uint64_t n = 0; n < 50; ++n)
      EXPECT_EQ(answers[2 * n].value, driver_->model.held[key(n)]) << n;
    believe(0, 50, round);
  }
  driver_->how = {};
  ASSERT_TRUE(t->commit().ok());
  driver_->check_all();
}

TEST_P(Transactions, WritesMustNameTheTransactionThatIsOpen) {
  auto t = store().begin();
  ASSERT_TRUE(t.ok()) << t.status().message();
  EXPECT_EQ(put(0, 1, 1, {}).code(), Code::busy);
  EXPECT_EQ(store().begin().status().code(), Code::busy);
  ASSERT_TRUE(t->abort().ok());
  EXPECT_EQ(put(0, 1, 1, in(*t)).code(), Code::busy);
  driver_->check_all();
}

TEST_P(Transactions, OtherThreadsWaitUntilItEnds) {
  if (!room_is_sure()) GTEST_SKIP() << "too few candidates a key";
  auto t = store().begin({100});
  ASSERT_TRUE(t.ok()) << t.status().message();
  ASSERT_TRUE(put(0, 50, 1, in(*t)).ok());
  std::atomic<bool> ended{false};
  std::atomic<bool> early{false};
  std::vector<Answer> answers;
  std::uint64_t number = 0;
  EXPECT_EQ(store().held_elsewhere(), 0u);  // it is this thread's
  std::thread reader([&] {
    number = store().held_elsewhere();
    EXPECT_TRUE(driver_->get(keys(0, 100), answers).ok());
    early = !ended;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  ended = true;
  ASSERT_TRUE(t->commit().ok());
  reader.join();
  EXPECT_NE(number, 0u);
  EXPECT_FALSE(early) << "a reader saw a transaction before its end";
  believe(0, 50, 1);
  for (std::uint64_t n = 0; n < 100; ++n) EXPECT_EQ(answers[n].value, driver_->model.held[key(n)]);
}

TEST_P(Transactions, GeneratedOnesFollowTheModel) {
  auto const draw = [&](std::uint64_t n) { return random_() % n; };
  std::size_t const rounds = volume(60);
  for (std::size_t round = 0; round < rounds; ++round) {
    Model const before = driver_->model;
    bool const single = draw(3) == 0;
    bool const commits = single || draw(3) != 0;
    std::optional<Transaction> t;
    if (single) {
      driver_->how = atomic();
    } else {
      auto begun = store().begin({256});
      ASSERT_TRUE(begun.ok()) << begun.status().message();
      t.emplace(std::move(*begun));
      driver_->how = in(*t);
    }
    for (std::uint64_t batch = single ? 1 : 1 + draw(4); batch > 0; --batch) {
      std::vector<Op> ops;
      for (std::uint64_t i = 1 + draw(60); i > 0; --i) {
        std::uint64_t const n = draw(200);
        ops.push_back({draw(3) == 0 ? OpKind::erase : OpKind::put, key(n), value(n, draw(1000))});
      }
      std::vector<Answer> answers;
      Status const s = driver_->mixed(ops, Rmw::replace, Element::u8, answers);
      if (t && s.code() == Code::no_space)
        continue;  // shapes of few candidates; nothing of it took effect
      ASSERT_TRUE(s.ok()) << s.message();
      for (Op const& op : ops) driver_->model.apply(op, Rmw::replace, Element::u8);
    }
    driver_->how = {};
    if (!commits) {
      driver_->model = before;
      if (draw(2) == 0) {
        ASSERT_NO_FATAL_FAILURE(reopen_killed(GetParam().open()));
      } else {
        ASSERT_TRUE(t->abort().ok());
      }
    } else if (t) {
      ASSERT_TRUE(t->commit().ok());
    }
    if (round % 8 == 0) {
      ASSERT_NO_FATAL_FAILURE(driver_->check_all());
    }
  }
  driver_->check_all();
}

INSTANTIATE_TEST_SUITE_P(Store, Transactions, testing::ValuesIn(configurations()),
                         [](testing::TestParamInfo<Config> const& config) {
                           return config.param.name;
                         });

}  // namespace
}  // namespace perdure::test
