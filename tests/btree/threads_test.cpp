// A B+-tree by several threads: each knows what its own keys hold; scans see every key that stays,
// once, while others split and merge what they walk over.
#include <gtest/gtest.h>

#include <atomic>
#include <random>
#include <thread>

#include "base/sanitizer.hpp"
#include "trees.hpp"

namespace perdure::btree {
namespace {

constexpr int kSteps = kThreadSanitizer ? 4000 : 40000;

/// Writes and erases keys of its own, in waves, so that leaves split and merge.
template <class Kind>
bool works(TreeOf<Kind>& t, std::uint64_t me, std::uint64_t threads, std::uint64_t keys) {
  std::mt19937_64 draw(me);
  Model mine;
  auto const expected = [&](std::string const& key) {
    return mine.contains(key) ? std::optional(mine[key]) : std::nullopt;
  };
  for (int i = 0; i < kSteps; ++i) {
    std::string const key = Kind::key(draw() % keys * threads + me);
    std::uint64_t const value = draw();
    if (bool const grows = i / (kSteps / 4) % 2 == 0; draw() % 16 == 0 || (grows && draw() % 4)) {
      if (t.write(key, value, Write::put) != Answer::done) return false;
      mine[key] = value;
    } else if (t.erase(key) != (mine.erase(key) != 0 ? Answer::done : Answer::not_found)) {
      return false;
    }
    std::string const look = Kind::key(draw() % keys * threads + me);
    if (t.get(look) != expected(look)) return false;
    if (i % 16 == 0 && t.get(std::vector{look, key})[0] != expected(look)) return false;
    static_cast<void>(t.get(Kind::key(draw() % (keys * threads))));
  }
  for (auto const& [key, value] : mine)
    if (t.get(key) != value) return false;
  return true;
}

template <class Kind>
void work_side_by_side() {
  TreeOf<Kind> t;
  constexpr std::uint64_t kThreads = 4, kKeys = 2000;
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (std::uint64_t me = 0; me < kThreads; ++me)
    threads.emplace_back([&, me] { wrong += !works(t, me, kThreads, kKeys); });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}
TEST(BTree, ThreadsWriteAndReadSideBySide) { work_side_by_side<Words>(); }
TEST(BTree, ThreadsWriteAndReadRecordsSideBySide) { work_side_by_side<Records>(); }

/// Every eighth key stays. A scan sees those once each, and all keys in their order.
template <class Kind>
bool scan_is_right(TreeOf<Kind>& t, bool up, std::map<std::string, std::uint64_t> const& staying) {
  auto const pairs = t.scan(up, nullptr, true, ~std::size_t{0});
  std::size_t stayed = 0;
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    stayed += staying.contains(pairs[i].first);
    if (i == 0) continue;
    bool const rises = pairs[i - 1].first < pairs[i].first;
    if (rises != up || pairs[i - 1].first == pairs[i].first) return false;
  }
  return stayed == staying.size();
}

template <class Kind>
void scan_beside_writers() {
  TreeOf<Kind> t;
  constexpr std::uint64_t kKeys = 3000;
  Model staying;
  for (std::uint64_t k = 0; k < kKeys; k += 8) staying[Kind::key(k)] = k;
  for (auto const& [key, value] : staying) t.write(key, value, Write::put);
  std::atomic<bool> done{false};
  std::atomic<int> wrong{0};
  std::thread scanner([&] {
    for (bool up = true; !done; up = !up) wrong += !scan_is_right(t, up, staying);
  });
  std::mt19937_64 draw(7);
  for (int wave = 0; wave < (kThreadSanitizer ? 2 : 10); ++wave) {
    for (std::uint64_t i = 0; i < kKeys * 2; ++i)
      if (std::uint64_t const k = draw() % kKeys; k % 8 != 0) t.write(Kind::key(k), k, Write::put);
    for (std::uint64_t k = 0; k < kKeys; ++k)
      if (k % 8 != 0) t.erase(Kind::key(k));
  }
  done = true;
  scanner.join();
  EXPECT_EQ(wrong, 0);
}
TEST(BTree, ScansSeeWhatStaysWhileOthersSplitAndMerge) { scan_beside_writers<Words>(); }
TEST(BTree, ScansOfRecordsSeeWhatStaysWhileOthersSplitAndMerge) { scan_beside_writers<Records>(); }

TEST(BTree, OneThreadEmptiesTheTreeWhileAnotherFillsIt) {
  TreeOf<Words> t;
  std::atomic<int> wrong{0};
  auto const fill_and_empty = [&](std::uint64_t half) {
    for (int round = 0; round < (kThreadSanitizer ? 3 : 30); ++round) {
      for (std::uint64_t k = 0; k < 3000; ++k)
        wrong += t.write(Words::key_of(2 * k + half, 0), ~k, Write::put) != Answer::done;
      for (std::uint64_t k = 0; k < 3000; ++k) wrong += t.get(Words::key_of(2 * k + half, 0)) != ~k;
      for (std::uint64_t k = 0; k < 3000; ++k)
        wrong += t.erase(Words::key_of(2 * k + half, 0)) != Answer::done;
    }
  };
  std::thread other(fill_and_empty, 1);
  fill_and_empty(0);
  other.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_TRUE(t.scan(true, nullptr, true, 1).empty());
  EXPECT_LE(t.shape().leaves, 2u);
}

}  // namespace
}  // namespace perdure::btree
