// The batch's sort against std::sort: by hash, and by array order where hashes are equal.
#include "exec/sort.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <tuple>
#include <vector>

namespace perdure::exec {
namespace {

bool before(Sorted const& a, Sorted const& b) {
  return std::tie(a.hash, a.index) < std::tie(b.hash, b.index);
}

void check(Workers& workers, std::vector<Sorted> items) {
  std::vector<Sorted> expected = items, spare(items.size());
  std::sort(expected.begin(), expected.end(), before);
  sort_batch(workers, items, spare);
  for (std::size_t i = 0; i < items.size(); ++i) {
    ASSERT_EQ(items[i].hash, expected[i].hash) << "at " << i << " of " << items.size();
    ASSERT_EQ(items[i].index, expected[i].index) << "at " << i << " of " << items.size();
  }
}

TEST(SortBatch, AgreesWithStdSort) {
  std::mt19937_64 random(3);
  for (std::uint32_t const threads : {1u, 2u, 5u}) {
    Workers workers(threads);
    for (std::size_t const n : {0u, 1u, 2u, 31u, 32u, 33u, 1023u, 1024u, 1025u, 5000u, 70'001u}) {
      std::vector<Sorted> spread(n), few(n), one_part(n), equal(n), rising(n);
      for (std::size_t i = 0; i < n; ++i) {
        spread[i] = {i, random()};
        few[i] = {i, (random() % 3) << 62};
        one_part[i] = {i, random() >> 8};
        equal[i] = {i, 7};
        rising[i] = {i, i << 40};
      }
      for (auto const& items : {spread, few, one_part, equal, rising}) {
        ASSERT_NO_FATAL_FAILURE(check(workers, items)) << n << " items, " << threads << " threads";
      }
    }
  }
}

TEST(SortWords, OnAllWorkersAgreesWithStdSort) {
  std::mt19937_64 random(4);
  for (std::uint32_t const threads : {1u, 2u, 5u}) {
    Workers workers(threads);
    for (std::size_t const n : {0u, 1u, 2u, 1023u, 1024u, 1025u, 70'001u}) {
      for (std::uint32_t const bits : {1u, 8u, 9u, 40u, 64u}) {
        std::vector<std::uint64_t> words(n), spare(n);
        for (std::uint64_t& word : words) word = random() >> (64 - bits);
        std::vector<std::uint64_t> expected = words;
        std::sort(expected.begin(), expected.end());
        sort_words(workers, words, spare, bits);
        ASSERT_EQ(words, expected)
            << n << " words of " << bits << " bits, " << threads << " threads";
      }
    }
  }
}

}  // namespace
}  // namespace perdure::exec
