// Litmus tests see what they are there to see: faults are planted in what threads do, and in what a
// pass leaves behind.
#include "perdure/litmus.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <thread>
#include <vector>

#include "exec/cpu/cpu_lanes.hpp"
#include "measure/litmus_cases.hpp"
#include "measure/litmus_counts.hpp"
#include "measure/litmus_runner.hpp"

namespace perdure::measure {
namespace {

using exec::CpuLanes;
using exec::Order;
using exec::Scope;
using enum SideOf;

LitmusCase of(LitmusTest const& test, Order order) {
  return {&test, {cpu, cpu, cpu, cpu}, order, Scope::system};
}

std::unique_ptr<LitmusRunner> runner() {
  auto made = LitmusRunner::make(nullptr, LitmusMemory::pinned);
  EXPECT_TRUE(made.ok()) << made.status().message();
  return std::move(*made);
}

/// A pass of two threads over all cells once, with nothing seen yet.
struct Notes {
  explicit Notes(LitmusTest const& test)
      : x(kRing * exec::kLanes * kWordStride), y(x.size()), met(kMostThreads * kMetStride) {
    pass.threads = test.threads;
    pass.teams = 1;
    pass.groups = kRing;
    seen.resize(pass.runs() * pass.threads);
    std::copy(test.steps.begin(), test.steps.end(), pass.steps);
    pass.x = x.data(), pass.y = y.data(), pass.met = met.data(), pass.seen = seen.data();
    pass.stop = &stop;
  }
  std::uint32_t& saw(std::uint32_t thread, std::uint64_t run) {
    return seen[thread * pass.runs() + run];
  }
  LitmusPass pass;
  std::uint32_t stop = 0;
  std::vector<std::uint32_t> x, y, met, seen;
};

/// The host's lanes, which let other threads run after each store: as if stores took long.
class SlowLanes : public CpuLanes {
 public:
  template <Order kOrder>
  static void store(std::uint32_t* at, std::uint32_t value) {
    CpuLanes::store<kOrder>(at, value);
    std::this_thread::yield();
  }
};

/// The forbidden outcomes of message passing that two threads see with these steps.
std::uint64_t seen_of(LitmusTest const& test) {
  Notes notes(test);
  notes.pass.order = Order::sequential;
  notes.pass.groups = 16;
  std::thread writer([&] { run_thread(SlowLanes{}, notes.pass, 0, 0); });
  run_thread(CpuLanes{}, notes.pass, 0, 1);
  writer.join();
  EXPECT_EQ(notes.stop, 0u) << "one of them did not come";
  return count_seen(test, notes.pass);
}

TEST(Litmus, StoresInTheWrongOrderAreSeenByTheirReader) {
  std::uint64_t seen = 0;
  for (int i = 0; i < 100 && seen == 0; ++i) {
    EXPECT_EQ(seen_of(kMessagePassing), 0u);
    seen = seen_of(kCanary);
  }
  EXPECT_GT(seen, 0u) << "the reader never came between the two stores";
}

TEST(Litmus, NothingIsSeenOfWhatTheProcessorForbids) {
  auto const run = runner();
  for (LitmusTest const* test : {&kMessagePassing, &kLoadBuffering, &kIndependentReads, &kAdd,
                                 &kCas, &kSwap, &kStoreBuffering}) {
    auto counted = run->run(of(*test, Order::sequential), 20'000, 2);
    ASSERT_TRUE(counted.ok()) << counted.status().message();
    EXPECT_EQ(counted->seen, 0u) << test->name;
    EXPECT_GT(counted->runs, 0u) << test->name;
  }
}

TEST(Litmus, AThreadEndsWhoseOthersDoNotCome) {
  Notes notes(kMessagePassing);
  notes.stop = 1;
  run_thread(CpuLanes{}, notes.pass, 0, 1);
  EXPECT_EQ(notes.met[kMetStride], 1u) << "it came to the first group, and to no other";
}

TEST(Litmus, TheForbiddenOutcomeIsCountedAndNoOther) {
  for (LitmusTest const* test :
       {&kMessagePassing, &kStoreBuffering, &kLoadBuffering, &kIndependentReads}) {
    Notes notes(*test);
    for (std::uint64_t run = 0; run < notes.pass.runs(); ++run)
      for (std::uint32_t i = 0; i < test->threads; ++i)
        notes.saw(i, run) = i + 1 == test->threads ? test->forbidden[i] ^ 0b11 : test->forbidden[i];
    EXPECT_EQ(count_seen(*test, notes.pass), 0u) << test->name << ": one thread saw another thing";
    notes.saw(test->threads - 1, 77) ^= 0b11;
    EXPECT_EQ(count_seen(*test, notes.pass), 1u) << test->name;
  }
}

TEST(Litmus, ALostUpdateIsCounted) {
  Notes notes(kAdd);
  std::fill(notes.seen.begin(), notes.seen.end(), 1);
  for (std::uint64_t cell = 0; cell < kRing * exec::kLanes; ++cell) notes.x[cell * kWordStride] = 2;
  EXPECT_EQ(count_seen(kAdd, notes.pass), 0u);
  notes.x[5 * kWordStride] = 1;  // both read 0, and both stored 1
  EXPECT_EQ(count_seen(kAdd, notes.pass), 1u);
}

TEST(Litmus, ASwappedTokenThatIsLostAndOneThatIsFoundTwiceAreCounted) {
  Notes notes(kSwap);
  std::uint64_t const runs = notes.pass.runs();
  for (std::uint64_t run = 0; run < runs; ++run) {  // thread 0 before thread 1, everywhere
    auto const token = static_cast<std::uint32_t>(run * 2 + 1);
    notes.saw(0, run) = 0;
    notes.saw(1, run) = token;
    notes.x[run * kWordStride] = token + 1;
  }
  EXPECT_EQ(count_seen(kSwap, notes.pass), 0u);
  notes.saw(1, 9) = notes.saw(1, 8);
  EXPECT_EQ(count_seen(kSwap, notes.pass), 2u);
}

TEST(Litmus, EachPairOfSidesHasACanaryThatNobodyReliesOn) {
  std::vector<std::string> sides;
  for (LitmusCase const& one : litmus_cases(true)) {
    if (one.test != &kCanary) continue;
    sides.push_back(one.shown_sides());
    EXPECT_TRUE(one.allowed(true) && !one.relied_on()) << one.shown_sides();
  }
  EXPECT_EQ(sides,
            (std::vector<std::string>{"cpu -> cpu", "cpu -> gpu", "gpu -> cpu", "gpu -> gpu"}));
}

TEST(Litmus, NothingIsReliedOnThatTheModelAllowsToFail) {
  int relied = 0;
  for (LitmusCase const& one : litmus_cases(true)) {
    if (!one.relied_on()) continue;
    ++relied;
    EXPECT_FALSE(one.allowed(false)) << one.test->name << " " << one.shown_sides();
  }
  EXPECT_GE(relied, 7);
}

TEST(Litmus, AGpuIsNeverNamedWhereNoneWasTested) {
  auto report = litmus({.runs = 100, .seconds = 1});
  ASSERT_TRUE(report.ok()) << report.status().message();
  EXPECT_TRUE(report->sound);
  EXPECT_NE(report->gpu.empty(), report->why_no_gpu.empty());
  for (LitmusLine const& line : report->lines) {
    EXPECT_GE(line.runs, 100u) << line.test;
    EXPECT_TRUE(!report->gpu.empty() || line.sides.find("gpu") == std::string::npos) << line.sides;
  }
}

TEST(Litmus, ItStopsBetweenTwoTests) {
  int asked = 0;
  auto const report = litmus({.runs = 100, .seconds = 1}, [&](double) { return ++asked < 3; });
  EXPECT_EQ(report.status().code(), Code::stopped);
  EXPECT_EQ(asked, 3);
}

}  // namespace
}  // namespace perdure::measure
