// The generator against theory: frequencies, shares of operations, versions, and sameness by seed.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <vector>

#include "ycsb.hpp"

namespace perdure::bench {
namespace {

constexpr std::size_t kDraws = 400'000;

std::vector<Request> requests(Workload workload, std::uint64_t records, double theta,
                              std::uint64_t seed, std::size_t count = kDraws) {
  RequestStream stream(workload, records, theta, seed);
  std::vector<Request> all(count);
  stream.fill(all);
  return all;
}

double share(std::vector<Request> const& all, Action action) {
  auto const count =
      std::count_if(all.begin(), all.end(), [=](Request const& r) { return r.action == action; });
  return static_cast<double>(count) / static_cast<double>(all.size());
}

/// Six standard deviations of a share p among kDraws: a wrong generator is further off, a right one
/// practically never.
double slack(double p) { return 6 * std::sqrt(p * (1 - p) / kDraws) + 1e-9; }

double zeta(std::uint64_t n, double theta) {
  double sum = 0;
  for (std::uint64_t i = 1; i <= n; ++i) sum += std::pow(static_cast<double>(i), -theta);
  return sum;
}

TEST(RequestStream, GivesTheSameAtOnceAsOneByOne) {
  for (Workload const workload : {Workload::a, Workload::c, Workload::d, Workload::f}) {
    auto const at_once = requests(workload, 5000, 0.9, 3, 70'000);
    RequestStream stream(workload, 5000, 0.9, 3);
    for (Request const& expected : at_once) {
      Request one;
      stream.fill({&one, 1});
      ASSERT_EQ(one.id, expected.id) << name(workload);
      ASSERT_EQ(one.version, expected.version) << name(workload);
      ASSERT_EQ(one.action, expected.action) << name(workload);
    }
  }
}

TEST(Zipf, TwoHighestRanksAreExact) {
  for (double const theta : {0.5, 0.9, 0.99}) {
    Zipf const zipf(10'000, theta);
    Random random(1);
    std::size_t first = 0;
    std::size_t second = 0;
    for (std::size_t i = 0; i < kDraws; ++i) {
      std::uint64_t const rank = zipf(random);
      first += rank == 0 ? 1 : 0;
      second += rank == 1 ? 1 : 0;
    }
    double const p0 = 1 / zeta(10'000, theta);
    double const p1 = std::pow(0.5, theta) * p0;
    EXPECT_NEAR(static_cast<double>(first) / kDraws, p0, slack(p0)) << "theta " << theta;
    EXPECT_NEAR(static_cast<double>(second) / kDraws, p1, slack(p1)) << "theta " << theta;
  }
}

TEST(Zipf, MassFollowsTheDistribution) {
  constexpr std::uint64_t n = 100'000;
  for (double const theta : {0.5, 0.99}) {
    Zipf const zipf(n, theta);
    std::vector<std::uint64_t> ranks(kDraws);
    Random random(2);
    std::generate(ranks.begin(), ranks.end(), [&] { return zipf(random); });
    for (std::uint64_t const k : {10u, 100u, 1'000u, 10'000u, 50'000u}) {
      auto const below_k =
          std::count_if(ranks.begin(), ranks.end(), [=](std::uint64_t r) { return r < k; });
      double const seen = static_cast<double>(below_k) / kDraws;
      EXPECT_NEAR(seen, zipf.mass_below(k), slack(seen))
          << "theta " << theta << ", ranks below " << k;
      // Gray et al.'s continuous form is off by a few per cent of the true mass near the top.
      EXPECT_NEAR(seen, zeta(k, theta) / zeta(n, theta), 0.03)
          << "theta " << theta << ", ranks below " << k;
    }
    EXPECT_LT(*std::max_element(ranks.begin(), ranks.end()), n);
  }
}

TEST(Zipf, ThetaZeroIsUniform) {
  constexpr std::uint64_t n = 100;
  Zipf const zipf(n, 0);
  Random random(3);
  std::vector<double> seen(n, 0);
  for (std::size_t i = 0; i < kDraws; ++i) seen[zipf(random)] += 1.0 / kDraws;
  for (double const p : seen) EXPECT_NEAR(p, 1.0 / n, slack(1.0 / n));
}

TEST(Zipf, GrowingGivesTheSameAsStartingLarge) {
  Zipf grown(10, 0.99);
  for (std::uint64_t n = 11; n <= 5'000; ++n) grown.grow(n);
  Zipf const large(5'000, 0.99);
  EXPECT_NEAR(grown.zeta(), large.zeta(), 1e-9);
  Random a(4);
  Random b(4);
  for (int i = 0; i < 10'000; ++i) ASSERT_EQ(grown(a), large(b));
}

TEST(Zipf, SmallPopulationsStayInRange) {
  for (std::uint64_t n = 1; n <= 5; ++n) {
    Zipf const zipf(n, 0.99);
    Random random(n);
    std::set<std::uint64_t> seen;
    for (int i = 0; i < 5'000; ++i) seen.insert(zipf(random));
    EXPECT_EQ(seen.size(), n);
    EXPECT_LT(*seen.rbegin(), n);
  }
}

TEST(Zipf, RefusesWhatItCannotDraw) {
  EXPECT_THROW(Zipf(10, 1.0), std::invalid_argument);
  EXPECT_THROW(Zipf(10, -0.1), std::invalid_argument);
  EXPECT_THROW(Zipf(0, 0.5), std::invalid_argument);
}

TEST(Scramble, IsOneToOneAndSpreads) {
  for (std::uint64_t const n : {1u, 2u, 3u, 64u, 1'000u, 4'097u, 65'536u}) {
    Scramble const scramble(n);
    std::vector<bool> seen(n, false);
    for (std::uint64_t rank = 0; rank < n; ++rank) {
      std::uint64_t const id = scramble(rank);
      ASSERT_LT(id, n);
      ASSERT_FALSE(seen[id]) << "n " << n << ", rank " << rank;
      seen[id] = true;
    }
  }
  Scramble const scramble(1'000'000);
  auto const gap = static_cast<std::int64_t>(scramble(1)) - static_cast<std::int64_t>(scramble(0));
  EXPECT_GT(std::abs(gap), 100'000);
}

TEST(Workload, SharesOfOperations) {
  struct Case {
    Workload workload;
    double writes;
    double read_modify_writes;
  };
  for (Case const c :
       {Case{Workload::load, 1, 0}, Case{Workload::a, 0.5, 0}, Case{Workload::b, 0.05, 0},
        Case{Workload::c, 0, 0}, Case{Workload::d, 0.05, 0}, Case{Workload::e, 0.05, 0},
        Case{Workload::f, 0, 0.5}}) {
    auto const all = requests(c.workload, 10'000, 0.99, 5);
    EXPECT_NEAR(share(all, Action::write), c.writes, slack(c.writes)) << name(c.workload);
    EXPECT_NEAR(share(all, Action::read_modify_write), c.read_modify_writes,
                slack(c.read_modify_writes))
        << name(c.workload);
  }
}

TEST(Workload, LoadInsertsEachRecordOnce) {
  auto const all = requests(Workload::load, 1'000, 0.99, 6, 1'000);
  for (std::size_t i = 0; i < all.size(); ++i) EXPECT_EQ(all[i].id, i);
}

TEST(Workload, HottestRecordHasTheShareOfRankZero) {
  auto const all = requests(Workload::c, 10'000, 0.99, 7);
  std::map<std::uint64_t, std::size_t> count;
  for (Request const& r : all) ++count[r.id];
  auto const hottest = std::max_element(count.begin(), count.end(),
                                        [](auto& a, auto& b) { return a.second < b.second; });
  double const p0 = 1 / zeta(10'000, 0.99);
  EXPECT_NEAR(static_cast<double>(hottest->second) / kDraws, p0, slack(p0));
  EXPECT_EQ(hottest->first, Scramble(10'000)(0));
}

TEST(Workload, DReadsTheLatest) {
  constexpr std::uint64_t records = 10'000;
  auto const all = requests(Workload::d, records, 0.99, 8);
  std::uint64_t now = records;
  std::size_t reads = 0;
  std::size_t newest = 0;
  std::size_t latest_hundred = 0;
  for (Request const& r : all) {
    if (r.action == Action::write) {
      ASSERT_EQ(r.id, now) << "inserts are new records, in order";
      ++now;
      continue;
    }
    ASSERT_LT(r.id, now) << "a read of a record that is not there yet";
    ++reads;
    newest += r.id + 1 == now ? 1 : 0;
    latest_hundred += r.id + 100 >= now ? 1 : 0;
  }
  EXPECT_GT(now, records + kDraws / 25);
  // The population grows from `records` to `now`, so the share lies between the two theoretical
  // ones.
  double const seen = static_cast<double>(newest) / static_cast<double>(reads);
  EXPECT_LT(seen, 1 / zeta(records, 0.99) + slack(seen));
  EXPECT_GT(seen, 1 / zeta(now, 0.99) - slack(seen));
  EXPECT_GT(static_cast<double>(latest_hundred) / static_cast<double>(reads), 0.4);
}

TEST(Workload, EScansUniformLengthsFromLoadedRecords) {
  constexpr std::uint64_t records = 10'000;
  auto const all = requests(Workload::e, records, 0.99, 12);
  std::uint64_t now = records;
  std::map<std::uint16_t, std::size_t> lengths;
  std::map<std::uint64_t, std::size_t> firsts;
  for (Request const& r : all) {
    if (r.action == Action::write) {
      ASSERT_EQ(r.id, now++) << "inserts are new records, in order";
      continue;
    }
    ASSERT_EQ(r.action, Action::scan);
    ASSERT_LT(r.id, records);
    ++lengths[r.length];
    ++firsts[r.id];
  }
  EXPECT_EQ(lengths.begin()->first, 1);
  EXPECT_EQ(lengths.rbegin()->first, kLongestScan);
  double const scans = kDraws - static_cast<double>(now - records);
  for (auto const& [length, count] : lengths)
    EXPECT_NEAR(static_cast<double>(count) / scans, 0.01, slack(0.01)) << "length " << length;
  double const p0 = 1 / zeta(records, 0.99);
  EXPECT_NEAR(static_cast<double>(firsts[Scramble(records)(0)]) / scans, p0, slack(p0));
}

TEST(Workload, VersionsFollowTheWritesInOrder) {
  for (Workload const workload : {Workload::a, Workload::f}) {
    RequestStream stream(workload, 100, 0.99, 9);
    std::vector<Request> all(10'000);
    stream.fill(all);
    std::vector<std::uint32_t> version(100, 0);
    for (Request const& r : all) {
      if (r.action != Action::read) ++version[r.id];
      ASSERT_EQ(r.version, version[r.id]);
    }
    for (std::uint64_t id = 0; id < 100; ++id) EXPECT_EQ(stream.version(id), version[id]);
  }
}

TEST(Workload, ARestartDrawsTheSameRecordsAndGoesOnFromTheirVersions) {
  for (Workload const workload : {Workload::a, Workload::c, Workload::f}) {
    RequestStream stream(workload, 100, 0.99, 9);
    std::vector<Request> first(10'000);
    stream.fill(first);
    std::vector<std::uint32_t> left(100);
    for (std::uint64_t id = 0; id < 100; ++id) left[id] = stream.version(id);
    stream.restart();
    std::vector<Request> again(10'000);
    stream.fill(again);
    for (std::size_t i = 0; i < first.size(); ++i) {
      ASSERT_EQ(again[i].id, first[i].id) << name(workload);
      ASSERT_EQ(again[i].action, first[i].action) << name(workload);
      ASSERT_EQ(again[i].version, first[i].version + left[again[i].id]) << name(workload);
    }
    for (std::uint64_t id = 0; id < 100; ++id) EXPECT_EQ(stream.version(id), 2 * left[id]);
  }
}

TEST(Workload, SameSeedSameRequests) {
  auto const same = [](Request const& a, Request const& b) {
    return a.id == b.id && a.version == b.version && a.action == b.action && a.length == b.length;
  };
  for (Workload const workload : {Workload::a, Workload::d, Workload::e, Workload::f}) {
    auto const first = requests(workload, 1'000, 0.99, 10, 5'000);
    auto const again = requests(workload, 1'000, 0.99, 10, 5'000);
    auto const other = requests(workload, 1'000, 0.99, 11, 5'000);
    EXPECT_TRUE(std::equal(first.begin(), first.end(), again.begin(), same));
    EXPECT_FALSE(std::equal(first.begin(), first.end(), other.begin(), same));
  }
}

TEST(Workload, HasAName) {
  for (char const* each : {"load", "a", "b", "c", "d", "e", "f"})
    EXPECT_EQ(name(workload_named(each)), each);
  EXPECT_THROW((void)workload_named("g"), std::invalid_argument);
}

}  // namespace
}  // namespace perdure::bench
