// The engine of sorted runs against a plain map of versions, on each machine.
#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <thread>

#include "fault/planted_faults.hpp"
#include "rocks/engine_runs.hpp"
#include "rocks/two_sides.hpp"

namespace perdure::lsm {
namespace {

Result<std::unique_ptr<Engine>> make_engine(std::string const& machine, exec::Workers& workers,
                                            EngineOptions const& options = {}) {
  if (machine == "cuda") return make_cuda_engine(workers, options);
  if (machine == "both_cuda") return make_two_sided_engine(workers, options);
  if (machine == "both_cpu") return std::unique_ptr<Engine>(make_two_cpu_sides(workers, options));
  return make_cpu_engine(workers, options);
}

class LsmEngine : public testing::TestWithParam<char const*> {
 protected:
  void SetUp() override {
    auto engine = make_engine(GetParam(), workers_);
    if (!engine && engine.status().code() == Code::unsupported)
      GTEST_SKIP() << "no GPU to run on: " << engine.status().message();
    ASSERT_TRUE(engine.ok()) << engine.status().message();
    engine_ = std::move(engine.value());
  }
  exec::Workers workers_{2};
  std::unique_ptr<Engine> engine_;
};

INSTANTIATE_TEST_SUITE_P(Machines, LsmEngine,
                         testing::Values("cpu", "cuda", "both_cpu", "both_cuda"),
                         [](auto const& machine) { return std::string(machine.param); });

std::string fixed_key(std::uint32_t n, std::uint32_t width) {
  std::string key(width, '\0');
  for (std::uint32_t i = 0; i < width; ++i) key[i] = static_cast<char>(n >> (i % 3) & 1 ? 0x90 : 7);
  if (width > 0) key[width - 1] = static_cast<char>(n);
  return key;
}

/// All over the place, in one width.
std::string spread_key(std::uint32_t n, std::uint32_t width) {
  std::string key(width, '=');
  std::uint64_t const word = n * 0x9e3779b97f4a7c15u;
  memcpy(key.data() + (width - 8) / 2, &word, 8);
  return key;
}

struct Case {
  std::uint32_t width;  // of keys; 0: of several lengths
  [[nodiscard]] std::string key(std::uint32_t n) const {
    return width == 0 ? tricky_key(n) : fixed_key(n, width);
  }
};

std::string any_value(std::size_t size) {
  std::string value(size, '\0');
  std::uint64_t word = *rc::gen::arbitrary<std::uint64_t>();
  for (char& byte : value) byte = static_cast<char>((word = word * 6364136223846793005u + 1) >> 56);
  return value;
}

/// `value_size`: of all values; 0: they have several.
std::vector<Write> any_batch(Case const& keys, std::size_t value_size) {
  auto const n = *rc::gen::weightedOneOf<std::size_t>(
      {{3, rc::gen::inRange<std::size_t>(0, 4)}, {5, rc::gen::inRange<std::size_t>(4, 120)}});
  std::vector<Write> writes;
  bool const all_puts = *rc::gen::arbitrary<bool>();
  for (std::size_t i = 0; i < n; ++i) {
    Write write;
    write.key = keys.key(*rc::gen::inRange(0u, 64u));
    if (!all_puts) write.kind = *rc::gen::element(Kind::put, Kind::erase, Kind::merge, Kind::merge);
    write.value = any_value(value_size != 0 ? value_size : *rc::gen::inRange<std::size_t>(0, 9));
    writes.push_back(write);
  }
  return writes;
}

/// Each probe begins some range, and ends another one.
void any_ranges(Runs const& runs, std::vector<std::string> const& probes) {
  std::vector<std::string> ends = probes;
  std::ranges::reverse(ends);
  auto const with_erased = *rc::gen::arbitrary<bool>();
  for (RequestId const limit : {kNewest, *rc::gen::inRange<RequestId>(0, runs.next() + 2)}) {
    for (std::uint64_t const most : {0ull, 1ull, 5ull, 40ull, ~0ull}) {
      runs.check_ranges(probes, ends, limit, most, with_erased);
      runs.check_ranges(probes, {}, limit, most, !with_erased);
    }
  }
}

/// Batches have values of `size` bytes mostly, and some of several sizes or of another one.
std::size_t any_size_of_batch(std::size_t size) {
  return *rc::gen::weightedElement<std::size_t>({{8, size}, {1, 0}, {1, 16}});
}

/// What the engine keeps inside is what the option allows, and comes with its answers.
void any_rows(Engine& engine, EngineOptions const& options) {
  Case const keys{*rc::gen::element(0u, 1u, 8u, 16u)};
  auto const size = *rc::gen::oneOf(rc::gen::inRange<std::size_t>(0, 201),
                                    rc::gen::element<std::size_t>(8, 9, 16, 100, 104));
  Runs runs(engine, options);
  auto const steps = *rc::gen::inRange(1, 7);
  for (int step = 0; step < steps; ++step) {
    auto const size_here = any_size_of_batch(size);
    auto const as = *rc::gen::element(
        Runs::Values::each, Runs::Values::words, Runs::Values::record, Runs::Values::column,
        size_here != 0 ? Runs::Values::fixed_column : Runs::Values::column);
    runs.write(any_batch(keys, size_here), false, *rc::gen::element(1, 3), as);
    if (*rc::gen::inRange(0, 3) != 0) continue;
    auto const last = *rc::gen::inRange<std::size_t>(1, runs.list().size() + 1);
    runs.merge(*rc::gen::inRange<std::size_t>(0, last), last);
  }
  std::vector<std::string> probes{"zzz"};
  for (std::uint32_t n = 0; n < 64; ++n) probes.push_back(keys.key(n));
  std::vector<std::string> const few{probes[0], probes[1], probes[20]};
  std::vector<RequestId> each(probes.size());
  for (std::size_t i = 0; i < each.size(); ++i) each[i] = 5 + i * 7 % runs.next();
  for (std::size_t const apart : {0, 3}) {
    runs.check_rows(few, {}, apart);
    runs.check_rows(probes, {}, apart);
    runs.check_rows(probes, {.each = each}, apart);
  }
  runs.check(probes, {.all = *rc::gen::inRange<RequestId>(0, runs.next() + 2)});
  runs.check_entries(50);
  runs.check_ranges(probes, {}, kNewest, 5, false);
}

void any_sequence(Engine& engine) {
  Case const keys{*rc::gen::element(0u, 0u, 0u, 1u, 5u, 8u, 9u, 16u, 40u)};
  auto const value_size = *rc::gen::element<std::size_t>(0, 0, 1, 5, 8, 9);
  Runs runs(engine);
  auto const steps = *rc::gen::inRange(1, 7);
  for (int step = 0; step < steps; ++step) {
    auto const values =
        *rc::gen::element(Runs::Values::each, Runs::Values::words, Runs::Values::column,
                          value_size != 0 ? Runs::Values::fixed_column : Runs::Values::column);
    runs.write(any_batch(keys, value_size), keys.width != 0 && *rc::gen::arbitrary<bool>(),
               *rc::gen::element(1, 3), values);
    if (*rc::gen::inRange(0, 3) != 0) continue;
    auto const last = *rc::gen::inRange<std::size_t>(1, runs.list().size() + 1);
    runs.merge(*rc::gen::inRange<std::size_t>(0, last), last);
  }
  std::vector<std::string> probes{"", "zzz", std::string(300, 'q')};
  for (std::uint32_t n = 0; n < 64; ++n) probes.push_back(keys.key(n));
  for (std::uint32_t n = 0; n < 64; n += 3) probes.push_back(tricky_key(n));
  std::vector<RequestId> each(probes.size());
  for (std::size_t i = 0; i < each.size(); ++i) each[i] = 5 + i * 7 % runs.next();
  runs.check(probes, {});
  runs.check(probes, {.all = *rc::gen::inRange<RequestId>(0, runs.next() + 2)});
  runs.check(probes, {.each = each});
  for (Operation const operation : {Operation::add, Operation::max, Operation::min}) {
    runs.check_folds(probes, {}, operation);
    runs.check_folds(probes, {.all = *rc::gen::inRange<RequestId>(0, runs.next() + 2)}, operation);
  }
  runs.check_bounds(probes);
  runs.check_entries(*rc::gen::inRange(1u, 200u));
  any_ranges(runs, probes);
}

TEST_P(LsmEngine, AnySequenceOfBatchesAndMergesReadsAsAMapOfVersions) {
  ASSERT_TRUE(rc::check([&] {
    any_sequence(*engine_);
    RC_ASSERT(!testing::Test::HasFailure());
  }));
}

TEST_P(LsmEngine, ValuesOfOneSizeComeWithTheirAnswersUpToWhatTheOptionAllows) {
  std::vector<EngineOptions> const options{{0}, {8}, {16}, {100}, {1024}};
  std::vector<std::unique_ptr<Engine>> engines;
  for (EngineOptions const& one : options)
    engines.push_back(std::move(make_engine(GetParam(), workers_, one).value()));
  ASSERT_TRUE(rc::check([&] {
    auto const which = *rc::gen::inRange<std::size_t>(0, options.size());
    any_rows(*engines[which], options[which]);
    RC_ASSERT(!testing::Test::HasFailure());
  }));
}

/// Several workers bring rows, and on a GPU several lanes a row.
TEST_P(LsmEngine, LargeRunsBringTheirRows) {
  constexpr std::uint32_t kKeys = 5000;
  EngineOptions const options{1024};
  auto const engine = std::move(make_engine(GetParam(), workers_, options).value());
  for (std::uint32_t const size : {12u, 100u, 1021u}) {
    Runs runs(*engine, options);
    std::vector<std::string> probes;
    for (std::uint32_t n = 0; n < kKeys; ++n) probes.push_back(spread_key(n * 3, 16));
    for (std::uint32_t batch = 0; batch < 3; ++batch) {
      std::vector<Write> writes;
      for (std::uint32_t n = 0; n < kKeys; n += 1 + batch) {
        std::string value = std::to_string(batch) + spread_key(n, size - 1);
        writes.push_back({spread_key(n * 7919u % kKeys, 16), Kind::put, std::move(value)});
      }
      runs.write(writes, true, 1, Runs::Values::fixed_column);
    }
    EXPECT_NO_FATAL_FAILURE(runs.check_newest(probes));
    EXPECT_EQ(runs.values_inside(probes), (kKeys + 2) / 3);
    runs.merge(0, 2);
    runs.merge(0, 2);
    EXPECT_NO_FATAL_FAILURE(runs.check_newest(probes));
    EXPECT_EQ(runs.values_inside(probes), (kKeys + 2) / 3);
  }
}

TEST_P(LsmEngine, SmallValuesOfOneSizeComeWithTheirAnswers) {
  for (auto const as : {Runs::Values::words, Runs::Values::column, Runs::Values::fixed_column}) {
    Runs runs(*engine_);
    runs.write({{"a", Kind::put, "first"}, {"b", Kind::put, "other"}}, true, 1, as);
    runs.write({{"b", Kind::put, "newer"}, {"c", Kind::put, "third"}}, true, 1, as);
    EXPECT_EQ(runs.values_inside({"a", "b", "c"}), 3u);
    runs.merge(0, 2);
    EXPECT_EQ(runs.values_inside({"a", "b", "c"}), 3u);
    runs.write({{"a", Kind::put, "longer than a word"}}, true, 1, as);
    EXPECT_EQ(runs.values_inside({"a", "b", "c"}), 2u);
    runs.merge(0, 2);
    EXPECT_EQ(runs.values_inside({"a", "b", "c"}), 0u);
    EXPECT_NO_FATAL_FAILURE(runs.check_newest({"a", "b", "c", "d"}));
  }
}

/// A run of erases alone has no values, and takes nobody's away.
TEST_P(LsmEngine, ErasesLeaveValuesInside) {
  EngineOptions const options{100};
  auto const engine = std::move(make_engine(GetParam(), workers_, options).value());
  for (std::size_t const size : {8u, 100u}) {
    Runs runs(*engine, options);
    auto const as = Runs::Values::fixed_column;
    runs.write({{"a", Kind::put, std::string(size, '1')}, {"b", Kind::put, std::string(size, '2')}},
               true, 1, as);
    runs.write({{"b", Kind::erase, ""}, {"c", Kind::erase, ""}});
    runs.write({{"c", Kind::put, std::string(size, '3')}}, true, 1, as);
    runs.write({{"d", Kind::erase, ""}});
    EXPECT_EQ(runs.values_inside({"a", "b", "c", "d"}), 2u);
    runs.merge(1, 4);
    runs.merge(0, 2);
    EXPECT_EQ(runs.values_inside({"a", "b", "c", "d"}), 2u);
    runs.check_rows({"a", "b", "c", "d"}, {}, 0);
    runs.check({"a", "b", "c", "d"}, {.all = 11});
  }
}

TEST_P(LsmEngine, OperandsOfOneWordAreFoldedByTheMachine) {
  Runs runs(*engine_);
  auto const as = Runs::Values::fixed_column;
  runs.write({{"based", Kind::put, "12345678"}, {"gone", Kind::put, "9ooooooo"}}, false, 1, as);
  runs.write({{"based", Kind::merge, "22222222"}, {"open", Kind::merge, "33333333"}}, false, 1, as);
  runs.write({{"gone", Kind::erase, "ignored "}, {"open", Kind::merge, "43333333"}}, false, 1, as);
  runs.write({{"gone", Kind::merge, "1aaaaaaa"}, {"open", Kind::merge, "23333333"}}, false, 1, as);
  std::vector<std::string> const keys{"based", "gone", "open"};
  for (Operation const operation : {Operation::add, Operation::max, Operation::min})
    EXPECT_EQ(runs.check_folds(keys, {}, operation), 3u);
  runs.merge(0, 4);
  for (Operation const operation : {Operation::add, Operation::max, Operation::min})
    EXPECT_EQ(runs.check_folds(keys, {}, operation), 3u);
  runs.write({{"open", Kind::merge, "short"}}, false, 1, as);
  EXPECT_EQ(runs.check_folds(keys, {}, Operation::max), 2u) << "sizes differ";
}

/// Of a run that takes several levels of samples, a filter, and several workers.
TEST_P(LsmEngine, LargeRunsReadAsAMapOfVersions) {
  constexpr std::uint32_t kKeys = 3000;
  for (std::uint32_t const width : {8u, 21u}) {
    Runs runs(*engine_);
    std::vector<std::string> probes;
    for (std::uint32_t n = 0; n < kKeys; ++n) probes.push_back(spread_key(2 * n, width));
    for (int batch = 0; batch < 3; ++batch) {
      std::vector<Write> writes;
      for (std::uint32_t n = 0; n < 20 * kKeys / 3; ++n)
        writes.push_back({spread_key(n * 7919u % (kKeys * 4), width), Kind::put, "v"});
      runs.write(writes, true, 1, batch == 0 ? Runs::Values::each : Runs::Values::fixed_column);
    }
    EXPECT_NO_FATAL_FAILURE(runs.check_newest(probes));
    EXPECT_NO_FATAL_FAILURE(runs.check_bounds(probes));
    EXPECT_NO_FATAL_FAILURE(runs.check_ranges(probes, {}, kNewest, 20, false));
    runs.merge(0, 3);
    EXPECT_NO_FATAL_FAILURE(runs.check_newest(probes));
    EXPECT_NO_FATAL_FAILURE(runs.check_ranges(probes, {}, kNewest, 20, true));
    EXPECT_NO_FATAL_FAILURE(runs.check_entries(1000));
  }
}

TEST_P(LsmEngine, ManyRunsReadAsAMapOfVersions) {
  constexpr std::uint32_t kRuns = 40, kKeys = 300;
  Runs runs(*engine_);
  std::vector<std::string> probes;
  for (std::uint32_t n = 0; n < 2 * kKeys; ++n) probes.push_back(spread_key(n, 16));
  for (std::uint32_t run = 0; run < kRuns; ++run) {
    std::vector<Write> writes;
    for (std::uint32_t n = run; n < kKeys; n += 1 + run % 7)
      writes.push_back({spread_key(n, 16), Kind::put, std::to_string(run * kKeys + n)});
    runs.write(writes, true);
  }
  EXPECT_NO_FATAL_FAILURE(runs.check_newest(probes));
  EXPECT_NO_FATAL_FAILURE(runs.check(probes, {.all = 1000}));
  runs.merge(3, 30);
  EXPECT_NO_FATAL_FAILURE(runs.check_newest(probes));
  runs.merge(0, runs.list().size());
  EXPECT_NO_FATAL_FAILURE(runs.check_newest(probes));
}

TEST_P(LsmEngine, LongKeysThatDifferAtTheirEndAloneAreTold) {
  Runs runs(*engine_);
  std::vector<Write> writes;
  std::vector<std::string> probes;
  for (std::uint32_t n = 0; n < 300; ++n) {
    std::string key(n % 3 == 0 ? 1024 : 5000, 'k');
    key += fixed_key(n % 100, 4);
    writes.push_back({key, Kind::merge, std::string(n % 2, 'v')});
    probes.push_back(key);
    probes.push_back(key.substr(0, key.size() - 1));
  }
  runs.write(writes);
  runs.check(probes, {});
  runs.check_bounds(probes);
  runs.check_entries(7);
  runs.check_ranges(probes, {}, kNewest, 9, false);
}

TEST_P(LsmEngine, RunsAreReadAndMadeByManyThreadsAtOnce) {
  Runs runs(*engine_);
  Case const keys{0};
  std::vector<std::string> probes;
  for (std::uint32_t n = 0; n < 64; ++n) probes.push_back(keys.key(n));
  for (std::uint32_t batch = 0; batch < 5; ++batch) {
    std::vector<Write> writes;
    for (std::uint32_t n = 0; n < 40 + batch; ++n)
      writes.push_back({keys.key(n * (batch + 3)), n % 3 == 0 ? Kind::merge : Kind::put, "v"});
    runs.write(writes);
  }
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 20; ++i) {
        runs.check(probes, {.all = runs.next() - static_cast<RequestId>(i)});
        runs.check_bounds(probes);
        if (t != 0) continue;
        auto const merged = engine_->merge(runs.list());
        EXPECT_TRUE(merged.ok() && merged.value()->count() == 5 * 40 + 10);
      }
    });
  }
  for (auto& thread : threads) thread.join();
}

/// As the writes of many clients are: a GPU's sort then has others beside it.
TEST_P(LsmEngine, LargeBatchesAreSortedByManyThreadsAtOnce) {
  constexpr std::uint32_t kKeys = 50'000, kWidth = 16;
  std::uint32_t const threads = engine_->is_far() ? 16 : 2, rounds = engine_->is_far() ? 40 : 1;
  auto const sort = [&](std::uint32_t me) {
    std::vector<std::byte> keys(kKeys * kWidth);
    EntryBlock block;
    for (std::uint32_t round = 0; round < rounds; ++round) {
      for (std::uint32_t n = 0; n < kKeys; ++n) {
        std::string const key = spread_key(n * 7919u % (kKeys - 100) + 31u * me, kWidth);
        std::memcpy(keys.data() + n * kWidth, key.data(), kWidth);
      }
      Column const column{keys.data(), nullptr, kWidth, kKeys, MemorySpace::host};
      auto run = engine_->build({.keys = column, .first_request = 1});
      ASSERT_TRUE(run.ok()) << run.status().message();
      ASSERT_TRUE(engine_->fetch(**run, 0, kKeys, block).ok());
      for (std::size_t i = 1; i < kKeys; ++i) {
        int const order = std::memcmp(block.key(i - 1).data(), block.key(i).data(), kWidth);
        ASSERT_LE(order, 0) << i;
        ASSERT_TRUE(order < 0 || block.versions[i - 1].request > block.versions[i].request) << i;
      }
    }
  };
  std::vector<std::thread> all;
  for (std::uint32_t me = 0; me < threads; ++me) all.emplace_back(sort, me);
  for (auto& thread : all) thread.join();
}

/// Whatever a call that fails says, the next one works. Where the machine has no memory, a run is
/// made on the other side, if there is one.
void each_fails_in_turn(fault::Fault& fault, Code code, std::string const& machine,
                        exec::Workers& workers) {
  std::vector<Write> writes;
  for (std::uint32_t n = 0; n < 200; ++n)
    writes.push_back({tricky_key(n), Kind::merge, "a value of some words"});
  std::vector<std::string> probes{"", "a", "zzz"};
  std::uint32_t failures = 0;
  for (std::uint64_t nth = 1;; ++nth) {
    auto fresh = make_engine(machine, workers, {64});
    ASSERT_TRUE(fresh.ok());
    Runs runs(*fresh.value(), {64});
    fault.plant(nth);
    Status const refused = runs.try_all(writes, probes);
    bool const struck = fault.struck();
    fault.plant(0);
    ASSERT_TRUE(struck || refused.ok()) << refused.message();
    if (!struck) break;
    bool const has_another_side = machine.starts_with("both") && code == Code::no_space;
    if (!refused.ok() || !has_another_side) {
      ASSERT_EQ(refused.code(), code) << refused.message();
    }
    ++failures;
    runs.write(writes);
    runs.write(writes);
    runs.merge(0, 2);
    runs.check(probes, {});
    runs.check_bounds(probes);
    runs.check_entries(64);
    ASSERT_FALSE(testing::Test::HasFailure()) << "failure " << nth;
  }
  EXPECT_GT(failures, 10u);
}

TEST_P(LsmEngine, WithoutMemoryCallsFailAndLeaveEverythingAsItWas) {
  each_fails_in_turn(fault::failing_allocation, Code::no_space, GetParam(), workers_);
}

TEST_P(LsmEngine, OnALostDeviceCallsFailAndLeaveEverythingAsItWas) {
  each_fails_in_turn(fault::lost_device, Code::device_error, GetParam(), workers_);
}

TEST(LsmEngineOfAProcess, IsRefusedInAForkedChildOfOneThatUsedTheGpu) {
  exec::Workers workers(1);
  auto const engine = make_cuda_engine(workers);
  if (!engine && engine.status().code() == Code::unsupported)
    GTEST_SKIP() << "no GPU to run on: " << engine.status().message();
  ASSERT_TRUE(engine.ok()) << engine.status().message();
  pid_t const child = ::fork();
  if (child == 0) ::_exit(make_cuda_engine(workers).ok() ? 1 : 0);
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
}

TEST_P(LsmEngine, WhatAMemtableCannotTakeIsAnError) {
  std::string const key = "key";
  KeyColumn const column({key});
  std::vector<ValueRef> const values{{nullptr, std::uint64_t{1} << 32}};
  auto const run = engine_->build({.keys = column.column(), .values = values});
  EXPECT_EQ(run.status().code(), Code::invalid_argument) << run.status().message();
  std::array<std::int64_t, 2> const offsets{0, std::int64_t{1} << 32};
  Column const long_one{nullptr, offsets.data(), 0, 1, MemorySpace::host};
  auto const of_column = engine_->build({.keys = column.column(), .value_column = long_one});
  EXPECT_EQ(of_column.status().code(), Code::invalid_argument) << of_column.status().message();
}

TEST_P(LsmEngine, NothingAtAllIsARunToo) {
  Runs runs(*engine_);
  runs.write({});
  runs.merge(0, 1);
  runs.merge(0, 0);
  runs.check({"", "a"}, {});
  runs.check_bounds({"", "a"});
  runs.check_entries(3);
  runs.check({}, {});
  runs.check_ranges({"", "a"}, {"b", "a"}, kNewest, 7, true);
  runs.check_ranges({}, {}, kNewest, 7, true);
  EXPECT_EQ(runs.list().size(), 2u);
}

}  // namespace
}  // namespace perdure::lsm
