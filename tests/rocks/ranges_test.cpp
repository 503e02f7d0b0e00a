// Ranges as arrays against plain RocksDB: sequences of writes, deletions of ranges, flushes and
// snapshots on both, and after each of them ranges of every kind. What is in memtables is read by
// the machine, and what lies below is merged in.
#include <algorithm>
#include <cstdint>
#include <map>
#include <random>
#include <set>
#include <utility>

#include "lsm/rocks/rocksdb_version.hpp"
#include "rocks/arrays_world.hpp"
#include "rocks/counting_engine.hpp"

namespace perdure::test {
namespace {

constexpr std::uint64_t kNoLimit = ~std::uint64_t{0};

struct Snapshots {
  rocksdb::Snapshot const* ours = nullptr;
  rocksdb::Snapshot const* plain = nullptr;
};

class RocksRanges : public ::testing::Test {
 protected:
  static constexpr std::size_t kThreshold = 50;

  RocksRanges() {
    rocksdb::Options options;
    options.create_if_missing = true;
    options.allow_fallocate = false;
    EXPECT_TRUE(rocksdb::MergeOperator::CreateFromString(rocksdb::ConfigOptions(), "stringappend",
                                                         &options.merge_operator)
                    .ok());
    rocksdb::DB* db = nullptr;
    EXPECT_TRUE(lsm::open_rocksdb(&db, options, directory_ / "plain").ok());
    plain_.reset(db);
    options.statistics = statistics_ = rocksdb::CreateDBStatistics();
    rocks::GpuOptions gpu;
    gpu.device = rocks::Device::cpu;
    gpu.threads = 3;
    gpu.threshold = kThreshold;
    gpu.memtable_bytes = 1 << 20;
    gpu.idle_millis = 1'000'000;  // nothing is flushed but by the test
    auto const s = rocks::open(options, gpu, directory_ / "db", &db);
    EXPECT_TRUE(s.ok()) << s.ToString();
    db_.reset(db);
  }

  void write(rocksdb::WriteBatch batch) {
    ASSERT_TRUE(db_->Write({}, &batch).ok());
    ASSERT_TRUE(plain_->Write({}, &batch).ok());
  }
  /// So many keys with these numbers in them, at least as many as the memtables take.
  template <class Key>
  void put(std::size_t first, std::size_t n, std::size_t step, Key key) {
    rocksdb::WriteBatch batch;
    for (std::size_t i = 0; i < std::max(n, kThreshold); ++i) {
      std::size_t const number = first + i % n * step;
      ASSERT_TRUE(batch.Put(key(number), "v" + std::to_string(first + i)).ok());
    }
    write(std::move(batch));
  }
  void flush_ours() { ASSERT_TRUE(db_->Flush({}).ok()); }

  [[nodiscard]] std::vector<std::pair<std::string, std::string>> plain_range(
      std::string const& begin, std::string const* end, std::uint64_t limit,
      rocksdb::Snapshot const* snapshot) const {
    rocksdb::ReadOptions options;
    options.snapshot = snapshot;
    std::unique_ptr<rocksdb::Iterator> const at(plain_->NewIterator(options));
    std::vector<std::pair<std::string, std::string>> pairs;
    for (at->Seek(begin); at->Valid() && pairs.size() < limit; at->Next()) {
      if (end != nullptr && at->key().compare(*end) >= 0) break;
      pairs.emplace_back(at->key().ToString(), at->value().ToString());
    }
    EXPECT_TRUE(at->status().ok()) << at->status().ToString();
    return pairs;
  }

  /// Without ends where there are none; `width`: of keys that have one.
  void check(std::vector<std::string> const& begins, std::vector<std::string> const& ends,
             std::uint64_t limit, Snapshots const& at = {}, std::uint32_t width = 0) {
    auto const column = [&](std::vector<std::string> const& all) {
      return width != 0 ? Strings::of_width(all, width) : Strings(all);
    };
    Strings const first = column(begins), last = column(ends);
    rocks::ArrayOptions options;
    options.snapshot = at.ours;
    auto const s = rocks::range(*db_, db_->DefaultColumnFamily(), first.column(),
                                ends.empty() ? Column{} : last.column(), limit, ranges_, options);
    ASSERT_TRUE(s.ok()) << s.ToString();
    ASSERT_EQ(ranges_.offsets.size(), begins.size() + 1);
    for (std::size_t i = 0; i < begins.size(); ++i) {
      auto const want = plain_range(begins[i], ends.empty() ? nullptr : &ends[i], limit, at.plain);
      auto const pair = static_cast<std::size_t>(ranges_.offsets[i]);
      ASSERT_EQ(static_cast<std::size_t>(ranges_.offsets[i + 1]) - pair, want.size()) << begins[i];
      for (std::size_t k = 0; k < want.size(); ++k) {
        ASSERT_EQ(test::at(ranges_.keys, pair + k), want[k].first);
        ASSERT_EQ(test::at(ranges_.values, pair + k), want[k].second) << want[k].first;
      }
    }
    auto const pairs = static_cast<std::size_t>(ranges_.offsets.back());
    ASSERT_EQ(ranges_.keys.offsets.size(), pairs + 1);
    ASSERT_EQ(ranges_.values.offsets.size(), pairs + 1);
  }

  [[nodiscard]] std::uint64_t seeks() const {
    return statistics_->getTickerCount(rocksdb::NUMBER_DB_SEEK);
  }
  [[nodiscard]] lsm::DatabaseParts& parts() { return dynamic_cast<lsm::Database&>(*db_).parts(); }

  testing::TemporaryDirectory directory_;
  std::shared_ptr<rocksdb::Statistics> statistics_;
  std::unique_ptr<rocksdb::DB> db_, plain_;
  rocks::Ranges ranges_;  // used again and again, as callers may
};

std::string numbered(char first, std::size_t number) {
  std::string const digits = std::to_string(number);
  return first + std::string(6 - digits.size(), '0') + digits;
}

/// A kind of keys that a sequence has.
struct Keys {
  std::uint32_t width;  // 0: of any length, the empty one among them
  [[nodiscard]] std::string key(std::size_t n) const {
    if (width != 0) return std::string(width - 4, 'k') + numbered('0', n % 1000).substr(3);
    std::string const digits = std::to_string(n);
    return n % 7 == 0 ? digits.substr(1) + std::string(n % 5, '\0') : digits.substr(1);
  }
};

class RocksRangesOfKeys : public RocksRanges, public ::testing::WithParamInterface<std::uint32_t> {
 protected:
  std::size_t below(std::size_t n) { return random_() % n; }
  std::string draw() { return keys_.key(below(400)); }

  void write_some(std::size_t n) {
    rocksdb::WriteBatch batch;
    bool const merges = below(3) == 0;
    for (std::size_t i = 0; i < n; ++i) {
      std::string const value(below(4) == 0 ? 0 : below(30), static_cast<char>('a' + below(26)));
      std::size_t const kind = below(10);
      auto const s = kind < 5              ? batch.Put(draw(), value)
                     : kind < 9 || !merges ? batch.Delete(draw())
                                           : batch.Merge(draw(), value);
      ASSERT_TRUE(s.ok());
    }
    write(std::move(batch));
  }
  void delete_range() {
    std::string begin = draw(), end = draw();
    if (end < begin) std::swap(begin, end);
    auto* const family = plain_->DefaultColumnFamily();
    ASSERT_TRUE(plain_->DeleteRange({}, family, begin, end).ok());
    ASSERT_TRUE(db_->DeleteRange({}, db_->DefaultColumnFamily(), begin, end).ok());
  }
  void take_snapshot() {
    release();
    at_ = {db_->GetSnapshot(), plain_->GetSnapshot()};
  }
  void release() {
    if (at_.ours == nullptr) return;
    db_->ReleaseSnapshot(at_.ours);
    plain_->ReleaseSnapshot(at_.plain);
    at_ = {};
  }
  void act() {
    switch (below(12)) {
      case 0: return flush_ours();
      case 1: return delete_range();
      case 2: return take_snapshot();
      case 3: return write_some(1 + below(5));
      default: return write_some(kThreshold + below(200));
    }
  }
  void check_some() {
    std::vector<std::string> begins, ends;
    for (std::size_t n = 1 + below(20); n > 0; --n) {
      begins.push_back(draw());
      ends.push_back(draw());
    }
    parts().read_rooms->part_ranges.most = below(2) == 0 ? 3 : 1000;
    std::uint64_t const limits[] = {0, 1, 5, 60, kNoLimit};
    std::uint64_t const limit = limits[below(5)];
    check(begins, below(2) == 0 ? ends : std::vector<std::string>{}, limit,
          below(3) == 0 ? at_ : Snapshots{}, keys_.width);
  }

  Keys keys_{GetParam()};
  std::mt19937 random_{GetParam() + 5};
  Snapshots at_;
};

TEST_P(RocksRangesOfKeys, AnswerAsPlainRocksdbDoes) {
  for (int i = 0; i < 250 && !HasFatalFailure(); ++i) {
    act();
    check_some();
  }
  release();
}

INSTANTIATE_TEST_SUITE_P(Widths, RocksRangesOfKeys, ::testing::Values(0u, 4u, 8u, 23u),
                         [](auto const& one) { return "Width_" + std::to_string(one.param); });

auto const even = [](std::size_t n) { return numbered('a', 2 * n); };
auto const of_b = [](std::size_t n) { return numbered('b', n); };

TEST_F(RocksRanges, BesideWhatRocksdbHasCostNoSeek) {
  put(0, 300, 1, even);
  flush_ours();
  put(0, 300, 1, of_b);
  check({of_b(0)}, {}, 10);  // looks once what RocksDB has
  std::uint64_t const before = seeks();
  check({of_b(7), of_b(290), "c", of_b(3)}, {}, 100);
  check({"", "a", of_b(2)}, {"a", even(0), of_b(90)}, kNoLimit);
  check({even(5), of_b(4)}, {of_b(9), of_b(3)}, 0);
  EXPECT_EQ(seeks(), before);
  check({even(250), of_b(4)}, {}, 100);
  EXPECT_EQ(seeks(), before + 1) << "and the other of the two has one";
}

TEST_F(RocksRanges, ThatEndBeforeWhatRocksdbHasCostNoSeek) {
  put(0, 300, 1, of_b);
  flush_ours();
  put(0, 300, 1, even);
  check({even(0)}, {}, 10);
  std::uint64_t const before = seeks();
  check({even(7), even(200)}, {}, 100);
  EXPECT_EQ(seeks(), before);
  check({even(201)}, {}, 100);
  EXPECT_EQ(seeks(), before + 1);
}

TEST_F(RocksRanges, OfAnEmptyRocksdbCostNoSeek) {
  put(0, 300, 1, even);
  check({even(0)}, {}, 10);
  std::uint64_t const before = seeks();
  check({"", even(7), "z"}, {}, 1000);
  check({"", even(7), "z"}, {"z", even(5), "zz"}, 4);
  check({}, {}, 4);
  EXPECT_EQ(seeks(), before);
}

TEST_F(RocksRanges, WhatMemtablesEraseIsHiddenHoweverMuchItIs) {
  put(0, 2000, 1, even);
  flush_ours();
  rocksdb::WriteBatch batch;
  for (std::size_t i = 0; i < 1900; ++i) ASSERT_TRUE(batch.Delete(even(i)).ok());
  for (std::size_t i = 0; i < 100; ++i) ASSERT_TRUE(batch.Put(even(10 * i) + "x", "v").ok());
  write(std::move(batch));
  for (std::uint64_t const limit : {1ull, 7ull, 100ull, 500ull})
    check({"", even(3), even(1800), even(1950)}, {}, limit);
  check({"", even(3)}, {even(1899), even(4)}, kNoLimit);
}

TEST_F(RocksRanges, OperandsStandOnWhatLiesBelow) {
  put(0, 300, 1, even);
  flush_ours();
  rocksdb::WriteBatch batch;
  for (std::size_t i = 0; i < 200; ++i) ASSERT_TRUE(batch.Merge(even(3 * i), "m").ok());
  write(std::move(batch));
  put(0, 60, 1, of_b);
  check({"", even(100), of_b(3)}, {}, 40);
  check({"", even(100), of_b(3)}, {}, kNoLimit);
}

TEST_F(RocksRanges, AreReadByIteratorsWhereTheMachineCannot) {
  put(0, 300, 1, even);
  flush_ours();
  put(100, 300, 1, even);
  auto counting = std::make_unique<lsm::test::CountingEngine>(std::move(parts().engine));
  lsm::test::CountingEngine& engine = *counting;
  parts().engine = std::move(counting);
  std::vector<std::string> const begins{"", even(7), even(390), "z"};
  for (Code const code : {Code::ok, Code::unsupported, Code::no_space}) {
    engine.refusal = {code, "as the test asked"};
    check(begins, {}, 20);
    check(begins, {"z", even(5), "z", "zz"}, kNoLimit);
  }
  EXPECT_EQ(engine.range_reads, 6u);
  check(begins, {}, kNoLimit);
  EXPECT_EQ(engine.range_reads, 6u) << "all that follows is an iterator's";
  engine.refusal = {Code::device_error, "the machine was lost, as the test asked"};
  auto const s =
      rocks::range(*db_, db_->DefaultColumnFamily(), Strings(begins).column(), {}, 20, ranges_);
  EXPECT_TRUE(s.IsIOError()) << s.ToString();
}

TEST_F(RocksRanges, ThousandsComeInTheirOrder) {
  put(0, 3000, 1, even);
  flush_ours();
  put(1000, 1000, 1, even);
  put(1, 500, 3, [](std::size_t n) { return numbered('a', n); });
  std::mt19937 random(9);
  std::vector<std::string> begins, ends;
  for (int i = 0; i < 20'000; ++i) {
    std::size_t const first = random() % 6000;
    begins.push_back(numbered('a', first));
    ends.push_back(numbered('a', std::min<std::size_t>(first + random() % 6, 999'999)));
  }
  check(begins, ends, 1'000, {}, 7);
}

}  // namespace
}  // namespace perdure::test
