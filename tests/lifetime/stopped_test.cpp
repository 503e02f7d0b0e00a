// Batches that somebody may stop: what is done is a prefix in whole pieces, and nobody sees less or
// more of it. The thread that stops them is the test's own, so where they stop is chance, and what
// is asked for holds wherever that is.
#include <algorithm>
#include <atomic>
#include <set>
#include <thread>

#include "base/sanitizer.hpp"
#include "lifetime/lifetime_store.hpp"

namespace perdure::test {
namespace {

constexpr std::uint64_t kPiece = 1u << 16, kMany = (kThreadSanitizer ? 3 : 10) * kPiece + 1234;

class Stopped : public testing::TestWithParam<Kind> {
 protected:
  void SetUp() override {
    home_.expected_records = kMany;
    auto made = home_.create();
    ASSERT_TRUE(made.ok()) << made.status().message();
    store_.emplace(std::move(*made));
  }
  [[nodiscard]] bool in_pieces() const { return !GetParam().power; }
  Status put_all(std::uint64_t plus = 0) {
    Words const keys = words(0, kMany), values = words(plus, kMany);
    statuses_.assign(kMany, KeyStatus::ok);
    return store_->put(column(keys), column(values), statuses_, how());
  }
  CallOptions how() const {
    CallOptions how;
    how.stop = &stop_;
    return how;
  }
  [[nodiscard]] std::uint64_t tried() const {
    return static_cast<std::uint64_t>(
        std::find(statuses_.begin(), statuses_.end(), KeyStatus::not_tried) - statuses_.begin());
  }

  PoolHome home_{GetParam()};
  std::optional<Store> store_;
  std::atomic<bool> stop_{false};
  std::vector<KeyStatus> statuses_;
};
INSTANTIATE_TEST_SUITE_P(Kinds, Stopped, testing::ValuesIn(kinds()),
                         [](auto const& one) { return std::string(one.param.name); });

TEST_P(Stopped, ABatchThatIsNotStoppedIsWhole) {
  ASSERT_TRUE(put_all().ok());
  EXPECT_EQ(tried(), kMany);
  Words values;
  ASSERT_TRUE(get(*store_, 0, kMany, values, how()).ok());
  EXPECT_EQ(values, words(0, kMany));
}

TEST_P(Stopped, BeforeItBeginsNothingIsDone) {
  stop_ = true;
  Status const s = put_all();
  EXPECT_EQ(s.code(), in_pieces() ? Code::stopped : Code::ok) << s.message();
  EXPECT_EQ(tried(), in_pieces() ? 0 : kMany);
  EXPECT_EQ(store_->stats().records, in_pieces() ? 0 : kMany);
  EXPECT_EQ(store_->verify(&stop_).status().code(), Code::stopped);
  EXPECT_EQ(store_->scan({}, 10, &stop_).status().code(), Code::stopped);
  Words values;
  EXPECT_EQ(get(*store_, 0, kMany, values, how()).code(), Code::stopped);
}

TEST_P(Stopped, WhatHasBeenDoneIsAPrefixOfWholePieces) {
  std::thread stopper([this] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    stop_ = true;
  });
  Status const s = put_all();
  stopper.join();
  std::uint64_t const done = tried();
  EXPECT_EQ(s.code(), done == kMany ? Code::ok : Code::stopped) << s.message();
  EXPECT_TRUE(done == kMany || (in_pieces() && done % kPiece == 0)) << done;
  EXPECT_TRUE(std::all_of(statuses_.begin() + static_cast<std::ptrdiff_t>(done), statuses_.end(),
                          [](KeyStatus one) { return one == KeyStatus::not_tried; }));
  Words values, expected = words(0, kMany);
  std::fill(expected.begin() + static_cast<std::ptrdiff_t>(done), expected.end(), 0);
  ASSERT_TRUE(get(*store_, 0, kMany, values).ok());
  EXPECT_EQ(values, expected);
  ASSERT_TRUE(put(*store_, done, 10).ok());
  auto const report = store_->verify();
  ASSERT_TRUE(report.ok());
  EXPECT_EQ(report.value().fault_count, 0);
}

TEST_P(Stopped, NobodySeesPartOfABatchInPieces) {
  if (GetParam().index != Index::gphash)
    return;  // whose batches others see parts of, as documented
  ASSERT_TRUE(put_all().ok());
  std::atomic<bool> over{false};
  std::set<Words> seen;
  std::thread reader([&] {
    while (!over) {
      Words const ends{0, kMany / 2, kMany - 1};
      Words values(3);
      std::vector<KeyStatus> statuses(3);
      MutableColumn const to{reinterpret_cast<std::byte*>(values.data()), 8, 3, MemorySpace::host};
      if (store_->get(column(ends), to, statuses).ok()) seen.insert(values);
    }
  });
  EXPECT_TRUE(put_all(1).ok());
  over = true;
  reader.join();
  for (Words const& values : seen) {
    std::uint64_t const plus = values[0];
    EXPECT_EQ(values, (Words{plus, kMany / 2 + plus, kMany - 1 + plus}));
  }
}

TEST_P(Stopped, AnAtomicBatchRunsToItsEnd) {
  if (GetParam().index != Index::gphash || GetParam().layout != Layout::word)
    return;  // that have none
  stop_ = true;
  Words const keys = words(0, kMany);
  statuses_.assign(kMany, KeyStatus::ok);
  CallOptions whole = how();
  whole.atomic = true;
  ASSERT_TRUE(store_->put(column(keys), column(keys), statuses_, whole).ok());
  EXPECT_EQ(tried(), kMany);
  EXPECT_EQ(store_->stats().records, kMany);
}

}  // namespace
}  // namespace perdure::test
