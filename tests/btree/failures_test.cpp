// Memory that is not to be had: of each operation, each allocation fails once. It then answers
// full, and nothing has changed; or it did without. Records that cannot be read are answered, too.
#include <gtest/gtest.h>

#include <random>

#include "support/replaced_new.hpp"
#include "trees.hpp"

namespace perdure {

bool test::allocation_fails() noexcept { return btree::next_allocation_fails(); }

namespace btree {
namespace {

template <class Kind>
void fail_everywhere() {
  TreeOf<Kind> t;
  Model model;
  std::mt19937_64 draw(3);
  int failed = 0;
  for (int i = 0; i < 12000; ++i) {
    std::string const key = Kind::key(draw() % 4000);
    bool const writes = draw() % 10 < (i < 6000 ? 8u : 1u);
    for (std::int64_t n = 0;; ++n) {
      t.fail_at(n);
      Answer const answer = writes ? t.write(key, 7, Write::put) : t.erase(key);
      failed += t.failed();
      if (answer != Answer::full) {
        ASSERT_EQ(answer, writes || model.contains(key) ? Answer::done : Answer::not_found);
        break;
      }
      ASSERT_TRUE(t.failed() && writes) << "nothing failed, and an erasure needs nothing";
    }
    if (writes)
      model[key] = 7;
    else
      model.erase(key);
    if (i % 500 == 0) {
      std::vector<std::pair<std::string, std::uint64_t>> const all(model.begin(), model.end());
      ASSERT_EQ(t.scan(true, nullptr, true, ~std::size_t{0}), all);
    }
  }
  EXPECT_GT(failed, 200);
}
TEST(BTree, AnAllocationThatFailsChangesNothing) { fail_everywhere<Words>(); }
TEST(BTree, AnAllocationThatFailsChangesNothingOfRecords) { fail_everywhere<Records>(); }

TEST(BTree, ABulkLoadWithoutMemoryLeavesTheTreeEmpty) {
  std::vector<std::string> keys;
  std::vector<std::uint64_t> words;
  for (std::uint64_t k = 0; k < 3000; ++k) {
    keys.push_back(Words::key_of(k, 0));
    words.push_back(k);
  }
  TreeOf<Words> t;
  Status loaded;
  std::int64_t n = 0;
  do {
    t.fail_at(n++);
    loaded = t.load(keys, words);
    if (!t.failed()) break;
    ASSERT_EQ(loaded.code(), Code::no_space) << loaded.message();
    ASSERT_TRUE(t.scan(true, nullptr, true, 1).empty());
  } while (!loaded.ok());
  EXPECT_GT(n, 200);
  EXPECT_TRUE(loaded.ok());
  EXPECT_EQ(t.scan(true, nullptr, true, 10000).size(), keys.size());
}

TEST(BTree, WhatRoomWasReservedForIsRetiredWithoutMemory) {
  exec::Epochs epochs;
  int freed = 0;
  for (int i = 0; i < 300; ++i) {
    exec::EpochReservation reservation(epochs, 2);
    ASSERT_TRUE(reservation.has_room());
    epochs.retire([&] { ++freed; });  // takes none of it
    allocations_left = 0;
    reservation.retire([&freed] { ++freed; });
    reservation.retire([&freed] { ++freed; });
    allocations_left = -1;
  }
  epochs.drain();
  EXPECT_EQ(freed, 900);

  allocations_left = 0;
  exec::EpochReservation refused(epochs, 100000);
  allocations_left = -1;
  EXPECT_FALSE(refused.has_room());
}

/// The record of word 1 is damaged.
struct DamagedRecords {
  static std::span<std::byte const> key_at(std::uint64_t word) {
    static std::string const key = "what is whole";
    return word == 1 ? std::span<std::byte const>() : std::span(bytes_of(key), key.size());
  }
};
TEST(BTree, ARecordThatCannotBeReadIsAnswered) {
  Tree<ByteKeys<DamagedRecords>> t{ByteKeys<DamagedRecords>(DamagedRecords{})};
  pm::OrderedHost host;
  ASSERT_EQ(t.create(host), Answer::done);
  exec::EpochGuard const guard(t.epochs());
  std::string const text = "what is whole";
  Key const key = ByteKeys<DamagedRecords>::key(bytes_of(text), text.size());
  std::optional<std::uint64_t> before;
  std::uint64_t word = 0;
  ASSERT_EQ(t.write(host, key, 1, Write::put, before), Answer::done);
  EXPECT_EQ(t.find(host, key, word), Answer::damaged);
  EXPECT_EQ(t.write(host, key, 2, Write::put, before), Answer::damaged);
  EXPECT_EQ(t.modify(host, key, [](std::uint64_t) { return 3u; }, word), Answer::damaged);
  EXPECT_EQ(t.erase(host, key, [](std::uint64_t) {}, word), Answer::damaged);
  EXPECT_EQ(t.ascend(host, &key, true, [](auto, auto) { return true; }), Answer::damaged);
  EXPECT_EQ(t.descend(host, nullptr, true, [](auto, auto) { return true; }), Answer::damaged);
}

}  // namespace
}  // namespace btree
}  // namespace perdure
