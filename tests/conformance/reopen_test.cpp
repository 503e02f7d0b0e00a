// Closing and opening: what comes back after a clean close, and after none.
#include "conformance/conformance.hpp"

namespace perdure::test {
namespace {

TEST_P(Conformance, ACleanReopenFindsEverything) {
  ASSERT_NO_FATAL_FAILURE(fill(0, 700));
  ASSERT_NO_FATAL_FAILURE(driver_->run_erase(keys(100, 200)));
  ASSERT_NO_FATAL_FAILURE(reopen());
  RecoveryReport const& r = driver_->store().recovery();
  EXPECT_TRUE(r.clean);
  EXPECT_FALSE(r.resize_resumed);
  EXPECT_EQ(r.records, 600u);
  EXPECT_EQ(r.dropped, 0u);
  EXPECT_EQ(r.duplicates, 0u);
  EXPECT_EQ(r.why_dropped, "");
  driver_->check_all();
}

TEST_P(Conformance, AKilledStoreIsFoundWhole) {
  for (int round = 0; round < 3; ++round) {
    std::uint64_t const base = static_cast<std::uint64_t>(round) * 300;
    ASSERT_NO_FATAL_FAILURE(fill(base, base + 300));
    ASSERT_NO_FATAL_FAILURE(driver_->run_erase(keys(base, base + 50)));
    ASSERT_NO_FATAL_FAILURE(reopen_killed(GetParam().open()));
    RecoveryReport const& r = driver_->store().recovery();
    EXPECT_FALSE(r.clean);
    EXPECT_EQ(r.records, driver_->model.held.size());
    EXPECT_EQ(r.dropped, 0u) << r.why_dropped;
    EXPECT_EQ(r.duplicates, 0u);
    ASSERT_NO_FATAL_FAILURE(driver_->check_all());
  }
}

TEST_P(Conformance, ALargeTableOfDashIsCountedWhenSomebodyAsks) {
  bool const dash = GetParam().single() && GetParam().index != Index::btree;
  if (!dash) GTEST_SKIP() << "other tables are looked through by the opening";
  ASSERT_NO_FATAL_FAILURE(make(300000));
  ASSERT_NO_FATAL_FAILURE(fill(0, 300));
  ASSERT_NO_FATAL_FAILURE(reopen_killed(GetParam().open()));
  EXPECT_FALSE(driver_->store().recovery().counted);
  EXPECT_EQ(driver_->store().stats().records, 300u);
  driver_->check_all();
}

TEST_P(Conformance, AReopenedTableIsAsLargeAsItWas) {
  if (GetParam().single()) GTEST_SKIP() << "another index";
  std::uint64_t n = 0;
  std::uint64_t const begun = driver_->store().stats().slots;
  auto const grown = [&] {
    Stats const s = driver_->store().stats();
    return s.slots >= 4 * begun && s.units_left == 0;
  };
  for (; !grown(); n += 200) ASSERT_NO_FATAL_FAILURE(fill(n, n + 200));
  std::uint64_t const slots = driver_->store().stats().slots;
  for (bool const killed : {true, false}) {
    killed ? reopen_killed(GetParam().open()) : reopen();
    EXPECT_EQ(driver_->store().stats().slots, slots);
    EXPECT_EQ(driver_->store().stats().growths, 0u);
  }
  driver_->check_all();
}

TEST_P(Conformance, AReopenedPoolGoesOnGrowing) {
  std::uint64_t const n = volume(1500);
  for (std::uint64_t round = 0; round < 4; ++round) {
    ASSERT_NO_FATAL_FAILURE(fill(round * n, (round + 1) * n));
    ASSERT_NO_FATAL_FAILURE(reopen());
  }
  driver_->check_all();
}

TEST_P(Conformance, ReadersShareACleanPoolAndCannotWrite) {
  if (GetParam().device == Device::cuda)
    GTEST_SKIP() << "what the GPU driver allows of read-only pools varies";
  ASSERT_NO_FATAL_FAILURE(fill(0, 100));
  OpenOptions read_only = GetParam().open();
  read_only.read_only = true;
  ASSERT_NO_FATAL_FAILURE(reopen(read_only));
  auto second = Store::open(pool(), read_only);
  ASSERT_TRUE(second.ok()) << second.status().message();
  ASSERT_NO_FATAL_FAILURE(driver_->check_all());
  std::vector<KeyStatus> statuses;
  EXPECT_EQ(driver_->put({key(1)}, {value(1, 1)}, statuses).code(), Code::invalid_argument);
  EXPECT_EQ(driver_->erase({key(1)}, statuses).code(), Code::invalid_argument);
  auto const writer = Store::open(pool(), GetParam().open());
  ASSERT_FALSE(writer.ok());
  EXPECT_EQ(writer.status().code(), Code::busy);
  ASSERT_TRUE(second->close().ok());
  ASSERT_NO_FATAL_FAILURE(reopen());
  EXPECT_TRUE(driver_->store().recovery().clean) << "reading changes nothing";
  driver_->check_all();
}

TEST_P(Conformance, AClosedStoreAnswersClosed) {
  ASSERT_NO_FATAL_FAILURE(fill(0, 10));
  ASSERT_TRUE(driver_->store().close().ok());
  EXPECT_TRUE(driver_->store().close().ok()) << "closing twice is no error";
  std::vector<KeyStatus> statuses;
  std::vector<Answer> answers;
  EXPECT_EQ(driver_->put({key(1)}, {value(1)}, statuses).code(), Code::closed);
  EXPECT_EQ(driver_->erase({key(1)}, statuses).code(), Code::closed);
  EXPECT_EQ(driver_->get({key(1)}, answers).code(), Code::closed);
  EXPECT_EQ(driver_->store().scan({}, 1).status().code(), Code::closed);
  EXPECT_EQ(driver_->store().verify().status().code(), Code::closed);
  EXPECT_EQ(driver_->store().stats().records, 10u);
  auto again = Store::open(pool(), GetParam().open());
  ASSERT_TRUE(again.ok()) << "close() lets go of the pool: " << again.status().message();
}

TEST_P(Conformance, AnAnonymousPoolWorksAndIsGoneAfterwards) {
  driver_.reset();
  auto store = Store::create("memfd:conformance", GetParam().create(), GetParam().open());
  ASSERT_TRUE(store.ok()) << store.status().message();
  driver_ = std::make_unique<Driver>(GetParam(), std::move(*store));
  ASSERT_NO_FATAL_FAILURE(fill(0, 500));
  ASSERT_NO_FATAL_FAILURE(driver_->check_all());
  EXPECT_EQ(driver_->store().stats().medium, Medium::memfd);
  EXPECT_FALSE(driver_->store().survives().process_kill);
  EXPECT_EQ(Store::open("memfd:conformance", {}).status().code(), Code::not_found);
}

}  // namespace
}  // namespace perdure::test
