// The tables of locks and of tracked keys by themselves: whose bytes a key has, who holds what is
// shared, what stays where keys go.
#include "lsm/rocks/lock_table.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "lsm/rocks/tracked_keys.hpp"

namespace perdure::lsm {
namespace {

class Owner : public LockOwner {
 public:
  explicit Owner(LockTable& table) { lock_id = table.next_id(); }  // waits for nobody
};

std::string numbered(int i) { return "key " + std::to_string(i); }

std::vector<rocksdb::TransactionID> holders(LockTable const& table, std::string const& key) {
  for (auto const& [family, one] : table.locks())
    if (one.key == key) return one.ids;
  return {};
}

TEST(LockTable, HasItsOwnBytesOfKeysOfAnyLength) {
  LockTable table({.stripes = 1});
  Owner one(table), other(table);
  std::vector<std::size_t> const lengths{0, 1, 8, 19, 20, 21, 22, 300};
  for (std::size_t const length : lengths) {
    std::string buffer(length, 'k');
    ASSERT_TRUE(table.acquire(one, KeyRef(0, buffer), true, 0).status.ok());
    std::fill(buffer.begin(), buffer.end(), 'x');
  }
  // grown, so that keys have moved
  for (int i = 0; i < 1000; ++i)
    ASSERT_TRUE(table.acquire(one, KeyRef(0, numbered(i)), true, 0).status.ok());
  for (std::size_t const length : lengths) {
    std::string const key(length, 'k');
    EXPECT_TRUE(table.acquire(other, KeyRef(0, key), true, 0).status.IsTimedOut()) << length;
    EXPECT_EQ(holders(table, key), std::vector{one.lock_id}) << length;
    table.release(one, KeyRef(0, key));
    EXPECT_TRUE(table.acquire(other, KeyRef(0, key), true, 0).status.ok()) << length;
  }
}

TEST(LockTable, SharesWhatItsFirstHolderHasLeft) {
  LockTable table({.stripes = 1});
  Owner first(table), second(table), third(table), writer(table);
  std::string const text = "a key that is longer than a slot";
  KeyRef const key(0, text);
  for (Owner* const one : {&first, &second, &third}) {
    EXPECT_FALSE(table.acquire(*one, key, false, 0).had_it);
    EXPECT_TRUE(table.acquire(*one, key, false, 0).had_it);
  }
  for (Owner* const one : {&first, &third, &second}) {
    EXPECT_TRUE(table.acquire(writer, key, true, 0).status.IsTimedOut());
    table.release(*one, key);
    auto const left = holders(table, text);
    EXPECT_EQ(std::count(left.begin(), left.end(), one->lock_id), 0);
  }
  EXPECT_TRUE(table.acquire(writer, key, true, 0).status.ok());
}

TEST(LockTable, KeepsWhatIsExclusiveSoUntilItIsLowered) {
  LockTable table({.stripes = 1});
  Owner one(table), other(table);
  KeyRef const key(0, "key");
  EXPECT_FALSE(table.acquire(one, key, true, 17).had_it);
  auto const again = table.acquire(one, key, false, 4);
  EXPECT_TRUE(again.status.ok() && again.had_it);
  EXPECT_EQ(again.place, 17u);
  EXPECT_TRUE(table.acquire(other, key, false, 0).status.IsTimedOut());
  table.lower(other, key);  // not his
  EXPECT_TRUE(table.acquire(other, key, false, 0).status.IsTimedOut());
  table.lower(one, key);
  EXPECT_TRUE(table.acquire(other, key, false, 0).status.ok());
}

TEST(LockTable, GivesManyLocksBackAndLeavesOthers) {
  constexpr int kKeys = 6000;
  for (std::size_t const stripes : {1, 7, 256}) {
    LockTable table({.stripes = stripes, .max_locks = 2 * kKeys});
    Owner one(table), other(table);
    TrackedKeys keys;
    for (int i = 0; i < kKeys; ++i) {
      for (std::uint32_t const family : {0u, 2u, 99u}) {
        std::string const text = numbered(i);
        KeyRef const key(family, text);
        bool const others = i % 3 == 0 && family == 2;  // as if it had been taken from `one`
        ASSERT_TRUE(table.acquire(others ? other : one, key, true, 0).status.ok());
        keys.track(key, nullptr, 0, false, true);
      }
    }
    table.drop_family(99);
    table.release(one, keys);
    auto const left = table.locks();
    EXPECT_EQ(left.size(), kKeys / 3);
    for (auto const& [family, lock] : left) {
      EXPECT_EQ(family, 2u);
      EXPECT_EQ(lock.ids, std::vector{other.lock_id});
    }
    // The limit counts what is held alone.
    for (int i = 0; i < 2 * kKeys; ++i)
      ASSERT_TRUE(table.acquire(one, KeyRef(0, numbered(i)), true, 0).status.ok()) << i;
    EXPECT_TRUE(table.acquire(one, KeyRef(0, "one more"), true, 0).status.IsBusy());
  }
}

/// The same of a plain map.
struct Model {
  std::map<std::string, std::pair<unsigned, unsigned>> counts;  // reads, writes

  void expect(TrackedKeys& keys, std::mt19937& random) const {
    ASSERT_EQ(keys.size(), counts.size());
    std::size_t seen = 0;
    keys.for_each([&](KeyRef const& key, TrackedKeys::Entry const& entry) {
      auto const known = counts.find(std::string(key.bytes));
      ASSERT_NE(known, counts.end());
      EXPECT_EQ(std::pair(entry.reads, entry.writes), known->second);
      // whatever the hint
      EXPECT_EQ(keys.find_at(static_cast<std::uint32_t>(random() % (counts.size() + 2)), key),
                &entry);
      ++seen;
    });
    EXPECT_EQ(seen, counts.size());
  }
};

TEST(TrackedKeys, CountAsAMapDoes) {
  std::mt19937 random(7);
  for (int round = 0; round < 60; ++round) {
    TrackedKeys keys, later;
    Model model, model_later;
    auto const forget = [&](auto& counts, std::string const& key, bool reads_only, auto less) {
      auto const at = counts.find(key);
      if (at == counts.end() || (reads_only && at->second.first == 0)) return;
      at->second.first -= less.first;
      at->second.second -= less.second;
      if (at->second.first + at->second.second == 0) counts.erase(at);
    };
    for (int step = 0; step < 400; ++step) {
      std::string text = numbered(static_cast<int>(random() % 60));
      if (random() % 4 == 0) text += " with much behind it";
      KeyRef const key(1, text);
      bool const read = random() % 2 == 0, to_later = random() % 3 == 0;
      if (random() % 3 == 0 && later.find(key) == nullptr) {
        keys.forget_read(key);
        forget(model.counts, text, true, std::pair(1u, 0u));
      } else {
        keys.track(key, keys.find(key), 5, read, true);
        ++(read ? model.counts[text].first : model.counts[text].second);
        if (!to_later) continue;
        later.track(key, later.find(key), 5, read, true);
        ++(read ? model_later.counts[text].first : model_later.counts[text].second);
      }
    }
    model.expect(keys, random);
    keys.subtract(later);
    for (auto const& [key, count] : model_later.counts) forget(model.counts, key, false, count);
    model.expect(keys, random);
  }
}

TEST(TrackedKeys, AreFoundThoughNobodyLookedBefore) {
  TrackedKeys keys;
  constexpr int kKeys = 3000;
  for (int i = 0; i < kKeys; ++i)
    keys.track(KeyRef(0, numbered(i)), nullptr, static_cast<std::uint64_t>(i), true, false);
  for (int i = 0; i < kKeys; ++i) {
    TrackedKeys::Entry const* const found = keys.find(KeyRef(0, numbered(i)));
    ASSERT_NE(found, nullptr);
    EXPECT_EQ(found->since, static_cast<std::uint64_t>(i));
    EXPECT_EQ(keys.find(KeyRef(3, numbered(i))), nullptr);
  }
  for (int i = 0; i < kKeys; i += 2)
    EXPECT_EQ(keys.forget_read(KeyRef(0, numbered(i))), TrackedKeys::Forgotten::the_key);
  for (int i = 0; i < kKeys; ++i)
    EXPECT_EQ(keys.find(KeyRef(0, numbered(i))) != nullptr, i % 2 == 1) << i;
}

}  // namespace
}  // namespace perdure::lsm
