// The block cache by itself: nothing that it says is ever wrong, whatever comes in between; what is
// read often stays; and its options are checked.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <string>
#include <thread>

#include "exec/counts.hpp"
#include "fault/planted_faults.hpp"
#include "lsm/cache/cache_scan.hpp"
#include "rocks/cache/cache_world.hpp"

namespace perdure::lsm {
namespace {

using test::CacheWorld;
using test::look_up;

constexpr int kSteps = 3000;
constexpr std::uint64_t kSeeds = 200;

TEST(BlockCacheWorld, WhatReadersBelieveIsSo) {
  std::uint64_t hits = 0, evicted = 0, invalidated = 0, refused = 0;
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
    CacheWorld<CacheRules> world(seed);
    ASSERT_EQ(world.run(kSteps), "") << "seed " << seed;
    hits += world.counters().hits;
    evicted += world.counters().evicted;
    invalidated += world.counters().invalidated;
    refused += world.counters().refused;
  }
  EXPECT_GT(hits, kSeeds * 20);
  EXPECT_GT(evicted, 0u);
  EXPECT_GT(invalidated, kSeeds);
  EXPECT_GT(refused, kSeeds);
}

template <class Rules>
bool is_found() {
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed)
    if (CacheWorld<Rules> world(seed); !world.run(kSteps).empty()) return true;
  return false;
}

struct InsertsLate : CacheRules {
  static constexpr bool kCloses = false;
};
struct ForgetsToInvalidate : CacheRules {
  static constexpr bool kInvalidates = false;
};
struct BelievesAnyway : CacheRules {
  static constexpr bool kHoldsAsks = false;
};
struct KeepsOldEntries : CacheRules {
  static constexpr bool kEmptiesOldSets = false;
};

TEST(BlockCacheWorld, FindsEveryRuleThatIsBroken) {
  EXPECT_TRUE(is_found<InsertsLate>());
  EXPECT_TRUE(is_found<ForgetsToInvalidate>());
  EXPECT_TRUE(is_found<BelievesAnyway>());
  EXPECT_TRUE(is_found<KeepsOldEntries>());
}

// Threads: the state's number decides what each key is.

constexpr std::uint64_t kFirst = 1000;
constexpr auto kPause = std::chrono::microseconds(100);
constexpr std::uint64_t kThreadKeys = 30;

bool changes(std::uint64_t key, std::uint64_t state) {
  return nth_hash(key * 0x9e3779b97f4a7c15u, static_cast<std::uint32_t>(state)) % 8 == 0;
}
std::uint64_t last_change(std::uint64_t key, std::uint64_t state) {
  while (state > kFirst && !changes(key, state)) --state;
  return state;
}
/// One number many times: a torn one has two. Long, so that there is time to tear it.
std::string value_at(std::uint64_t key, std::uint64_t state) {
  std::array<std::uint64_t, 250> words;
  words.fill(last_change(key, state) * kThreadKeys + key);
  return {reinterpret_cast<char const*>(words.data()), sizeof words};
}
std::string key_text(std::uint64_t key) { return "key" + std::to_string(key); }

class BlockCacheThreads : public ::testing::Test {
 protected:
  CacheCounters counters_;
  BlockCache cache_{CacheMemory::map({64 + 8 * 2048, 2048}).value(), counters_};
  std::atomic<std::uint64_t> state_ = kFirst;
  std::atomic<bool> stop_ = false;
  std::atomic<std::uint64_t> wrong_ = 0;
  std::atomic<std::uint64_t> scanned_ = 0;

  void read_and_fill(std::uint64_t seed) {
    perdure::test::Draws draws(seed);
    while (!stop_) {
      std::uint64_t const state = state_;
      std::uint64_t const key = draws.below(draws.once_in(2) ? 10 : kThreadKeys);
      auto const ticket = cache_.ticket(state, BlockCache::kStill);
      if (!ticket) continue;
      if (draws.once_in(200)) std::this_thread::sleep_for(kPause);
      auto const looked = look_up(cache_, *ticket, 0, key_text(key));
      std::string const truth = value_at(key, state);
      if (draws.once_in(200)) std::this_thread::sleep_for(kPause);
      if (!looked.is_known())
        test::insert(cache_, *ticket, 0, key_text(key), truth);
      else if (cache_.holds(*ticket) && looked.value != truth)
        ++wrong_;
    }
  }

  void scan_on() {
    CacheSetCopy copy(cache_.view());
    while (!stop_) {
      std::uint64_t const state = state_;
      auto const ticket = cache_.ticket(state, 0);
      if (!ticket) continue;
      std::uint64_t wrong = 0, entries = 0;
      copy.for_entries(cache_.view().sets, ticket->epoch, 0, [&](CacheEntry const& entry) {
        std::string const key(reinterpret_cast<char const*>(entry.key.data()), entry.key.size());
        std::string const value(reinterpret_cast<char const*>(entry.value.data()),
                                entry.value.size());
        ++entries;
        wrong += key.substr(0, 3) != "key" || value != value_at(std::stoull(key.substr(3)), state);
      });
      if (cache_.holds(*ticket)) {
        wrong_ += wrong;
        scanned_ += entries;
      }
    }
  }

  void flush_on() {
    std::uint64_t epoch = 0;
    while (!stop_) {
      std::uint64_t const before = state_, after = before + 1;
      std::vector<std::uint64_t> hashes;
      for (std::uint64_t key = 0; key < kThreadKeys; ++key)
        if (changes(key, after)) hashes.push_back(test::hash_of(0, key_text(key)));
      if (++epoch % 16 == 0) {  // RocksDB itself was written to
        state_ = after;
      } else {
        cache_.close(before);
        cache_.invalidate(hashes);
        std::this_thread::sleep_for(kPause);
        state_ = after;
        cache_.advance(after);
      }
      std::this_thread::sleep_for(kPause);
    }
  }
};

TEST_F(BlockCacheThreads, ReadersAndScansBelieveNothingWrongWhileItIsFilledAndInvalidated) {
  std::vector<std::thread> threads;
  for (std::uint64_t seed = 1; seed <= 3; ++seed)
    threads.emplace_back([this, seed] { read_and_fill(seed); });
  threads.emplace_back([this] { flush_on(); });
  threads.emplace_back([this] { scan_on(); });
  auto const is_enough = [&] {  // else this shows little
    return scanned_ > 1000 && counters_.hits > 1000 && counters_.invalidated > 100 &&
           counters_.evicted > 100;
  };
  std::this_thread::sleep_for(std::chrono::milliseconds(1500));
  for (int more = 0; more < 12'000 && !is_enough(); ++more)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  stop_ = true;
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong_, 0u);
  EXPECT_TRUE(is_enough()) << scanned_ << " scanned, " << counters_.hits << " hits, "
                           << counters_.invalidated << " invalidated, " << counters_.evicted
                           << " evicted";
}

// What is kept.

class BlockCacheOfOneState : public ::testing::Test {
 protected:
  explicit BlockCacheOfOneState(CacheShape const& shape = {1 << 20, 128})
      : cache_(CacheMemory::map(shape).value(), counters_) {
    static_cast<void>(cache_.ticket(1, BlockCache::kStill));
    ticket_ = cache_.ticket(1, 1).value();
  }
  /// Whether it was there; now it is, if there is room.
  bool read(std::uint64_t key) {
    std::string const text = key_text(key);
    if (look_up(cache_, ticket_, 0, text).is_known()) return true;
    test::insert(cache_, ticket_, 0, text, std::string(100, 'v'));
    return false;
  }

  CacheCounters counters_;
  BlockCache cache_;
  CacheTicket ticket_;
};

TEST_F(BlockCacheOfOneState, PairsThatFitASlotAreKeptAndLargerOnesAreNot) {
  for (std::size_t const size : {0u, 1u, 100u, 104u, 105u, 70'000u}) {
    std::string const key = std::string(13, 'k') + std::to_string(100 + size % 900);
    std::string const value(size, 'v');
    test::insert(cache_, ticket_, 1, key, value);
    auto const looked = look_up(cache_, ticket_, 1, key);
    EXPECT_EQ(looked.found, size <= 104 ? Cached::value : Cached::unknown) << size;
    EXPECT_EQ(looked.value, size <= 104 ? value : "");
  }
  EXPECT_TRUE(cache_.fits(16, 104));
  EXPECT_FALSE(cache_.fits(16, 105));
  EXPECT_FALSE(cache_.fits(0, 121));
}

TEST_F(BlockCacheOfOneState, FamiliesHaveKeysOfTheirOwnAndAbsentKeysAreKnownToBe) {
  test::insert(cache_, ticket_, 1, "key", "one");
  test::insert(cache_, ticket_, 2, "key", std::nullopt);
  EXPECT_EQ(look_up(cache_, ticket_, 1, "key").value, "one");
  EXPECT_EQ(look_up(cache_, ticket_, 2, "key").found, Cached::absent);
  EXPECT_EQ(look_up(cache_, ticket_, 3, "key").found, Cached::unknown);
  EXPECT_EQ(look_up(cache_, ticket_, 1, "").found, Cached::unknown);
  test::insert(cache_, ticket_, 1, "", "of the empty key");
  EXPECT_EQ(look_up(cache_, ticket_, 1, "").value, "of the empty key");
}

/// As a GPU's lane: its loads do not acquire.
struct Lane {
  template <class T>
  static T load(T const* at) {
    return __atomic_load_n(at, __ATOMIC_RELAXED);
  }
  template <class T>
  static void store(T* at, T value) {
    __atomic_store_n(at, value, __ATOMIC_RELAXED);
  }
  void prefetch(std::byte const*, std::size_t) const {}
  void fence() const { std::atomic_thread_fence(std::memory_order_seq_cst); }
};

TEST_F(BlockCacheOfOneState, AMachinesBodyFindsInColumnsWhatTheHostFinds) {
  constexpr std::uint32_t kLanes = 4;
  std::vector<std::uint64_t> keys(103);
  for (std::uint64_t i = 0; i < keys.size(); ++i) keys[i] = i * i;
  for (std::uint64_t i = 0; i < keys.size(); i += 2) {
    std::string const key(reinterpret_cast<char const*>(&keys[i]), 8);
    auto const value = i % 3 == 0 ? std::nullopt : std::optional(std::string(i, 'v'));
    test::insert(cache_, ticket_, 5, key, value);
  }
  exec::ByteColumn const column{reinterpret_cast<std::byte const*>(keys.data()), nullptr, 8};
  std::vector<CacheAnswer> answers(keys.size());
  std::vector<std::uint64_t> values(keys.size() * cache_.value_words());
  CacheLookupBody<Lane, kLanes, exec::ByteColumn> body{cache_.view(), column, keys.size(), 5,
                                                       ticket_.epoch, 1};
  body.answers = answers.data();
  body.values = values.data();
  for (std::size_t group = 0; group * kLanes < keys.size(); ++group) body(group);
  for (std::uint64_t i = 0; i < keys.size(); ++i) {
    auto const host =
        look_up(cache_, ticket_, 5, std::string(reinterpret_cast<char const*>(&keys[i]), 8));
    EXPECT_EQ(answers[i].found, host.found) << i;
    auto const* const at = reinterpret_cast<char const*>(&values[i * cache_.value_words()]);
    EXPECT_EQ(std::string(at, answers[i].size), host.value) << i;
    EXPECT_EQ(is_known(host.found), i % 2 == 0) << i;
  }
}

/// 7,700 ways. 2,000 hot keys are read ten times; a scan reads 100,000 others once each.
TEST_F(BlockCacheOfOneState, AScanDoesNotDriveOutWhatIsReadOften) {
  for (int round = 0; round < 10; ++round)
    for (std::uint64_t key = 0; key < 2000; ++key) read(key);
  for (std::uint64_t key = 0; key < 100'000; ++key) {
    read(1'000'000 + key);
    if (key % 50 == 0)
      for (std::uint64_t i = 0; i < 20; ++i) read((key / 50 * 20 + i) % 2000);
  }
  std::uint64_t left = 0;
  for (std::uint64_t key = 0; key < 2000; ++key)
    left += look_up(cache_, ticket_, 0, key_text(key)).is_known();
  EXPECT_GT(left, 1900u);
}

TEST_F(BlockCacheOfOneState, WhatWasReadOftenOnceGivesWayInTime) {
  for (int round = 0; round < 50; ++round)
    for (std::uint64_t key = 0; key < 6000; ++key) read(key);
  std::uint64_t found = 0, last = 0;
  for (int round = 0; round < 150; ++round, last = std::exchange(found, 0))
    for (std::uint64_t key = 0; key < 6000; ++key) found += read(10'000 + key);
  EXPECT_GT(last, 3500u);
}

// Options.

TEST(BlockCacheShape, SaysWhatIsWrongWithItsSizes) {
  EXPECT_TRUE((CacheShape{0, 1}.check().ok())) << "it is off";
  EXPECT_TRUE((CacheShape{1 << 16, 128}.check().ok()));
  EXPECT_EQ((CacheShape{1000, 128}.check().message()),
            "block_cache_bytes is 1000; give at least 65536, or 0 for no block cache");
  EXPECT_EQ((CacheShape{1 << 16, 1 << 15}.check().message()),
            "block_cache_bytes is 65536; give at least 262208, or 0 for no block cache");
  EXPECT_EQ((CacheShape{1 << 20, 100}.check().message()),
            "block_cache_entry_bytes is 100; give a multiple of 64 from 64 to 32768");
  Status const large = CacheShape{std::uint64_t{1} << 50, 128}.check();
  EXPECT_NE(large.message().find("give less, or 0 for no block cache"), std::string::npos)
      << large.message();
}

TEST(BlockCacheShape, NoMemoryIsAnError) {
  fault::failing_allocation.plant(1);
  auto const memory = CacheMemory::map({1 << 20, 128});
  fault::failing_allocation.plant(0);
  EXPECT_EQ(memory.status().code(), Code::no_space);
}

}  // namespace
}  // namespace perdure::lsm
