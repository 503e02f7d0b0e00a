// What generated walks do not reach: wide columns, long runs, hot keys, views that are replaced or
// outlived, and a machine that is lost.
#include <gtest/gtest.h>

#include <array>
#include <functional>

#include "rocks/iterator_world.hpp"

namespace perdure::lsm::test {
namespace {

/// How runs hold keys: as numbers, with a common beginning, and as they are.
constexpr std::array<char const*, 3> kBeginnings{"", "key", "a long beginning of all keys / "};

std::string numbered(std::uint32_t i, std::string const& begin = "key") {
  std::string digits = std::to_string(i);
  return begin + std::string(6 - digits.size(), '0') + digits;
}

/// By windows, and as runs lie in host memory.
class RocksIteratorParts : public testing::TestWithParam<bool> {
 protected:
  void direct(World& world) const {
    world.engine.direct_from = GetParam() ? 0 : CountingEngine::kNever;
  }
};
INSTANTIATE_TEST_SUITE_P(Ways, RocksIteratorParts, testing::Bool(), [](auto const& way) {
  return std::string(way.param ? "direct" : "windows");
});

std::vector<std::string> all_forward(rocksdb::Iterator& iterator) {
  std::vector<std::string> all;
  for (iterator.SeekToFirst(); iterator.Valid(); iterator.Next()) all.push_back(seen(iterator));
  all.push_back(seen(iterator));
  return all;
}
std::vector<std::string> all_backward(rocksdb::Iterator& iterator) {
  std::vector<std::string> all;
  for (iterator.SeekToLast(); iterator.Valid(); iterator.Prev()) all.push_back(seen(iterator));
  all.push_back(seen(iterator));
  return all;
}

void expect_the_same(World& world, rocksdb::ReadOptions const& options = {}) {
  auto const truth = world.true_one(options);
  auto const tested = world.tested(options);
  EXPECT_EQ(all_forward(*tested), all_forward(*truth));
  EXPECT_EQ(all_backward(*tested), all_backward(*truth));
}

// Three runs and RocksDB, with keys taken in turn.
Plan long_plan(std::uint32_t keys, std::string const& begin = "key") {
  Plan plan;
  plan.flush_older = true;
  plan.runs.resize(3);
  for (std::uint32_t i = 0; i < keys; ++i) {
    Writes& where = i % 4 == 3 ? plan.older : plan.runs[i % 4];
    where.push_back({numbered(i, begin), Kind::put, "v" + std::to_string(i)});
    if (i % 7 == 0) plan.runs[2].push_back({numbered(i, begin), Kind::erase, ""});
  }
  return plan;
}

TEST_P(RocksIteratorParts, LongScansPassManyWindowsInFewTrips) {
  World world(long_plan(30000), small_blocks(false));
  direct(world);
  expect_the_same(world);
  world.engine.trips = 0;
  auto const tested = world.tested({});
  all_forward(*tested);
  EXPECT_LE(world.engine.trips, GetParam() ? 0u : 24u) << "a run of 10,000 entries takes 6 windows";
  world.engine.trips = 0;
  tested->Seek(numbered(15000));
  for (int i = 0; i < 100; ++i) tested->Next();
  EXPECT_LE(world.engine.trips, GetParam() ? 0u : 12u) << "of each run a search and two windows";
}

TEST_P(RocksIteratorParts, TurningRoundAtTheEdgesOfWindowsMissesNothing) {
  for (char const* begin : kBeginnings) {
    World world(long_plan(1200, begin), small_blocks(false));
    direct(world);
    auto const truth = world.true_one({});
    auto const tested = world.tested({});
    truth->SeekToFirst();
    tested->SeekToFirst();
    for (int i = 0; truth->Valid(); ++i) {  // seven forward, three back
      ASSERT_EQ(seen(*tested), seen(*truth)) << "step " << i;
      bool const back = i % 10 >= 7;
      for (rocksdb::Iterator* it : {truth.get(), tested.get()}) back ? it->Prev() : it->Next();
    }
    EXPECT_EQ(seen(*tested), seen(*truth));
  }
}

TEST_P(RocksIteratorParts, SeeksFindTheirPlaceInKeysOfAnyShape) {
  for (char const* begin : kBeginnings) {
    World world(long_plan(1000, begin), small_blocks(false));
    direct(world);
    auto const truth = world.true_one({});
    auto const tested = world.tested({});
    for (std::uint32_t i = 0; i < 1010; i += 3) {
      for (std::string const& key :
           {numbered(i, begin), numbered(i, begin) + "5", numbered(i, begin).substr(0, 5)}) {
        for (rocksdb::Iterator* it : {truth.get(), tested.get()}) it->Seek(key);
        ASSERT_EQ(seen(*tested), seen(*truth)) << key;
        for (rocksdb::Iterator* it : {truth.get(), tested.get()}) it->SeekForPrev(key);
        ASSERT_EQ(seen(*tested), seen(*truth)) << key;
      }
    }
  }
}

TEST_P(RocksIteratorParts, RunsWhoseKeysBeginAlikeInDifferentLengthsAreOneOrder) {
  Plan plan;
  plan.runs = {{{"the same begin a", Kind::put, "0"}, {"the same begin z", Kind::put, "1"}},
               {{"the same bed", Kind::put, "2"}, {"the same boat", Kind::put, "3"}},
               {{"the same begin b", Kind::put, "4"}, {"the same begin", Kind::put, "5"}}};
  World world(plan, small_blocks(false));
  direct(world);
  expect_the_same(world);
}

TEST_P(RocksIteratorParts, ManyVersionsOfAKeyAreOneKey) {
  Plan plan;
  plan.older = {{"a", Kind::put, "0"}, {"hot", Kind::put, "0"}, {"z", Kind::put, "0"}};
  plan.runs.resize(2);
  for (int i = 0; i < 5000; ++i) {
    plan.runs[0].push_back({"hot", Kind::put, std::to_string(i)});
    plan.runs[1].push_back({"warm", i % 100 == 0 ? Kind::put : Kind::merge, std::to_string(i)});
    plan.unseen.push_back({i % 2 == 0 ? "hot" : "warm", Kind::put, "unseen"});
  }
  World world(plan, small_blocks(false));
  direct(world);
  expect_the_same(world);
  auto const tested = world.tested({});
  for (char const* target : {"hot", "i", "warm", "wary"}) {
    auto const truth = world.true_one({});
    tested->SeekForPrev(target);
    truth->SeekForPrev(target);
    EXPECT_EQ(seen(*tested), seen(*truth)) << target;
    tested->Seek(target);
    truth->Seek(target);
    EXPECT_EQ(seen(*tested), seen(*truth)) << target;
  }
}

TEST_P(RocksIteratorParts, ASeekToAnEndGoesOnIntoTheNextPrefixWhereTombstonesHideTheFirst) {
  Plan plan;
  plan.older = {{"aa0", Kind::put, "v"},
                {"ab0", Kind::put, "v"},
                {"ab1", Kind::put, "v"},
                {"ac0", Kind::put, "v"},
                {"ad0", Kind::put, "v"}};
  plan.runs = {{{"aa0", Kind::erase, ""}, {"ad0", Kind::erase, ""}}};
  World world(plan, small_blocks(true));
  direct(world);
  rocksdb::ReadOptions options;
  options.prefix_same_as_start = true;
  expect_the_same(world, options);
  EXPECT_EQ(all_forward(*world.tested(options)).size(), 3u) << "ab0, ab1 and the end";
}

TEST_P(RocksIteratorParts, EntitiesKeepTheirColumns) {
  Plan plan;
  plan.runs = {{{"a", Kind::put, "plain"}, {"c", Kind::erase, ""}, {"e", Kind::put, "newer"}},
               {{"d", Kind::merge, "operand"}}};
  World world(plan, small_blocks(false));
  direct(world);
  World empty({}, small_blocks(false));
  direct(empty);
  rocksdb::WideColumns const columns{{rocksdb::kDefaultWideColumnName, "x"}, {"color", "red"}};
  // The truth's come first there, too.
  for (char const* key : {"b", "c", "d", "e"}) {
    for (Database const* db : {&world.base, &empty.truth}) {
      must((*db)->PutEntity({}, (*db)->DefaultColumnFamily(), key, columns));
    }
  }
  for (Writes const& run : plan.runs) empty.truth.apply(run);
  IteratorView view = world.view();
  view.lsm.snapshot = nullptr;
  auto const tested = new_iterator({}, world.family(), view, {});
  std::unique_ptr<rocksdb::Iterator> const truth(empty.truth->NewIterator({}));
  EXPECT_EQ(all_forward(*tested), all_forward(*truth));
  EXPECT_EQ(all_backward(*tested), all_backward(*truth));
  EXPECT_EQ(tested->status().IsNotSupported(), !kEntitiesMerge);  // at d
}

TEST_P(RocksIteratorParts, ASeekToItsOwnKeyStaysThere) {
  World world(long_plan(40), small_blocks(false));
  direct(world);
  auto const tested = world.tested({});
  for (tested->SeekToFirst(); tested->Valid(); tested->Next()) {
    std::string const before = seen(*tested);
    tested->Seek(tested->key());
    EXPECT_EQ(seen(*tested), before);
    tested->SeekForPrev(tested->key());
    EXPECT_EQ(seen(*tested), before);
  }
}

TEST_P(RocksIteratorParts, PinnedKeysStayAsLongAsTheIterator) {
  for (char const* begin : kBeginnings) {
    World world(long_plan(3000, begin), small_blocks(false));
    direct(world);
    rocksdb::ReadOptions options;
    options.pin_data = true;
    auto const tested = world.tested(options);
    std::vector<std::pair<rocksdb::Slice, std::string>> keys;
    for (tested->SeekToFirst(); tested->Valid(); tested->Next()) {
      std::string pinned;
      must(tested->GetProperty("rocksdb.iterator.is-key-pinned", &pinned));
      ASSERT_EQ(pinned, "1") << tested->key().ToString();
      keys.emplace_back(tested->key(), tested->key().ToString());
    }
    EXPECT_GT(keys.size(), 2000u);
    for (auto const& [slice, copy] : keys) EXPECT_EQ(slice, copy);
  }
}

TEST_P(RocksIteratorParts, TheEmptyKeyIsAKey) {
  Plan plan;
  plan.runs = {{{"", Kind::put, "v"}}};
  World world(plan, small_blocks(false));
  direct(world);
  rocksdb::ReadOptions options;
  options.pin_data = true;
  expect_the_same(world, options);
  auto const tested = world.tested(options);
  tested->SeekToFirst();
  ASSERT_TRUE(tested->Valid());
  EXPECT_NE(tested->key().data(), nullptr) << "to RocksDB, null is no key";
}

TEST_P(RocksIteratorParts, PropertiesAnswerAsRocksDbsDo) {
  World world(long_plan(40), small_blocks(false));
  direct(world);
  auto const tested = world.tested({});
  auto const truth = world.true_one({});
  std::string value;
  std::string expected;
  tested->SeekToFirst();
  truth->SeekToFirst();
  for (char const* name : {"rocksdb.iterator.is-key-pinned", "rocksdb.iterator.internal-key"}) {
    must(tested->GetProperty(name, &value));
    must(truth->GetProperty(name, &expected));
    EXPECT_EQ(value, expected) << name;
  }
  must(tested->GetProperty("rocksdb.iterator.super-version-number", &value));
  EXPECT_FALSE(value.empty());
  EXPECT_TRUE(tested->GetProperty("rocksdb.iterator.color", &value).IsInvalidArgument());
  EXPECT_TRUE(tested->GetProperty("rocksdb.iterator.color", nullptr).IsInvalidArgument());
}

// The current view of a world, as a database would hand it out.
struct Current {
  World* world;
  rocksdb::Status operator()(IteratorView& view) const {
    view = world->view();
    return rocksdb::Status::OK();
  }
};

TEST_P(RocksIteratorParts, RefreshTakesTheCurrentView) {
  World world(long_plan(8), small_blocks(false));
  direct(world);
  auto const fixed = world.tested({});
  EXPECT_TRUE(fixed->Refresh().IsNotSupported());
  auto const tested = new_iterator({}, world.family(), world.view(), Current{&world});
  tested->SeekToFirst();
  Writes const more{{"aaa", Kind::put, "first"}};
  world.add_run(more);
  world.limit += 100;
  world.owner = std::make_shared<int>(1);
  tested->SeekToFirst();
  EXPECT_NE(tested->key(), "aaa");
  must(tested->Refresh());
  EXPECT_FALSE(tested->Valid());
  tested->SeekToFirst();
  EXPECT_EQ(tested->key(), "aaa");
}

TEST_P(RocksIteratorParts, ATailingIteratorSeesTheCurrentViewAtEverySeek) {
  World world(long_plan(8), small_blocks(false));
  direct(world);
  rocksdb::ReadOptions options;
  options.tailing = true;
  auto const tested = new_iterator(options, world.family(), world.view(), Current{&world});
  tested->SeekToLast();
  Writes const more{{"zzz", Kind::put, "last"}};
  world.add_run(more);
  world.limit += 100;
  world.owner = std::make_shared<int>(1);
  tested->Seek(tested->key());
  ASSERT_TRUE(tested->Valid());
  tested->Next();
  ASSERT_TRUE(tested->Valid());
  EXPECT_EQ(tested->key(), "zzz");
}

TEST_P(RocksIteratorParts, AnIteratorKeepsItsViewWhileMemtablesAreFlushedAndDropped) {
  World world(long_plan(2000), small_blocks(false));
  direct(world);
  auto const truth = world.true_one({});
  std::weak_ptr<void const> const held = world.owner;
  auto tested = world.tested({});
  world.owner.reset();
  EXPECT_FALSE(held.expired());
  for (auto const& run : long_plan(2000).runs) world.base.apply(run);  // as a flush would
  world.base.flush();
  world.drop_runs();
  EXPECT_EQ(all_forward(*tested), all_forward(*truth));
  tested.reset();
  EXPECT_TRUE(held.expired());
}

TEST(RocksIteratorMachine, MayHandItsRunsToTheHostBetweenSeeks) {
  for (char const* begin : kBeginnings) {
    World world(long_plan(400, begin), small_blocks(false));
    world.engine.direct_from = 8;  // of three runs, one at the third seek, all from the next on
    rocksdb::ReadOptions options;
    options.pin_data = true;
    auto const truth = world.true_one({});
    auto const tested = world.tested(options);
    for (std::uint32_t i = 0; i < 6; ++i) {
      for (rocksdb::Iterator* it : {truth.get(), tested.get()}) it->Seek(numbered(i * 60, begin));
      rocksdb::Slice const key = tested->key();
      std::string const copy = key.ToString();
      for (int step = 0; step < 90 && truth->Valid(); ++step) {
        ASSERT_EQ(seen(*tested), seen(*truth)) << "step " << step;
        bool const back = step % 10 >= 7;
        for (rocksdb::Iterator* it : {truth.get(), tested.get()}) back ? it->Prev() : it->Next();
      }
      EXPECT_EQ(key, copy);
    }
    world.engine.lost = true;
    tested->SeekToFirst();
    EXPECT_TRUE(tested->Valid()) << "what the host has needs no machine";
  }
}

TEST(RocksIteratorMachine, ThatIsLostIsAnErrorUntilTheNextSeek) {
  World world(long_plan(2000), small_blocks(false));
  auto const tested = world.tested({});
  tested->SeekToFirst();
  world.engine.lost = true;
  while (tested->Valid()) tested->Next();
  EXPECT_TRUE(tested->status().IsIOError()) << tested->status().ToString();
  tested->SeekToLast();
  EXPECT_FALSE(tested->Valid());
  EXPECT_TRUE(tested->status().IsIOError()) << tested->status().ToString();
  world.engine.lost = false;
  tested->SeekToLast();
  EXPECT_TRUE(tested->Valid()) << tested->status().ToString();
  EXPECT_TRUE(tested->status().ok());
}

TEST_P(RocksIteratorParts, OperandsWithoutAnOperatorAreRefused) {
  Plan plan;
  plan.runs = {{{"a", Kind::put, "v"}, {"b", Kind::merge, "m"}}};
  rocksdb::Options options = small_blocks(false);
  World world(plan, options);
  direct(world);
  IteratorFamily family = world.family();
  family.merge_operator.reset();
  auto const tested = new_iterator({}, family, world.view(), {});
  tested->SeekToFirst();
  ASSERT_TRUE(tested->Valid());
  tested->Next();
  EXPECT_FALSE(tested->Valid());
  EXPECT_TRUE(tested->status().IsInvalidArgument()) << tested->status().ToString();
}

TEST_P(RocksIteratorParts, TooManyHiddenKeysInARowAreIncomplete) {
  Plan plan;
  plan.runs.resize(1);
  for (std::uint32_t i = 0; i < 50; ++i) plan.runs[0].push_back({numbered(i), Kind::erase, ""});
  plan.runs[0].push_back({"z", Kind::put, "v"});
  World world(plan, small_blocks(false));
  direct(world);
  rocksdb::ReadOptions options;
  options.max_skippable_internal_keys = 49;
  auto tested = world.tested(options);
  tested->SeekToFirst();
  EXPECT_TRUE(tested->status().IsIncomplete()) << tested->status().ToString();
  options.max_skippable_internal_keys = 50;
  tested = world.tested(options);
  tested->SeekToFirst();
  EXPECT_TRUE(tested->Valid()) << tested->status().ToString();
}

}  // namespace
}  // namespace perdure::lsm::test
