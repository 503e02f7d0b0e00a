// The map of free records that a machine keeps, against a set of free records: what is taken is
// free and then is not, and taking goes on around the map from where it ended.
#include "store/gphash/kernels/record_map.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <set>
#include <span>
#include <vector>

#include "support/sanitized.hpp"

namespace perdure {
namespace {

using test::kSanitized;

template <class T>
struct PlainBuffer {
  std::vector<T> items;
  Status resize(std::size_t n) {
    items.resize(std::max(n, items.size()));
    return {};
  }
  [[nodiscard]] T* data() { return items.data(); }
};

/// What take_records() asks of a machine, one element after the other.
template <bool kLaunchesInChains>
struct PlainMachine {
  template <class T>
  using Buffer = PlainBuffer<T>;
  static constexpr bool kChains = kLaunchesInChains;
  template <class F>
  Status threads(std::size_t n, F body) {
    for (std::size_t i = 0; i < n; ++i) body(i);
    return {};
  }
  Status sums_before(std::uint32_t const* in, std::uint32_t* out, std::size_t n) {
    std::exclusive_scan(in, in + n, out, std::uint32_t{0});
    return {};
  }
  template <class T>
  Status copy(T* to, T const* from, std::size_t n) {
    std::copy_n(from, n, to);
    return {};
  }
  template <class T>
  Result<std::span<T const>> fetch(Buffer<T> const& from, std::size_t n) {
    return std::span<T const>(from.items).first(n);
  }
};

constexpr std::uint64_t kSuperblocks = 5;

class Records {
 public:
  /// `whole`: the machine looks at the whole map each time.
  explicit Records(bool whole = false) : whole_(whole) {
    map.shape.superblock_bytes = 1u << 17;
    map.stride = 64;
    std::uint64_t const capacity = map.shape.capacity(map.stride);
    map.words_each = (capacity + 63) / 64 * 2;
    map.superblocks = kSuperblocks;
    bits_.assign(map.words(), ~0u);
    map.bits = bits_.data();
    map.leased = leased_;
    map.next = next_;
    for (std::uint64_t s = 1; s < kSuperblocks; ++s)
      for (std::uint64_t i = 0; i < capacity; ++i)
        give(s * map.shape.superblock_bytes + map.shape.address(map.stride, i));
  }

  void give(std::uint64_t record) {
    std::uint64_t word = 0;
    std::uint32_t bit = 0;
    ASSERT_TRUE(map.locate(record, word, bit));
    bits_[word] &= ~bit;
    free.insert(record);
  }

  /// Whether so many were free; then they are no more.
  bool take(std::uint64_t n, std::vector<std::uint64_t>& taken) {
    PlainMachine<true> whole;
    PlainMachine<false> in_parts;
    auto const done = whole_ ? take_records(whole, map, at_least_, n, counts_, before_, into_)
                             : take_records(in_parts, map, at_least_, n, counts_, before_, into_);
    EXPECT_TRUE(done.status().ok());
    at_least_ = 0;  // so that it counts
    if (!done.value()) return false;
    taken.assign(into_.items.begin(), into_.items.begin() + static_cast<std::ptrdiff_t>(n));
    for (std::uint64_t const record : taken)
      EXPECT_EQ(free.erase(record), 1u) << record << " was not free";
    return true;
  }

  RecordMap map;
  std::set<std::uint64_t> free;

 private:
  bool whole_;
  std::vector<std::uint32_t> bits_;
  std::uint8_t leased_[kSuperblocks] = {0, 1, 1, 1, 1};
  std::uint64_t next_[2] = {};
  std::uint64_t at_least_ = 0;
  PlainBuffer<std::uint32_t> counts_, before_;
  PlainBuffer<std::uint64_t> into_;
};

TEST(RecordMap, WhatIsTakenWasFreeAndAllThatIsFreeCanBeTaken) {
  std::mt19937_64 random(11);
  for (int run = 0; run < (kSanitized ? 6 : 20); ++run) {
    Records records(run % 2 == 0);
    std::vector<std::uint64_t> taken, in_use;
    for (int step = 0; step < 200; ++step) {
      std::uint64_t const n = random() % 2400;
      bool const enough = records.free.size() >= n;
      ASSERT_EQ(records.take(n, taken), enough) << n << " of " << records.free.size();
      if (enough) in_use.insert(in_use.end(), taken.begin(), taken.end());
      std::ranges::shuffle(in_use, random);
      for (std::uint64_t back = random() % (in_use.size() + 1); back > 0; --back) {
        records.give(in_use.back());
        in_use.pop_back();
      }
    }
    ASSERT_TRUE(records.take(records.free.size(), taken));
    EXPECT_TRUE(records.free.empty());
  }
}

TEST(RecordMap, TakesWhatIsLeftFarFromWhereTakingGoesOn) {
  for (bool const whole : {false, true}) {
    Records records(whole);
    std::vector<std::uint64_t> all, taken;
    ASSERT_TRUE(records.take(records.free.size(), all));
    std::vector<std::uint64_t> const few{all[all.size() / 2], all[all.size() / 2 + 700]};
    for (std::uint64_t const record : few) records.give(record);
    EXPECT_FALSE(records.take(3, taken));
    ASSERT_TRUE(records.take(2, taken));
    EXPECT_EQ(taken, few);
  }
}

TEST(RecordMap, TakingGoesOnBehindWhatWasTakenThoughOthersAreFreeBeforeIt) {
  Records records;
  std::vector<std::uint64_t> first, second, rest;
  ASSERT_TRUE(records.take(100, first));
  for (std::uint64_t const record : first) records.give(record);
  ASSERT_TRUE(records.take(100, second));
  // Taking goes on in the word that gave the last record, which has some of the first again.
  std::uint64_t const again =
      std::ranges::count_if(second, [&](std::uint64_t record) { return record <= first.back(); });
  EXPECT_LT(again, 32u);
  EXPECT_GT(second.back(), first.back());
  ASSERT_TRUE(records.take(records.free.size(), rest));
  EXPECT_LT(rest.back(), second.front());  // it ends with those before, around the map
}

}  // namespace
}  // namespace perdure
