// Ranges of a store of index btree against a sorted map: generated sequences of writes, openings
// and ranges, for each order of keys; loads of sorted batches; threads that write meanwhile; what
// is refused.
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <atomic>
#include <set>
#include <thread>

#include "ordered_store.hpp"

namespace perdure::test {
namespace {

constexpr Kind kKinds[] = {{"words", 8},
                           {"three", 3},
                           {"long", 24},
                           {"variable", 0},
                           {"unsigned4", 4, KeyOrder::unsigned_integer},
                           {"unsigned8", 8, KeyOrder::unsigned_integer},
                           {"signed2", 2, KeyOrder::signed_integer},
                           {"signed8", 8, KeyOrder::signed_integer},
                           {"words_index", 8, KeyOrder::bytes, Persist::index},
                           {"variable_index", 0, KeyOrder::bytes, Persist::index},
                           {"signed4_index", 4, KeyOrder::signed_integer, Persist::index},
                           {"variable_log", 0, KeyOrder::bytes, Persist::index, Values::log},
                           {"words_full", 8, KeyOrder::bytes, Persist::full},
                           {"variable_full", 0, KeyOrder::bytes, Persist::full}};

class Life {
 public:
  explicit Life(Kind const& kind)
      : kind_(kind),
        held_(Before{kind.order}),
        store_(opened(Store::create(scratch_.file("pool"), kind.create()))) {}

  void step() {
    switch (*rc::gen::inRange(0, 8)) {
      case 0:
      case 1:
      case 2: return put_some();
      case 3: return erase_some();
      case 4: return *rc::gen::inRange(0, 4) == 0 ? reopen() : ask();
      default: return ask();
    }
  }

 private:
  [[nodiscard]] Bytes any_key() const {
    return kind_.key(*rc::gen::inRange<std::uint64_t>(0, 400));
  }
  void put_some() {
    std::vector<std::pair<Bytes, Bytes>> records;
    auto const n = *rc::gen::inRange<std::size_t>(1, 80);
    for (std::size_t i = 0; i < n; ++i) {
      ++version_;
      records.emplace_back(any_key(), std::to_string(version_) + Bytes(version_ % 50, 'v'));
      held_[records.back().first] = records.back().second;
    }
    put(store_, records);
  }
  void erase_some() {
    std::vector<Bytes> keys;
    auto const n = *rc::gen::inRange<std::size_t>(1, 120);
    for (std::size_t i = 0; i < n; ++i) {
      keys.push_back(any_key());
      held_.erase(keys.back());
    }
    erase(store_, keys);
  }
  void reopen() {
    std::string const path = scratch_.file("pool");
    if (*rc::gen::arbitrary<bool>()) {
      RC_ASSERT(store_.close().ok());
      store_ = opened(Store::open(path));
      RC_ASSERT(store_.recovery().clean);
    } else {  // as a kill leaves it
      std::string const copy = scratch_.file("copy");
      copy_file(path, copy);
      RC_ASSERT(store_.close().ok());
      copy_file(copy, path);
      store_ = opened(Store::open(path));
      RC_ASSERT(!store_.recovery().clean);
    }
    RC_ASSERT(store_.recovery().records == held_.size());
    auto report = store_.verify();
    RC_ASSERT(report.ok() && report->fault_count == 0u);
  }
  void ask() {
    RangeQuery query;
    auto from = held_.begin(), to = held_.end();
    if (*rc::gen::arbitrary<bool>()) {
      Bytes const start = any_key();
      query.start = octets(start);
      query.after_start = *rc::gen::arbitrary<bool>();
      from = query.after_start ? held_.upper_bound(start) : held_.lower_bound(start);
    }
    if (*rc::gen::arbitrary<bool>()) {
      Bytes const end = any_key();
      query.end = octets(end);
      to = held_.lower_bound(end);
      bool const none =
          from == held_.end() || (to != held_.end() && !held_.key_comp()(from->first, to->first));
      if (none) to = from;
    }
    query.reverse = *rc::gen::arbitrary<bool>();
    query.limit = *rc::gen::inRange<std::size_t>(1, 100);
    std::vector<std::pair<Bytes, Bytes>> expected(from, to);
    if (query.reverse) std::reverse(expected.begin(), expected.end());
    RC_ASSERT(all_of(store_, query) == expected);
    auto counted = store_.count_range(query);
    RC_ASSERT(counted.ok() && *counted == expected.size());
  }

  Kind const& kind_;
  ScratchDir scratch_;
  Sorted held_;
  Store store_;
  std::uint64_t version_ = 0;
};

class Ranges : public testing::TestWithParam<Kind> {};

TEST_P(Ranges, AreThoseOfASortedMap) {
  EXPECT_TRUE(rc::check([] {
    Life life(GetParam());
    for (int i = 0; i < 12; ++i) life.step();
  }));
}

TEST_P(Ranges, ASortedBatchIntoAnEmptyStoreIsAsAnyOther) {
  constexpr std::uint64_t kMany = 6000;
  Sorted held(Before{GetParam().order});
  for (std::uint64_t n = 0; n < kMany; ++n) held[GetParam().key(n)] = "value " + std::to_string(n);
  std::vector<std::pair<Bytes, Bytes>> const records(held.begin(), held.end());
  ScratchDir scratch;
  Store store = opened(Store::create(scratch.file("loaded"), GetParam().create()));
  put(store, records);
  EXPECT_EQ(store.stats().records, held.size());
  bool const loaded = records.size() >= 4096;  // of keys of three bytes there are fewer
  bool const filled = loaded && GetParam().values == Values::heap;
  EXPECT_TRUE(!filled || store.stats().load_factor > 0.99) << "leaves are full";
  EXPECT_EQ(all_of(store, {}), records);
  EXPECT_EQ(store.verify().value().fault_count, 0u);
  put(store, {{records[7].first, "another"}});
  erase(store, {records[8].first});
  auto page = store.range({.start = octets(records[6].first), .limit = 3});
  ASSERT_TRUE(page.ok());
  EXPECT_EQ(unpack(page->values),
            (std::vector<Bytes>{records[6].second, "another", records[9].second}));
  auto const left = all_of(store, {});
  copy_file(scratch.file("loaded"), scratch.file("killed"));
  Store killed = opened(Store::open(scratch.file("killed")));
  EXPECT_FALSE(killed.recovery().clean);
  EXPECT_EQ(all_of(killed, {}), left);
  EXPECT_EQ(killed.verify().value().fault_count, 0u);
}

TEST_P(Ranges, AScanGoesInTheOrderOfKeys) {
  Store store = opened(Store::create("memfd:scanned", GetParam().create()));
  Sorted held(Before{GetParam().order});
  for (std::uint64_t n = 0; n < 300; ++n) held[GetParam().key(n)] = std::to_string(n);
  put(store, {held.rbegin(), held.rend()});
  std::vector<Bytes> seen;
  for (ScanCursor cursor; !cursor.done;) {
    auto page = store.scan(cursor, 7);
    ASSERT_TRUE(page.ok()) << page.status().message();
    for (Bytes const& key : unpack(page->keys)) seen.push_back(key);
    cursor = page->next;
  }
  std::vector<Bytes> expected;
  for (auto const& [key, value] : held) expected.push_back(key);
  EXPECT_EQ(seen, expected);
}

TEST_P(Ranges, SnapshotsKeepTheOrder) {
  ScratchDir scratch;
  Store store = opened(Store::create("memfd:from", GetParam().create()));
  for (std::uint64_t n = 0; n < 50; ++n) put(store, {{GetParam().key(n), std::to_string(n)}});
  ASSERT_TRUE(store.snapshot(scratch.file("snapshot")).ok());
  Store back = opened(Store::restore(scratch.file("snapshot"), scratch.file("pool")));
  EXPECT_EQ(back.key_order(), GetParam().order);
  EXPECT_EQ(back.index(), Index::btree);
  EXPECT_EQ(all_of(back, {}), all_of(store, {}));
}

INSTANTIATE_TEST_SUITE_P(Keys, Ranges, testing::ValuesIn(kKinds),
                         [](auto const& one) { return std::string(one.param.name); });

TEST(RangesBesideWriters, SeeEachKeyThatStaysOnceAndInOrder) {
  Kind const kind{"variable", 0};
  Store store = opened(Store::create("memfd:beside", kind.create()));
  constexpr std::uint64_t kStay = 400;
  std::set<Bytes> stay;
  for (std::uint64_t n = 0; n < kStay; ++n) {
    stay.insert(kind.key(2 * n));
    put(store, {{kind.key(2 * n), "0"}});
  }
  std::atomic<bool> stop{false};
  std::thread writer([&] {
    for (std::uint64_t version = 1; !stop; ++version) {
      std::vector<std::pair<Bytes, Bytes>> both;
      std::vector<Bytes> odd;
      for (std::uint64_t i = 0; i < 50; ++i) {
        std::uint64_t const n = (version * 37 + i) % kStay;
        both.emplace_back(kind.key(2 * n), std::to_string(version));
        both.emplace_back(kind.key(2 * n + 1), std::to_string(version));
        odd.push_back(kind.key(2 * n + 1));
      }
      put(store, both);
      erase(store, odd);
    }
  });
  for (int round = 0; round < 60; ++round) {
    RangeQuery query;
    query.reverse = round % 2 == 1;
    query.limit = 1 + static_cast<std::size_t>(round) * 7;
    auto seen = all_of(store, query);
    if (query.reverse) std::reverse(seen.begin(), seen.end());
    std::size_t stayed = 0;
    for (std::size_t i = 0; i < seen.size(); ++i) {
      EXPECT_TRUE(i == 0 || seen[i - 1].first < seen[i].first) << "out of order, or twice";
      stayed += stay.contains(seen[i].first);
    }
    EXPECT_EQ(stayed, kStay) << "round " << round;
  }
  stop = true;
  writer.join();
  EXPECT_EQ(store.verify().value().fault_count, 0u);
}

TEST(SortedBatches, IntoAnEmptyStoreOfLogsAreInTheLog) {
  ScratchDir scratch;
  Kind const kind{"", 8, KeyOrder::unsigned_integer};
  CreateOptions create = kind.create();
  create.values = Values::log;
  Sorted held(Before{kind.order});
  for (std::uint64_t n = 0; n < 5000; ++n) held[kind.key(n)] = "value " + std::to_string(n);
  Store store = opened(Store::create(scratch.file("pool"), create));
  put(store, {held.begin(), held.end()});
  ASSERT_TRUE(store.close().ok());
  Store again = opened(Store::open(scratch.file("pool")));
  EXPECT_EQ(again.stats().records, held.size());
  EXPECT_EQ(all_of(again, {}), (std::vector<std::pair<Bytes, Bytes>>{held.begin(), held.end()}));
}

TEST(RangesAreRefused, ByIndexesWithoutOrder) {
  for (Index const index : {Index::gphash, Index::dash_eh, Index::dash_lh}) {
    CreateOptions create;
    create.index = index;
    Store store = opened(Store::create("memfd:unordered", create));
    for (Status const& s : {store.range({}).status(), store.count_range({}).status()}) {
      EXPECT_EQ(s.code(), Code::unsupported);
      EXPECT_NE(s.message().find("index btree"), std::string::npos) << s.message();
    }
    create.key_order = KeyOrder::signed_integer;
    Status const s = Store::create("memfd:unordered", create).status();
    EXPECT_EQ(s.code(), Code::invalid_argument);
    EXPECT_NE(s.message().find("key_order"), std::string::npos) << s.message();
  }
}

TEST(RangesAreRefused, WhereKeysAndBoundsDoNotFit) {
  CreateOptions create = Kind{"", 5, KeyOrder::unsigned_integer}.create();
  Status const five = Store::create("memfd:five", create).status();
  EXPECT_EQ(five.code(), Code::invalid_argument);
  EXPECT_NE(five.message().find("1, 2, 4 or 8 bytes, not 5"), std::string::npos) << five.message();

  Store words = opened(Store::create("memfd:words", Kind{"", 8}.create()));
  EXPECT_EQ(words.range({.start = octets("123456789")}).status().code(), Code::invalid_argument);
  put(words, {{"abcdefgh", "1"}, {"abd_____", "2"}});
  EXPECT_EQ(all_of(words, {.start = octets("abd")}).size(), 1u) << "the least that begins so";
  Store numbers = opened(Store::create("memfd:n", Kind{"", 8, KeyOrder::signed_integer}.create()));
  EXPECT_EQ(numbers.count_range({.end = octets("1234")}).status().code(), Code::invalid_argument);
}

}  // namespace
}  // namespace perdure::test
