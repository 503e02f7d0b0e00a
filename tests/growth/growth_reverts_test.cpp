// Commits that can be taken back while the table grows: what the store says of them holds for the
// next process, too, whether this one is killed or closes the pool in order.
#include <gtest/gtest.h>

#include <numeric>
#include <string>
#include <vector>

#include "full_pool.hpp"

namespace perdure::test {
namespace {

/// A store whose table grows in transactions that can be taken back. Keys are numbers, and values.
class GrowingReverts {
 public:
  GrowingReverts(Config const& config, std::uint64_t held)
      : config_(config),
        store_(made(Store::create(path_, config.create(slots_of(config, kTop) * 85 / 100),
                                  config.open()))) {
    EXPECT_TRUE(put(held, {}).ok());
    EXPECT_EQ(store_.stats().growths, 0u);
  }

  void commit_until_it_grows(std::uint64_t each) {
    std::uint64_t const most = slots_of(config_, kTop);
    while (next_ < most && store_.stats().growths == 0) {
      before_ = next_;
      auto t = store_.begin({.max_operations = each, .revertible = true});
      ASSERT_TRUE(t.ok()) << t.status().message();
      CallOptions how;
      how.transaction = &*t;
      ASSERT_TRUE(put(each, how).ok() && t->commit().ok());
    }
    ASSERT_EQ(store_.stats().growths, 1u);
    ASSERT_TRUE(store_.can_revert().value());
  }
  [[nodiscard]] std::uint64_t units_left() const { return store_.stats().units_left; }

  /// In the pool of a process that was killed now, and in that of one that closed it.
  void expect_taken_back() {
    std::string const killed = scratch_.file("killed");
    copy_as_if_killed(path_, killed);
    ASSERT_TRUE(store_.close().ok());
    for (std::string const& left : {killed, path_}) {
      SCOPED_TRACE(left);
      Store again = made(Store::open(left, config_.open()));
      EXPECT_EQ(again.recovery().clean, left == path_);
      EXPECT_TRUE(again.can_revert().value());
      expect_sound(again, next_);
      Status const s = again.revert();
      ASSERT_TRUE(s.ok()) << s.message();
      expect_sound(again, before_);
    }
  }

 private:
  static Store made(Result<Store> store) {
    if (!store.ok()) throw std::runtime_error(store.status().message());
    return std::move(*store);
  }
  static Column column(std::vector<std::uint64_t> const& words) {
    return {reinterpret_cast<std::byte const*>(words.data()), nullptr, 8, words.size()};
  }
  Status put(std::uint64_t n, CallOptions const& how) {
    std::vector<std::uint64_t> words(n);
    std::iota(words.begin(), words.end(), next_);
    next_ += n;
    return store_.put(column(words), column(words), {}, how);
  }
  /// It has the keys below that one.
  void expect_sound(Store& store, std::uint64_t below) const {
    auto found = store.verify();
    ASSERT_TRUE(found.ok());
    EXPECT_EQ(found->fault_count, 0u);
    EXPECT_EQ(found->records, below);
    EXPECT_EQ(store.stats().records, below);
    std::vector<std::uint64_t> keys(next_), values(next_);
    std::iota(keys.begin(), keys.end(), 0);
    std::vector<KeyStatus> statuses(next_);
    auto* const out = reinterpret_cast<std::byte*>(values.data());
    ASSERT_TRUE(store.get(column(keys), {out, 8, next_, MemorySpace::host}, statuses).ok());
    for (std::uint64_t key = 0; key < next_; ++key) {
      ASSERT_EQ(statuses[key], key < below ? KeyStatus::ok : KeyStatus::not_found) << key;
      if (key < below) {
        ASSERT_EQ(values[key], key);
      }
    }
  }

  ScratchDir scratch_;
  std::string path_ = scratch_.file("pool");
  Config config_;
  Store store_;
  std::uint64_t next_ = 0, before_ = 0;
};

/// One bucket a key: some are full long before the load from which a transaction begins with a
/// larger table.
TEST(GrowthInARevertibleTransaction, IsOverWhenItCommits) {
  GrowingReverts it({"narrow", Device::cpu, Layout::word, {1, 1, 8}, 8, 8, false, 2}, 90'000);
  ASSERT_NO_FATAL_FAILURE(it.commit_until_it_grows(2'000));
  EXPECT_EQ(it.units_left(), 0u);
  ASSERT_NO_FATAL_FAILURE(it.expect_taken_back());
}

/// One key a transaction: so the one unit that refuses a key is all that has moved.
TEST(GrowthOfLayoutLog, LeavesWhatCanBeTakenBackToWhoOpensItNext) {
  GrowingReverts it({"log", Device::cpu, Layout::log, {2, 2, 8}, 8, 8, false, 2}, 1'380'000);
  ASSERT_NO_FATAL_FAILURE(it.commit_until_it_grows(1));
  EXPECT_GT(it.units_left(), 0u);
  ASSERT_NO_FATAL_FAILURE(it.expect_taken_back());
}

}  // namespace
}  // namespace perdure::test
