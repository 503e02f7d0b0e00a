// The engine of sorted runs against a plain map of versions, on each machine.
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <array>
#include <thread>

#include "fault/planted_faults.hpp"
#include "rocks/engine_model.hpp"

namespace perdure::lsm {
namespace {

Result<std::unique_ptr<Engine>> make_engine(std::string const& machine, exec::Workers& workers) {
  return machine == "cuda" ? make_cuda_engine(workers) : make_cpu_engine(workers);
}

/// Runs that an engine made, and what is known of them.
class Runs {
 public:
  explicit Runs(Engine& engine) : engine_(&engine) {}

  [[nodiscard]] RunList list() const { return runs_; }
  [[nodiscard]] RunModel const& model() const { return model_; }
  [[nodiscard]] RequestId next() const { return next_; }

  /// How the engine is told of values; `fixed`: they have one width.
  enum class Values : std::uint8_t { each, column, fixed_column };

  /// `fixed`: keys of one width, told so. `gap` between the requests.
  void write(std::vector<Write> const& writes, bool fixed = false, RequestId gap = 1,
             Values as = Values::each) {
    std::vector<std::string> keys;
    std::vector<Kind> kinds;
    RunModel::Requests requests, from_first;
    bool all_puts = true;
    for (Write const& one : writes) {
      keys.push_back(one.key);
      kinds.push_back(one.kind);
      from_first.push_back(from_first.size() * gap);
      requests.push_back(next_ + from_first.back());
      all_puts &= one.kind == Kind::put;
    }
    KeyColumn const column(keys, fixed);
    std::vector<ValueRef> values = model_.keep_values(writes);
    Entries entries{.keys = column.column(), .first_request = next_};
    if (as == Values::each)
      entries.values = values;
    else
      entries.value_column = model_.keep_column(writes, as == Values::fixed_column, values);
    if (!all_puts) entries.kinds = kinds;
    if (gap != 1) entries.requests = from_first;
    auto run = engine_->build(entries);
    ASSERT_TRUE(run.ok()) << run.status().message();
    ASSERT_EQ(run.value()->count(), writes.size());
    runs_.insert(runs_.begin(), run.value());
    model_.add_run(writes, requests, values);
    next_ += writes.size() * gap;
  }

  void merge(std::size_t first, std::size_t last) {
    auto run = engine_->merge(list().subspan(first, last - first));
    ASSERT_TRUE(run.ok()) << run.status().message();
    auto const at = runs_.begin() + static_cast<std::ptrdiff_t>(first);
    runs_.erase(at, at + static_cast<std::ptrdiff_t>(last - first));
    runs_.insert(runs_.begin() + static_cast<std::ptrdiff_t>(first), run.value());
    model_.merge_runs(first, last);
  }

  /// One call of each kind, until one fails; keeps nothing.
  Status try_all(std::vector<Write> const& writes, std::vector<std::string> const& keys) {
    std::vector<std::string> written;
    for (Write const& one : writes) written.push_back(one.key);
    KeyColumn const column(written), sought(keys);
    std::vector<ValueRef> const values = model_.keep_values(writes);
    auto run = engine_->build({.keys = column.column(), .values = values});
    if (!run) return run.status();
    std::vector<RunPtr> const two{run.value(), run.value()};
    auto merged = engine_->merge(two);
    if (!merged) return merged.status();
    std::vector<Answer> answers(keys.size());
    std::vector<std::uint32_t> positions(keys.size());
    Chains chains;
    EntryBlock block;
    if (Status s = engine_->find(two, sought.column(), {}, answers); !s.ok()) return s;
    if (Status s = engine_->chains(two, sought.column(), {}, chains); !s.ok()) return s;
    if (Status s = engine_->seek(*two[0], sought.column(), Bound::lower, positions); !s.ok())
      return s;
    return engine_->fetch(*two[0], 0, two[0]->count(), block);
  }

  void check_newest(std::vector<std::string> const& keys) const {
    KeyColumn const column(keys);
    std::vector<Answer> answers(keys.size());
    ASSERT_TRUE(engine_->find(list(), column.column(), {}, answers).ok());
    for (std::size_t i = 0; i < keys.size(); ++i) {
      std::vector<Version> seen;
      for (auto const& run : model_.runs()) {
        auto const at =
            std::ranges::lower_bound(run, keys[i], {}, [](auto& one) { return one.key; });
        if (at == run.end() || at->key != keys[i]) continue;
        seen.push_back(at->version);
        break;
      }
      check_answer(answers[i], seen);
    }
  }

  void check(std::vector<std::string> const& keys, Limits const& limits) const {
    KeyColumn const column(keys);
    std::vector<Answer> answers(keys.size());
    Chains chains;
    ASSERT_TRUE(engine_->find(list(), column.column(), limits, answers).ok());
    ASSERT_TRUE(engine_->chains(list(), column.column(), limits, chains).ok());
    ASSERT_EQ(chains.offsets.size(), keys.size() + 1);
    for (std::size_t i = 0; i < keys.size(); ++i) {
      RequestId const limit = limits.each.empty() ? limits.all : limits.each[i];
      check_answer(answers[i], model_.visible(keys[i], limit));
      std::vector<Version> const want = model_.chain(keys[i], limit);
      ASSERT_EQ(chains.offsets[i + 1] - chains.offsets[i], want.size()) << keys[i];
      for (std::size_t v = 0; v < want.size(); ++v)
        ASSERT_TRUE(same(chains.versions[chains.offsets[i] + v], want[v])) << keys[i];
    }
  }

  void check_bounds(std::vector<std::string> const& keys) const {
    KeyColumn const column(keys);
    std::vector<std::uint32_t> lower(keys.size()), upper(keys.size());
    for (std::size_t r = 0; r < runs_.size(); ++r) {
      ASSERT_TRUE(engine_->seek(*runs_[r], column.column(), Bound::lower, lower).ok());
      ASSERT_TRUE(engine_->seek(*runs_[r], column.column(), Bound::upper, upper).ok());
      auto const& run = model_.runs()[r];
      for (std::size_t i = 0; i < keys.size(); ++i) {
        auto const [first, last] =
            std::ranges::equal_range(run, keys[i], {}, [](auto& one) { return one.key; });
        ASSERT_EQ(lower[i], first - run.begin()) << keys[i];
        ASSERT_EQ(upper[i], last - run.begin()) << keys[i];
      }
    }
  }

  void check_entries(std::uint32_t step) const {
    EntryBlock block;
    for (std::size_t r = 0; r < runs_.size(); ++r) {
      auto const& run = model_.runs()[r];
      ASSERT_EQ(runs_[r]->count(), run.size());
      for (std::uint32_t first = 0; first <= run.size(); first += step) {
        std::uint32_t const n = std::min(step, runs_[r]->count() - first);
        ASSERT_TRUE(engine_->fetch(*runs_[r], first, n, block).ok());
        ASSERT_EQ(block.size(), n);
        for (std::uint32_t i = 0; i < n; ++i) {
          auto const key = block.key(i);
          std::string const text(reinterpret_cast<char const*>(key.data()), key.size());
          ASSERT_EQ(text, run[first + i].key);
          ASSERT_TRUE(same(block.versions[i], run[first + i].version)) << text;
        }
      }
    }
  }

 private:
  static void check_answer(Answer const& answer, std::vector<Version> const& seen) {
    if (seen.empty()) {
      ASSERT_EQ(answer.found, Found::absent);
      return;
    }
    ASSERT_EQ(answer.found, seen[0].kind == Kind::put     ? Found::put
                            : seen[0].kind == Kind::erase ? Found::erased
                                                          : Found::merge);
    ASSERT_EQ(answer.request, seen[0].request);
    ASSERT_TRUE(same(answer.value, seen[0].value));
  }

  Engine* engine_;
  std::vector<RunPtr> runs_;
  RunModel model_;
  RequestId next_ = 10;
};

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

INSTANTIATE_TEST_SUITE_P(Machines, LsmEngine, testing::Values("cpu", "cuda"),
                         [](auto const& machine) { return std::string(machine.param); });

/// Few enough that they meet again: prefixes of each other, zeros at the end, long common parts.
std::string tricky_key(std::uint32_t n) {
  static std::vector<std::string> const starts = {"",
                                                  "a",
                                                  std::string("a\0", 2),
                                                  "\xff",
                                                  std::string(8, 'p'),
                                                  std::string(16, '\0'),
                                                  std::string(100, 'q'),
                                                  std::string(99, 'q') + "\x80"};
  static std::vector<std::string> const ends = {
      "",         std::string(1, '\0'), std::string(9, '\0'), "b",
      "\x80\x01", "12345678",           "123456789",          std::string(20, '\xff')};
  return starts[n % starts.size()] + ends[n / starts.size() % ends.size()];
}
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

std::vector<Write> any_batch(Case const& keys, bool one_value_size) {
  auto const n = *rc::gen::weightedOneOf<std::size_t>(
      {{3, rc::gen::inRange<std::size_t>(0, 4)}, {5, rc::gen::inRange<std::size_t>(4, 120)}});
  std::vector<Write> writes;
  bool const all_puts = *rc::gen::arbitrary<bool>();
  for (std::size_t i = 0; i < n; ++i) {
    Write write;
    write.key = keys.key(*rc::gen::inRange(0u, 64u));
    if (!all_puts) write.kind = *rc::gen::element(Kind::put, Kind::erase, Kind::merge, Kind::merge);
    write.value = std::string(one_value_size ? 5 : *rc::gen::inRange(0, 9), 'v');
    writes.push_back(write);
  }
  return writes;
}

void any_sequence(Engine& engine) {
  Case const keys{*rc::gen::element(0u, 0u, 0u, 1u, 5u, 8u, 9u, 16u, 40u)};
  bool const one_value_size = *rc::gen::arbitrary<bool>();
  Runs runs(engine);
  auto const steps = *rc::gen::inRange(1, 7);
  for (int step = 0; step < steps; ++step) {
    auto const values =
        *rc::gen::element(Runs::Values::each, Runs::Values::column,
                          one_value_size ? Runs::Values::fixed_column : Runs::Values::column);
    runs.write(any_batch(keys, one_value_size), keys.width != 0 && *rc::gen::arbitrary<bool>(),
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
  runs.check_bounds(probes);
  runs.check_entries(*rc::gen::inRange(1u, 200u));
}

TEST_P(LsmEngine, AnySequenceOfBatchesAndMergesReadsAsAMapOfVersions) {
  ASSERT_TRUE(rc::check([&] {
    any_sequence(*engine_);
    RC_ASSERT(!testing::Test::HasFailure());
  }));
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
    runs.merge(0, 3);
    EXPECT_NO_FATAL_FAILURE(runs.check_newest(probes));
    EXPECT_NO_FATAL_FAILURE(runs.check_entries(1000));
  }
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

/// Whatever a call that fails says, the next one works.
void each_fails_in_turn(fault::Fault& fault, Code code, std::string const& machine,
                        exec::Workers& workers) {
  std::vector<Write> writes;
  for (std::uint32_t n = 0; n < 200; ++n) writes.push_back({tricky_key(n), Kind::merge, "v"});
  std::vector<std::string> probes{"", "a", "zzz"};
  std::uint32_t failures = 0;
  for (std::uint64_t nth = 1;; ++nth) {
    auto fresh = make_engine(machine, workers);
    ASSERT_TRUE(fresh.ok());
    Runs runs(*fresh.value());
    fault.plant(nth);
    Status const refused = runs.try_all(writes, probes);
    bool const struck = fault.struck();
    fault.plant(0);
    ASSERT_EQ(refused.ok(), !struck) << refused.message();
    if (!struck) break;
    ASSERT_EQ(refused.code(), code) << refused.message();
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
  EXPECT_EQ(runs.list().size(), 2u);
}

}  // namespace
}  // namespace perdure::lsm
