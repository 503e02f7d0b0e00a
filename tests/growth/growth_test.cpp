// Growth without a stop, on tables large enough to have several units: what it takes from each
// batch, and that in its midst everything goes on as before. Each test begins with a pool that is
// full, and may grow from then on. Slow, up to fifteen seconds: only tables of several windows of
// 2^15 buckets have several units.
#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <iostream>
#include <map>
#include <memory>
#include <numeric>
#include <sstream>

#include "fault/planted_faults.hpp"
#include "support/store_driver.hpp"

namespace perdure::test {
namespace {

constexpr std::uint32_t kTop = 17;  // 2^17 buckets in windows of 2^15: four units
constexpr std::uint64_t kUnits = 4;

std::uint64_t slots_of(Config const& c, std::uint32_t top) {
  std::uint64_t slots = 0;
  for (std::uint32_t i = 0; i < c.shape.levels; ++i)
    slots += std::uint64_t{c.shape.slots} << (top - i);
  return slots;
}

std::vector<Bytes> keys(Config const& c, std::uint64_t from, std::uint64_t to) {
  std::vector<Bytes> all;
  for (std::uint64_t n = from; n < to; ++n) all.push_back(c.key(n));
  return all;
}
std::vector<Bytes> values(Config const& c, std::uint64_t from, std::uint64_t to,
                          std::uint64_t version = 0) {
  std::vector<Bytes> all;
  for (std::uint64_t n = from; n < to; ++n) all.push_back(c.value(n, version));
  return all;
}

/// Puts what may find no room; the model takes what did.
Status put_what_fits(Driver& driver, std::vector<Bytes> const& k, std::vector<Bytes> const& v) {
  std::vector<KeyStatus> statuses;
  Status const s = driver.put(k, v, statuses);
  for (std::size_t i = 0; i < k.size(); ++i)
    if (statuses[i] == KeyStatus::ok) driver.model.held[k[i]] = v[i];
  return s;
}

/// A pool whose table is full, closed in order; keys from `next` on are not there.
struct FullPool {
  std::map<Bytes, Bytes> held;
  std::uint64_t next = 0;

  FullPool(Config const& config, std::string const& path, std::uint32_t top,
           std::uint64_t max_bytes = 0) {
    CreateOptions create = config.create(slots_of(config, top) * 85 / 100);
    create.max_bytes = max_bytes;
    OpenOptions open = config.open();
    open.grow = false;
    auto store = Store::create(path, create, open);
    if (!store) throw std::runtime_error(store.status().message());
    Driver driver(config, std::move(*store));
    EXPECT_EQ(driver.store().stats().top_level, top);
    std::uint64_t batch = slots_of(config, top) / 16;
    while (batch > 100) {
      bool const full = !put_what_fits(driver, keys(config, next, next + batch),
                                       values(config, next, next + batch))
                             .ok();
      next += batch;
      if (full) batch /= 4;
    }
    held = driver.model.held;
    EXPECT_TRUE(driver.store().close().ok());
  }
};

class Growth : public testing::TestWithParam<Config> {
 protected:
  void SetUp() override {
    std::string why_not;
    if (!available(GetParam().device, why_not)) GTEST_SKIP() << "no GPU to run on: " << why_not;
    full_ = &full_pool(GetParam());
  }

  /// Made once for each configuration.
  static FullPool& full_pool(Config const& config) {
    static ScratchDir scratch;
    static std::map<std::string, std::unique_ptr<FullPool>> pools;
    auto& pool = pools[config.name];
    path_of_full_ = scratch.file(config.name);
    if (pool == nullptr) pool = std::make_unique<FullPool>(config, path_of_full_, kTop);
    return *pool;
  }

  /// A store over a copy of it.
  std::unique_ptr<Driver> open_full() {
    std::filesystem::copy_file(path_of_full_, path_,
                               std::filesystem::copy_options::overwrite_existing);
    auto store = Store::open(path_, GetParam().open());
    EXPECT_TRUE(store.ok()) << store.status().message();
    auto driver = std::make_unique<Driver>(GetParam(), std::move(*store));
    driver->model.held = full_->held;
    next_ = full_->next;
    return driver;
  }
  void put_new(Driver& driver, std::uint64_t n) {
    driver.run_put(keys(GetParam(), next_, next_ + n), values(GetParam(), next_, next_ + n));
    next_ += n;
  }
  /// Puts new keys, few at a time, until a growth has begun and is not over.
  void begin(Driver& driver) {
    for (int i = 0; i < 1000 && driver.store().stats().units_left == 0; ++i) put_new(driver, 4);
    ASSERT_GT(driver.store().stats().units_left, 0u);
    ASSERT_LT(driver.store().stats().units_left, kUnits)
        << "the unit that refused a key moves at once";
  }
  void reopen_killed(Driver& driver) {
    std::string const killed = scratch_.file("killed");
    copy_as_if_killed(path_, killed);
    auto store = Store::open(killed, GetParam().open());
    ASSERT_TRUE(store.ok()) << store.status().message();
    driver.replace(std::move(*store));
    std::filesystem::rename(killed, path_);
  }

  static inline std::string path_of_full_;
  ScratchDir scratch_;
  std::string path_ = scratch_.file("pool");
  FullPool* full_ = nullptr;
  std::uint64_t next_ = 0;
};

TEST_P(Growth, TakesAShareOfEachBatchUntilItIsOver) {
  auto driver = open_full();
  ASSERT_NO_FATAL_FAILURE(begin(*driver));
  Stats const begun = driver->store().stats();
  EXPECT_EQ(begun.growths, 1u);
  EXPECT_GT(begun.top_level, kTop);
  std::uint64_t left = begun.units_left;
  for (std::uint64_t batch = 0; left > 0; ++batch) {
    driver->run_erase(keys(GetParam(), batch, batch + 1));  // needs no room
    EXPECT_EQ(driver->store().stats().units_left, left - 1)
        << "one at least, and for few operations no more";
    left = driver->store().stats().units_left;
  }
  EXPECT_EQ(driver->store().stats().growths, 1u);
  driver->check_all();
}

TEST_P(Growth, HidesNoKeyInItsMidst) {
  auto driver = open_full();
  ASSERT_NO_FATAL_FAILURE(begin(*driver));
  driver->check_all();  // by get, by scan, by stats and by verify
  ASSERT_GT(driver->store().stats().units_left, 0u) << "reading moves nothing";
  std::vector<Answer> absent;
  ASSERT_TRUE(driver->get(keys(GetParam(), next_, next_ + 2000), absent).ok());
  for (Answer const& a : absent) ASSERT_EQ(a.status, KeyStatus::not_found);
}

TEST_P(Growth, ChangesAndErasesKeysOfUnitsMovedAndNot) {
  auto driver = open_full();
  ASSERT_NO_FATAL_FAILURE(begin(*driver));
  std::vector<Bytes> there;
  for (auto const& [key, value] : driver->model.held) there.push_back(key);
  std::vector<Bytes> const some(there.begin(), there.begin() + 20000);
  std::vector<Bytes> fresh(some.size(), GetParam().value(7, 7));
  driver->run_put(some, fresh);
  driver->check_held();
  driver->run_erase({there.begin() + 10000, there.begin() + 30000});
  driver->check_all();
}

TEST_P(Growth, EndsWithinTheBatchThatNeedsAllUnits) {
  auto driver = open_full();
  put_new(*driver, slots_of(GetParam(), kTop) / 2);
  Stats const after = driver->store().stats();
  EXPECT_GE(after.growths, 1u);
  EXPECT_TRUE(after.growths > 1 || after.units_left == 0);
  driver->check_all();
}

TEST_P(Growth, GoesOverIntoTheNextOneInsideABatch) {
  auto driver = open_full();
  ASSERT_NO_FATAL_FAILURE(begin(*driver));
  put_new(*driver, slots_of(GetParam(), kTop) * 12 / 10);  // more than twice the table
  EXPECT_GE(driver->store().stats().top_level, kTop + 2)
      << "by the next growth, or because this one was widened";
  driver->check_all();
}

TEST_P(Growth, IsFinishedByClosing) {
  auto driver = open_full();
  ASSERT_NO_FATAL_FAILURE(begin(*driver));
  ASSERT_TRUE(driver->store().close().ok());
  OpenOptions open = GetParam().open();
  open.read_only = true;
  auto store = Store::open(path_, open);
  ASSERT_TRUE(store.ok()) << store.status().message();
  EXPECT_TRUE(store->recovery().clean);
  EXPECT_FALSE(store->recovery().resize_resumed);
  driver->replace(std::move(*store));
  driver->check_all();
}

// The device is lost while a close completes a growth: it says so, and the next opening goes on.
TEST_P(Growth, ThatAClosingCannotFinishIsSaidAndFinishedByTheOpening) {
  std::uint64_t failed = 0;
  for (std::uint64_t n = 1;; ++n) {
    SCOPED_TRACE("launch " + std::to_string(n));
    auto driver = open_full();
    ASSERT_NO_FATAL_FAILURE(begin(*driver));
    fault::lost_device.plant(n, true);
    Status const closed = driver->store().close();
    bool const struck = fault::lost_device.struck();
    fault::lost_device.plant(0);
    EXPECT_EQ(closed.ok(), !struck);
    if (struck) {
      ++failed;
      EXPECT_NE(closed.message().find("was not closed in order"), std::string::npos)
          << closed.message();
      OpenOptions reader = GetParam().open();
      reader.read_only = true;
      EXPECT_FALSE(Store::open(path_, reader).ok()) << "what is half moved is not read";
    }
    auto store = Store::open(path_, GetParam().open());
    ASSERT_TRUE(store.ok()) << store.status().message();
    EXPECT_EQ(store->recovery().clean, !struck);
    EXPECT_EQ(store->recovery().resize_resumed, struck);
    EXPECT_EQ(store->recovery().records, driver->model.held.size());
    driver->replace(std::move(*store));
    if (n == 1) driver->check_all();
    ASSERT_FALSE(HasFailure());
    if (!struck) break;
  }
  EXPECT_GT(failed, 0u);
}

TEST_P(Growth, IsFinishedByTheOpenAfterAKill) {
  auto driver = open_full();
  ASSERT_NO_FATAL_FAILURE(begin(*driver));
  for (int round = 0; round < 3; ++round) {  // after the first units, and after the next
    driver->run_erase(
        keys(GetParam(), static_cast<std::uint64_t>(round), static_cast<std::uint64_t>(round) + 1));
    bool const growing = driver->store().stats().units_left > 0;
    auto const held = driver->model.held;
    std::string const killed = scratch_.file("killed");
    copy_as_if_killed(path_, killed);
    auto store = Store::open(killed, GetParam().open());
    ASSERT_TRUE(store.ok()) << store.status().message();
    EXPECT_EQ(store->recovery().resize_resumed, growing);
    EXPECT_EQ(store->recovery().duplicates, 0u);
    EXPECT_EQ(store->recovery().dropped, 0u);
    EXPECT_EQ(store->stats().units_left, 0u);
    Driver again(GetParam(), std::move(*store));
    again.model.held = held;
    again.check_all();
  }
}

TEST_P(Growth, SurvivesSigkillInItsMidst) {
  if (GetParam().device == Device::cuda)
    GTEST_SKIP() << "a forked child cannot use the GPU; soak kills stores there";
  auto driver = open_full();  // for the model; the child has the pool
  ASSERT_TRUE(driver->store().close().ok());
  ::pid_t const child = ::fork();
  if (child == 0) {
    auto store = Store::open(path_, GetParam().open());
    if (!store) ::_exit(1);
    Driver mine(GetParam(), std::move(*store));
    mine.model.held = full_->held;
    begin(mine);
    if (mine.store().stats().units_left > 0) ::kill(::getpid(), SIGKILL);
    ::_exit(2);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
  auto store = Store::open(path_, GetParam().open());
  ASSERT_TRUE(store.ok()) << store.status().message();
  EXPECT_TRUE(store->recovery().resize_resumed);
  std::uint64_t const records = store->recovery().records;
  ASSERT_GT(records, driver->model.held.size());
  std::uint64_t const put = records - driver->model.held.size();  // new keys in order, none refused
  auto const k = keys(GetParam(), next_, next_ + put);
  auto const v = values(GetParam(), next_, next_ + put);
  for (std::uint64_t i = 0; i < put; ++i) driver->model.held[k[i]] = v[i];
  driver->replace(std::move(*store));
  driver->check_all();
}

TEST_P(Growth, LetsAtomicBatchesAndTransactionsIn) {
  if (GetParam().layout == Layout::in_place)
    GTEST_SKIP() << "layout in_place has no atomic batches";
  auto driver = open_full();
  driver->how.atomic = true;
  for (int i = 0; i < 1000 && driver->store().stats().units_left == 0; ++i) put_new(*driver, 4);
  ASSERT_GT(driver->store().stats().units_left, 0u);
  put_new(*driver, 2000);
  driver->check_held();
  driver->how = {};
  auto transaction = driver->store().begin({.max_operations = 1000});
  ASSERT_TRUE(transaction.ok()) << transaction.status().message();
  EXPECT_EQ(driver->store().stats().units_left, 0u)
      << "a transaction begins with the table at rest";
  driver->how.transaction = &*transaction;
  put_new(*driver, 1000);
  ASSERT_TRUE(transaction->commit().ok());
  driver->how = {};
  driver->check_all();
}

TEST_P(Growth, LetsASnapshotBeTakenInItsMidst) {
  auto driver = open_full();
  ASSERT_NO_FATAL_FAILURE(begin(*driver));
  std::string const snapshot = scratch_.file("snapshot"), restored = scratch_.file("restored");
  ASSERT_TRUE(driver->store().snapshot(snapshot).ok());
  EXPECT_GT(driver->store().stats().units_left, 0u);
  auto store = Store::restore(snapshot, restored, {}, GetParam().open());
  ASSERT_TRUE(store.ok()) << store.status().message();
  Driver other(GetParam(), std::move(*store));
  other.model.held = driver->model.held;
  other.check_all();
}

TEST_P(Growth, KeepsTheRecordCacheTrue) {
  if (GetParam().residency != Residency::mirrored)
    GTEST_SKIP() << "only a mirrored store has a record cache";
  auto driver = open_full();
  ASSERT_TRUE(driver->store().close().ok());
  OpenOptions open = GetParam().open();
  open.memory.cache_bytes = 64u << 20;
  auto store = Store::open(path_, open);
  ASSERT_TRUE(store.ok()) << store.status().message();
  driver->replace(std::move(*store));
  ASSERT_TRUE(driver->store().load_cache().ok());
  ASSERT_NO_FATAL_FAILURE(begin(*driver));
  driver->check_held();
  ASSERT_TRUE(driver->store().load_cache().ok());  // of records on the retiring level as well
  driver->check_held();
  driver->run_put(keys(GetParam(), 0, 5000), values(GetParam(), 0, 5000, 3));
  driver->run_erase(keys(GetParam(), 5000, 6000));
  driver->check_held();
  while (driver->store().stats().units_left > 0) driver->run_erase(keys(GetParam(), 0, 1));
  driver->check_all();
}

// ------------------------------------------------------------------------------------------------
// Sequences of operations on a table that grows, against a map

enum class Act { put_new, change, erase, mixed, get, scan, verify, close, kill };
struct Step {
  Act act = Act::get;
  std::uint32_t from = 0;
  std::uint32_t count = 0;
};

void showValue(Step const& s, std::ostream& out) {
  constexpr char const* kNames[] = {"put new", "change", "erase", "mixed", "get",
                                    "scan",    "verify", "close", "kill"};
  out << "\n  " << kNames[static_cast<int>(s.act)] << ' ' << s.count << " from " << s.from;
}

rc::Gen<Step> step() {
  auto const act = rc::gen::weightedElement<Act>({{6, Act::put_new},
                                                  {4, Act::change},
                                                  {4, Act::erase},
                                                  {4, Act::mixed},
                                                  {3, Act::get},
                                                  {1, Act::scan},
                                                  {1, Act::verify},
                                                  {1, Act::close},
                                                  {1, Act::kill}});
  return rc::gen::build<Step>(rc::gen::set(&Step::act, act),
                              rc::gen::set(&Step::from, rc::gen::inRange(0u, 50000u)),
                              rc::gen::set(&Step::count, rc::gen::inRange(1u, 3000u)));
}

TEST_P(Growth, AnswersAsAMapDoesMeanwhile) {
  rc::detail::TestMetadata metadata;
  metadata.id = metadata.description = "Growth/" + GetParam().name;
  rc::detail::TestParams params = rc::detail::configuration().testParams;
  params.maxSuccess = static_cast<int>(volume(12));
  params.disableShrinking = true;
  std::uint64_t met = 0;  // steps in the midst of a growth
  auto const take = [&](Driver& driver, Step const& s) {
    auto const k = keys(GetParam(), s.from, s.from + s.count);
    auto const v = values(GetParam(), s.from, s.from + s.count, s.count % 5 + 1);
    met += driver.store().stats().units_left > 0;
    std::vector<Answer> answers;
    std::vector<Op> ops;
    switch (s.act) {
      case Act::put_new: return put_new(driver, s.count % 60 == 0 ? s.count * 10 : s.count % 60);
      case Act::change: return driver.run_put(k, v);
      case Act::erase: return driver.run_erase({k.begin(), k.begin() + s.count / 8});
      case Act::mixed:
        for (std::size_t i = 0; i < k.size(); ++i)
          ops.push_back({static_cast<OpKind>(i * 7 % 4), k[i], v[i]});
        return driver.run_mixed(ops, Rmw::add, Element::u8);
      case Act::get:
        ASSERT_TRUE(driver.get(k, answers).ok());
        for (std::size_t i = 0; i < k.size(); ++i)
          ASSERT_TRUE(answers[i] ==
                      driver.model.apply({OpKind::get, k[i], {}}, Rmw::replace, Element::u8));
        return;
      case Act::scan: EXPECT_TRUE(scan_all(driver.store(), 10000) == driver.model.held); return;
      case Act::verify: EXPECT_EQ(driver.store().verify().value().fault_count, 0u); return;
      case Act::kill: return reopen_killed(driver);
      case Act::close:
        ASSERT_TRUE(driver.store().close().ok());
        auto store = Store::open(path_, GetParam().open());
        ASSERT_TRUE(store.ok()) << store.status().message();
        return driver.replace(std::move(*store));
    }
  };
  auto const result = rc::detail::checkTestable(
      [&] {
        auto const steps = *rc::gen::container<std::vector<Step>>(step());
        auto driver = open_full();
        if (*rc::gen::inRange(0, 2) == 0) begin(*driver);
        for (Step const& s : steps) {
          take(*driver, s);
          RC_ASSERT(!HasFailure());
        }
        driver->check_held();
        RC_ASSERT(!HasFailure());
      },
      metadata, params);
  if (!result.template is<rc::detail::SuccessResult>()) {
    std::ostringstream why;
    rc::detail::printResultMessage(result, why);
    FAIL() << why.str();
  }
  EXPECT_GT(met, 10u) << "hardly any step came into a growth";
}

std::vector<Config> configs() {
  Shape const shape{1, 2, 2};
  std::vector<Config> all;
  for (Device const device : {Device::cpu, Device::cuda}) {
    std::string const suffix = device == Device::cuda ? "_cuda" : "";
    all.push_back({"word" + suffix, device, Layout::word, shape, 8, 16, false, 2});
    all.push_back(
        {"mirrored" + suffix, device, Layout::word, shape, 8, 16, false, 2, Residency::mirrored});
    all.push_back({"in_place" + suffix, device, Layout::in_place, shape, 8, 16, false, 2});
  }
  return all;
}
INSTANTIATE_TEST_SUITE_P(Tables, Growth, testing::ValuesIn(configs()),
                         [](testing::TestParamInfo<Config> const& config) {
                           return config.param.name;
                         });

// ------------------------------------------------------------------------------------------------

/// The default shape: four levels' worth of slots, 0.97 of them taken before the first growth.
TEST(GrowthOfTheDefaultShape, BeginsAboveALoadOf097) {
  Config const config{"default", Device::cpu, Layout::word, {2, 2, 8}, 8, 8, false, 2};
  ScratchDir const scratch;
  auto store = Store::create(scratch.file("pool"), config.create(slots_of(config, kTop) * 85 / 100),
                             config.open());
  ASSERT_TRUE(store.ok()) << store.status().message();
  ASSERT_EQ(store->stats().top_level, kTop);
  Driver driver(config, std::move(*store));
  std::uint64_t const slots = slots_of(config, kTop);
  std::uint64_t next = 0;
  std::uint64_t before = 0;
  auto const put = [&](std::uint64_t n) {
    std::vector<KeyStatus> statuses;
    before = driver.store().stats().records;
    ASSERT_TRUE(
        driver.put(keys(config, next, next + n), values(config, next, next + n), statuses).ok());
    next += n;
  };
  // Key by key where it may begin, so that one key has found no room, and one unit has moved.
  for (std::uint64_t n = slots / 10; driver.store().stats().growths == 0;
       n = next < slots * 96 / 100 ? n : 1)
    ASSERT_NO_FATAL_FAILURE(
        put(std::min(n, slots * 96 / 100 > next ? slots * 96 / 100 - next : n)));
  EXPECT_GE(static_cast<double>(before), 0.97 * static_cast<double>(slots));
  EXPECT_EQ(driver.store().stats().units_left, 1u) << "of two";
  auto const found = driver.store().verify();
  ASSERT_TRUE(found.ok());
  EXPECT_EQ(found.value().fault_count, 0u);
  EXPECT_EQ(found.value().records, next);
}

/// One batch of far more new keys than a small table has slots makes it grow to its size at once:
/// it reads little more than it would where the keys were expected. (Unit by unit it read fifty
/// times as much; in an atomic batch, five.)
TEST(BulkLoad, OfOneBatchReadsLittleMoreThanWhereItWasExpected) {
  Config const config{"bulk", Device::cpu, Layout::word, {2, 2, 8}, 8, 8, false, 2};
  constexpr std::uint64_t kKeys = 300'000;
  for (bool const atomic : {false, true}) {
    SCOPED_TRACE(atomic ? "atomic" : "plain");
    auto const reads = [&](std::uint64_t expected) {
      ScratchDir const scratch;
      OpenOptions open = config.open();
      open.count_accesses = true;
      auto store = Store::create(scratch.file("pool"), config.create(expected), open);
      EXPECT_TRUE(store.ok()) << store.status().message();
      CallOptions how;
      how.atomic = atomic;
      std::vector<std::uint64_t> column(kKeys);
      std::iota(column.begin(), column.end(), 1u);
      auto const* const bytes = reinterpret_cast<std::byte const*>(column.data());
      Column const both{bytes, nullptr, 8, kKeys};
      Status const put = store->put(both, both, {}, how);
      EXPECT_TRUE(put.ok()) << put.message();
      auto const found = store->verify();
      EXPECT_TRUE(found.ok() && found.value().fault_count == 0);
      EXPECT_EQ(store->stats().records, kKeys);
      return store->stats().accesses.pm_reads;
    };
    std::uint64_t const grown = reads(1000), expected = reads(kKeys);
    EXPECT_LE(grown, expected * 3);
    std::cout << grown << " and " << expected << " words\n";
  }
}

/// One slot a bucket: entries find no room on the new levels again and again, and soon there is
/// none for wider ones.
TEST(GrowthOnAFullMedium, LosesNoKeyAndSaysWhatItRefuses) {
  for (Residency const residency : {Residency::pm, Residency::mirrored}) {
    Config const config{"narrow", Device::cpu, Layout::word, {1, 2, 1}, 8, 8, false, 2, residency};
    for (std::uint64_t const levels : {6u, 8u, 12u, 16u}) {
      ScratchDir const scratch;
      std::string const path = scratch.file("pool");
      FullPool const full(config, path, kTop, (levels + 4) << 20);
      auto store = Store::open(path, config.open());
      ASSERT_TRUE(store.ok()) << store.status().message();
      Driver driver(config, std::move(*store));
      driver.model.held = full.held;
      std::uint64_t next = full.next;
      bool refused = false;
      for (int batch = 0; batch < 60; ++batch, next += 500) {
        Status const s =
            put_what_fits(driver, keys(config, next, next + 500), values(config, next, next + 500));
        ASSERT_TRUE(s.ok() || s.code() == Code::no_space) << s.message();
        refused |= !s.ok();
        if (batch % 20 == 0) driver.check_held();
      }
      driver.check_all();
      EXPECT_TRUE(refused || levels > 8);
      std::string const killed = scratch.file("killed");
      copy_as_if_killed(path, killed);
      for (std::string const& pool : {path, killed}) {
        if (pool == path) {
          ASSERT_TRUE(driver.store().close().ok());
        }
        auto again = Store::open(pool, config.open());
        ASSERT_TRUE(again.ok()) << again.status().message();
        EXPECT_EQ(again->recovery().duplicates, 0u);
        Driver after(config, std::move(*again));
        after.model.held = driver.model.held;
        after.check_all();
      }
    }
  }
}

}  // namespace
}  // namespace perdure::test
