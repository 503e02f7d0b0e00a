// A store whose leaves are durable, after damage: bits that flip in a leaf, in the header of the
// leaves, in the root's entry; and what is refused. Invariant checked everywhere: an opening says
// what is wrong and changes nothing, and a repair says what it dropped, which is all that is not
// there.
#include <gtest/gtest.h>

#include <cstddef>
#include <functional>

#include "index/btree/layout.hpp"
#include "ordered_store.hpp"
#include "pm/root.hpp"
#include "store/btree/leaves/btree_leaves.hpp"
#include "support/whole_file.hpp"

namespace perdure::test {
namespace {

using btree::Entry;
using btree::Leaf;
using btree::Permutation;

/// The file of a pool that was closed, and its leaves.
class Leaves {
 public:
  explicit Leaves(std::string const& path) {
    bytes_ = whole_file(path);
    auto const* const base = reinterpret_cast<std::byte const*>(bytes_.data());
    for (std::uint64_t const offset : pm::kRootOffset) {
      auto const root = pm::read_root(base + offset);
      if (root && root->find(kBtreeLeaves) != nullptr) first_ = root->find(kBtreeLeaves)->offset;
    }
  }
  [[nodiscard]] std::vector<std::uint64_t> all() const {
    std::vector<std::uint64_t> found;
    for (std::uint64_t at = first_; at != 0; at = leaf(at).next) found.push_back(at);
    return found;
  }
  [[nodiscard]] Leaf leaf(std::uint64_t at) const {
    Leaf leaf;
    std::memcpy(&leaf, bytes_.data() + at, sizeof leaf);
    return leaf;
  }
  /// Bytes of a leaf that say something, from its beginning on.
  [[nodiscard]] std::vector<std::size_t> telling(std::uint64_t at) const {
    std::vector<std::size_t> bytes;
    for (std::size_t i = offsetof(Leaf, permutation); i < offsetof(Leaf, entries); ++i)
      bytes.push_back(i);
    Permutation const order(leaf(at).permutation);
    for (unsigned rank = 0; rank < order.count(); ++rank)
      for (std::size_t i = 0; i < sizeof(Entry); ++i)
        bytes.push_back(offsetof(Leaf, entries) + order.slot(rank) * sizeof(Entry) + i);
    return bytes;
  }
  void flip(std::size_t at, unsigned bit) { bytes_[at] = static_cast<char>(bytes_[at] ^ 1 << bit); }
  void set(std::size_t at, std::uint64_t word) { std::memcpy(&bytes_[at], &word, sizeof word); }
  void write(std::string const& path) const {
    std::ofstream(path, std::ios::binary)
        .write(bytes_.data(), static_cast<std::streamsize>(bytes_.size()));
  }
  /// That byte alone.
  void write(std::string const& path, std::size_t at) const {
    std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
    file.seekp(static_cast<std::streamoff>(at)).put(bytes_[at]);
  }

 private:
  std::string bytes_;
  std::uint64_t first_ = 0;
};

constexpr Kind kKinds[] = {{"words", 8, KeyOrder::unsigned_integer, Persist::index},
                           {"variable", 0, KeyOrder::bytes, Persist::index},
                           {"logged", 0, KeyOrder::bytes, Persist::index, Values::log}};

class Damage : public testing::TestWithParam<Kind> {
 protected:
  static constexpr std::uint64_t kRecords = 40;

  Damage() {
    Store store = opened(Store::create(path(), GetParam().create()));
    std::vector<std::pair<Bytes, Bytes>> records;
    for (std::uint64_t n = 0; n < kRecords; ++n)
      records.emplace_back(GetParam().key(n), "value " + std::to_string(n));
    put(store, records);
    erase(store, {records[3].first, records[20].first});
    records.erase(records.begin() + 20);
    records.erase(records.begin() + 3);
    held_ = {records.begin(), records.end()};
    if (!store.close().ok()) throw std::runtime_error("not closed");
  }
  [[nodiscard]] std::string path() const { return scratch_.file("pool"); }
  /// What is left after a repair: all that is not there is counted, and nothing else is.
  std::uint64_t lost_by_repair(Leaves const& damaged) {
    damaged.write(path());
    OpenOptions repair;
    repair.repair = true;
    auto store = Store::open(path(), repair);
    EXPECT_TRUE(store.ok()) << store.status().message();
    if (!store.ok()) return kRecords;
    EXPECT_TRUE(store->recovery().repaired);
    std::uint64_t found = 0;
    for (auto const& [key, value] : all_of(*store, {})) {
      EXPECT_TRUE(held_.contains(key) && held_[key] == value);
      ++found;
    }
    EXPECT_EQ(store->recovery().dropped, held_.size() - found);
    EXPECT_TRUE(store->acknowledge_repair().ok());
    EXPECT_EQ(store->verify()->fault_count, 0u);
    put(*store, {held_.begin(), held_.end()});
    EXPECT_EQ(all_of(*store, {}).size(), held_.size());
    EXPECT_TRUE(store->close().ok());
    EXPECT_TRUE(Store::open(path()).ok());
    return held_.size() - found;
  }
  ScratchDir scratch_;
  std::map<Bytes, Bytes> held_;
};

TEST_P(Damage, EveryFlippedBitOfALeafIsFound) {
  Leaves leaves(path());
  std::uint64_t const leaf = leaves.all().at(1);
  auto const telling = leaves.telling(leaf);
  // The same leaves lead into a log: there some bits will do.
  std::size_t const each = GetParam().values == Values::log ? 8 : 1;
  for (std::size_t i = 0; i < telling.size(); i += each) {
    std::size_t const at = telling[i];
    for (unsigned bit = 0; bit < 8; ++bit) {
      leaves.flip(leaf + at, bit);
      leaves.write(path(), leaf + at);
      Status const s = Store::open(path(), {.threads = 1}).status();
      ASSERT_EQ(s.code(), Code::corrupt) << "byte " << at << " bit " << bit << s.message();
      ASSERT_NE(s.message().find("nothing was changed"), std::string::npos) << s.message();
      leaves.flip(leaf + at, bit);
      leaves.write(path(), leaf + at);
    }
  }
  Store store = opened(Store::open(path()));
  EXPECT_TRUE(store.recovery().clean) << "what was refused has changed nothing";
  EXPECT_EQ(all_of(store, {}).size(), held_.size());
}

TEST_P(Damage, ABitThatFlippedSinceACloseIsPutRight) {
  Leaves leaves(path());
  std::uint64_t const leaf = leaves.all().at(1);
  auto const telling = leaves.telling(leaf);
  for (std::size_t i = 0; i < telling.size(); i += 3) {
    leaves.flip(leaf + telling[i], i % 8);
    EXPECT_EQ(lost_by_repair(leaves), 0u) << "byte " << telling[i] << " bit " << i % 8;
    leaves.flip(leaf + telling[i], i % 8);
  }
}

TEST_P(Damage, OfAKilledStoreARepairKeepsWhatRecordsTell) {
  Store store = opened(Store::open(path()));
  copy_file(path(), scratch_.file("killed"));
  ASSERT_TRUE(store.close().ok());
  Leaves leaves(scratch_.file("killed"));
  std::uint64_t const leaf = leaves.all().at(1);
  std::uint64_t most = 0, mended = 0, refused = 0;
  // Not what leaves say of themselves alone: of a store that was killed nobody knows their sum.
  auto const telling = leaves.telling(leaf);
  for (std::size_t i = offsetof(Leaf, entries) - offsetof(Leaf, permutation); i < telling.size();
       i += 3) {
    leaves.flip(leaf + telling[i], 7);
    leaves.write(path());
    if (Store::open(path()).status().code() == Code::corrupt) {
      std::uint64_t const lost = lost_by_repair(leaves);
      most = std::max(most, lost);
      mended += lost == 0;
      ++refused;
    }
    leaves.flip(leaf + telling[i], 7);
  }
  EXPECT_GT(refused, 20u);
  EXPECT_EQ(most, 1u) << "an entry that leads to no record is lost, and nothing else";
  EXPECT_GT(mended, 0u) << "a prefix is its record's";
}

TEST_P(Damage, WhatNoRepairFindsIsLostAndSaid) {
  Leaves leaves(path());
  std::uint64_t const leaf = leaves.all().at(1);
  leaves.set(leaf + offsetof(Leaf, permutation), 0x3333);
  EXPECT_GT(lost_by_repair(leaves), 1u);
  leaves.set(leaf + offsetof(Leaf, permutation), Permutation::of_first(0).word());
  leaves.set(leaf + offsetof(Leaf, next), 4096);
  EXPECT_GT(lost_by_repair(leaves), 14u) << "all leaves behind it";
}

TEST_P(Damage, AHeaderOfLeavesIsPutRight) {
  Leaves leaves(path());
  std::uint64_t const superblock = leaves.all().at(0) & ~(pm::kMinSuperblock - 1);
  leaves.flip(superblock + 9, 3);
  leaves.write(path());
  EXPECT_EQ(Store::open(path()).status().code(), Code::corrupt);
  EXPECT_EQ(lost_by_repair(leaves), 0u);
}

TEST_P(Damage, ALockOfAKilledWriterHoldsNobodyUp) {
  Leaves leaves(path());
  leaves.set(leaves.all().at(1) + offsetof(Leaf, version), 8 | 3);
  leaves.write(path());
  Status const s = Store::open(path()).status();
  EXPECT_NE(s.message().find("locked"), std::string::npos) << "nobody was killed: " << s.message();
  EXPECT_EQ(lost_by_repair(leaves), 0u);
}

TEST_P(Damage, ReadOnlyOpeningsReadAndChangeNothing) {
  Leaves const before(path());
  OpenOptions options;
  options.read_only = true;
  Store store = opened(Store::open(path(), options));
  EXPECT_EQ(all_of(store, {}).size(), held_.size());
  EXPECT_EQ(store.verify()->fault_count, 0u);
  ASSERT_TRUE(store.close().ok());
  Leaves const after(path());
  for (std::uint64_t const at : before.all()) {
    Leaf const was = before.leaf(at), is = after.leaf(at);
    EXPECT_EQ(std::memcmp(&was, &is, sizeof was), 0);
  }
}

INSTANTIATE_TEST_SUITE_P(Keys, Damage, testing::ValuesIn(kKinds),
                         [](auto const& one) { return std::string(one.param.name); });

TEST(DurableLeaves, AreOfIndexBtreeAlone) {
  CreateOptions create;
  create.persist = Persist::index;
  Status s = Store::create("memfd:gphash", create).status();
  EXPECT_EQ(s.code(), Code::invalid_argument);
  EXPECT_NE(s.message().find("index btree"), std::string::npos) << s.message();
  create.index = Index::btree;
  create.persist = static_cast<Persist>(9);
  EXPECT_EQ(Store::create("memfd:nine", create).status().code(), Code::invalid_argument);
  create.persist = Persist::full;
  create.values = Values::log;
  s = Store::create("memfd:log", create).status();
  EXPECT_EQ(s.code(), Code::unsupported);
  EXPECT_NE(s.message().find("minimal"), std::string::npos) << s.message();
}

/// What docs/ordered.md says of an operation: ordering points, and lines that are flushed.
TEST(DurableLeaves, CostThreeOrderingPointsAnInsertionTwoAnUpdateAndOneAnErasure) {
  for (Kind const& kind : kKinds) {
    if (kind.values == Values::log) continue;
    OpenOptions counting;
    counting.count_accesses = true;
    Store store = opened(Store::create("memfd:counted", kind.create(), counting));
    auto const orders = [&](auto operate) {
      std::uint64_t const before = store.stats().accesses.orders;
      operate();
      return store.stats().accesses.orders - before;
    };
    std::vector<std::pair<Bytes, Bytes>> few;
    for (std::uint64_t n = 0; n < 14; ++n) few.emplace_back(kind.key(n), "value");
    EXPECT_EQ(orders([&] { put(store, few); }), 3 * few.size());
    EXPECT_EQ(orders([&] { put(store, few); }), 2 * few.size());
    EXPECT_EQ(orders([&] { erase(store, {few[3].first, few[4].first}); }), 2u);
  }
}

TEST(DurableLeaves, AFullPoolRefusesAndLosesNothing) {
  ScratchDir scratch;
  std::string const path = scratch.file("pool");
  Kind const kind{"", 8, KeyOrder::unsigned_integer, Persist::index};
  CreateOptions create = kind.create();
  create.max_bytes = 3 << 20;  // a superblock of leaves, and one of records
  std::uint64_t held = 0;
  {
    Store store = opened(Store::create(path, create));
    for (Status s; s.ok();) {
      std::vector<Bytes> keys, values;
      for (std::uint64_t n = 0; n < 1000; ++n) keys.push_back(kind.key(held + n));
      values.assign(keys.size(), "v");
      std::vector<KeyStatus> statuses(keys.size());
      Packed const k(keys, 8), v(values, 0);
      s = store.put(k.column(), v.column(), statuses);
      held += static_cast<std::uint64_t>(std::ranges::count(statuses, KeyStatus::ok));
      EXPECT_TRUE(s.ok() || s.code() == Code::no_space) << s.message();
    }
    EXPECT_EQ(store.stats().records, held);
    erase(store, {kind.key(0)});
    put(store, {{kind.key(0), "again"}});
    EXPECT_EQ(store.verify()->fault_count, 0u);
  }
  Store store = opened(Store::open(path));
  EXPECT_EQ(store.recovery().records, held);
  EXPECT_EQ(store.stats().persist, Persist::index);
}

/// Small records have room when the leaves of a falling sequence, which are half full, have none.
TEST(DurableLeaves, TakeTheRoomThatRecordsLeft) {
  CreateOptions create = Kind{"", 8, KeyOrder::unsigned_integer, Persist::index}.create();
  create.max_bytes = 8 << 20;
  ScratchDir scratch;
  Store store = opened(Store::create(scratch.file("pool"), create));
  auto const key = [](std::uint64_t n) {
    return Bytes(reinterpret_cast<char const*>(&n), sizeof n);
  };
  std::uint64_t const most = 1u << 20;
  put(store, {{key(most), ""}});
  std::uint64_t large = 1;
  Bytes const value(200'000, 'l');
  while (store.put(Packed({key(most + large)}, 8).column(), Packed({value}, 0).column()).ok())
    ++large;
  while (--large > 0) erase(store, {key(most + large)});
  for (int i = 0; i < 1000; ++i) put(store, {{key(most), ""}});  // readers are waited for by then
  Status s;
  for (std::uint64_t n = 1; s.ok() && n < 31'000; ++n)
    s = store.put(Packed({key(most - n)}, 8).column(), Packed({Bytes()}, 0).column());
  EXPECT_TRUE(s.ok()) << s.message();
  EXPECT_EQ(store.stats().records, 31'000u);
  EXPECT_EQ(store.verify()->fault_count, 0u);
}

}  // namespace
}  // namespace perdure::test
