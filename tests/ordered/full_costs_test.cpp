// What a commit of a durable tree flushes and waits for, exactly, against a table that is part of
// the test; and what becomes of pools whose undo log has another form.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <numeric>
#include <random>
#include <vector>

#include "ordered_store.hpp"
#include "pm/counted_host.hpp"
#include "pm/root.hpp"
#include "store/btree/full/full_engine_on.hpp"
#include "support/cut_pool.hpp"

namespace perdure::test {
namespace {

/// The engine makes its Hosts by itself: what they flush, and how often they wait, one Host counts.
class CountsTogether : public pm::OrderedHost {
 public:
  static constexpr bool kFlushes = true;
  static constexpr bool kNear = false;
  static inline std::unique_ptr<pm::CountedHost> all;

  static void flush(void const* at, std::size_t bytes) { all->flush(at, bytes); }
  static void fence() { all->fence(); }
  static void persist(void const* at, std::size_t bytes) { all->persist(at, bytes); }
};

constexpr std::uint32_t kValueBytes = 256;
constexpr std::uint64_t kRecords = 20'000;

CreateOptions words_and_values() {
  CreateOptions create;
  create.index = Index::btree;
  create.persist = Persist::full;
  create.key_bytes = 8;
  create.value_bytes = kValueBytes;
  create.expected_records = kRecords;
  return create;
}

/// Batches of one kind on a tree of kRecords, whose keys are spread over all there can be.
class Commits {
 public:
  Commits() {
    CountsTogether::all = std::make_unique<pm::CountedHost>(pm::DurableRange(pool_.addresses()));
    if (!engine_->recover(false, false).ok()) throw std::runtime_error("no engine");
    space_.load_later();
    numbers_.begin();
    std::vector<std::uint64_t> numbers(kRecords);
    std::iota(numbers.begin(), numbers.end(), 0);
    std::ranges::shuffle(numbers, random_);
    run(OpKind::put, numbers, 256);
  }
  /// Lines flushed, and fences, of so many operations.
  pm::LineCounts of(OpKind kind, std::uint64_t operations, std::size_t batch) {
    std::vector<std::uint64_t> numbers;
    for (std::uint64_t i = 0; i < operations; ++i)
      numbers.push_back(kind == OpKind::put ? next_++ : random_() % kRecords);
    if (kind == OpKind::erase) {
      numbers.resize(kRecords);
      std::iota(numbers.begin(), numbers.end(), 0);
      std::ranges::shuffle(numbers, random_);
      numbers.resize(operations);
    }
    CountsTogether::all->reset_counts();
    run(kind, numbers, batch);
    return CountsTogether::all->counts();
  }

 private:
  void run(OpKind kind, std::vector<std::uint64_t> const& numbers, std::size_t batch) {
    std::vector<std::byte> const values(batch * kValueBytes, std::byte{7});
    for (std::size_t at = 0; at < numbers.size(); at += batch) {
      std::size_t const n = std::min(batch, numbers.size() - at);
      std::vector<std::uint64_t> keys(n);
      for (std::size_t i = 0; i < n; ++i) keys[i] = numbers[at + i] * 0x9e3779b97f4a7c15u;
      Call call;
      call.kind = kind;
      call.keys = {reinterpret_cast<std::byte const*>(keys.data()), nullptr, 8, n};
      call.values = {values.data(), nullptr, kValueBytes, n};
      std::vector<std::uint8_t> statuses(n, kPending);
      threads::Tally tally;
      engine_->begin();
      engine_->write({&call, statuses.data(), numbers_.take(n)}, {nullptr, 0, n}, tally);
      records_ += tally.inserted - tally.erased;
      ASSERT_TRUE(engine_->commit(records_).ok());
      auto const ok = std::ranges::count(statuses, static_cast<std::uint8_t>(KeyStatus::ok));
      ASSERT_EQ(static_cast<std::size_t>(ok), n);
    }
  }

  CutPool cut_{words_and_values()};
  pm::Pool& pool_ = cut_.pool();
  Mutex memory_;
  threads::Space space_{pool_, memory_};
  threads::BatchNumbers numbers_{pool_, memory_};
  std::atomic<bool> given_up_{false};
  std::unique_ptr<BtreeEngine> engine_ =
      std::make_unique<full::EngineOn<btree::WordKeys, CountsTogether>>(
          pool_, memory_, btree::WordKeys(), space_, numbers_,
          BtreeOptions{8, kValueBytes, KeyOrder::bytes, false, false, &given_up_});
  std::mt19937_64 random_{1};
  std::uint64_t records_ = 0;
  std::uint64_t next_ = kRecords;
};

struct Cost {
  char const* name;
  OpKind kind;
  std::size_t batch;
  std::uint64_t lines, fences;  // of kOperations
};
constexpr std::uint64_t kOperations = 1024;

class CostsOfCommits : public testing::TestWithParam<Cost> {};

TEST_P(CostsOfCommits, AreAsManyAsThis) {
  Commits commits;
  pm::LineCounts const counts = commits.of(GetParam().kind, kOperations, GetParam().batch);
  EXPECT_EQ(counts.lines_flushed, GetParam().lines);
  EXPECT_EQ(counts.fences, GetParam().fences);
}

INSTANTIATE_TEST_SUITE_P(All, CostsOfCommits,
                         testing::Values(Cost{"update_alone", OpKind::update, 1, 10222, 2048},
                                         Cost{"update_by_16", OpKind::update, 16, 8476, 1087},
                                         Cost{"update_by_256", OpKind::update, 256, 7476, 1012},
                                         Cost{"insert_alone", OpKind::put, 1, 13468, 2216},
                                         Cost{"insert_by_16", OpKind::put, 16, 10459, 1256},
                                         Cost{"insert_by_256", OpKind::put, 256, 10014, 1195},
                                         Cost{"erase_alone", OpKind::erase, 1, 5120, 2048},
                                         Cost{"erase_by_16", OpKind::erase, 16, 3296, 1083},
                                         Cost{"erase_by_256", OpKind::erase, 256, 2298, 964}),
                         [](auto const& one) { return std::string(one.param.name); });

TEST(UndoLogsOfAnotherForm, AreRefusedByName) {
  CutPool made(words_and_values());
  pm::Root root = made.pool().root();
  std::uint64_t const offset = root.find(pm::kUndoLines)->offset;
  root.remove(pm::kUndoLines);
  root.set("undo.lines", offset, 0);
  made.pool().publish_root(root);
  try {
    static_cast<void>(made.killed());
    ADD_FAILURE() << "it was opened";
  } catch (std::runtime_error const& refused) {
    EXPECT_NE(std::string(refused.what()).find("undo.lines"), std::string::npos) << refused.what();
  }
}

}  // namespace
}  // namespace perdure::test
