// Values that memtables have themselves: whatever is read is what a database answers whose
// memtables point to values, and arrays do not go where the log has them.
#include <random>

#include "rocks/arrays_world.hpp"

namespace perdure::test {
namespace {

constexpr std::uint32_t kKey = 16, kValue = 100, kNeverIdle = 3'600'000;

class RocksArraysInside : public RocksArrays {
 protected:
  RocksArraysInside() : RocksArrays(kValue, kNeverIdle), plain_(open("plain", 8, kNeverIdle)) {}

  [[nodiscard]] std::vector<rocksdb::DB*> both() const { return {db_.get(), plain_.get()}; }
  static std::string key(std::size_t n) {
    std::string const number = std::to_string(n * 7919 % 10'000);
    return std::string(kKey - number.size(), '0') + number;
  }
  static std::string value(std::size_t n) {
    std::string value(kValue, '\0');
    for (std::size_t i = 0; i < kValue; ++i)
      value[i] = static_cast<char>(n * 31 + i * (n % 13 + 1));
    return value;
  }
  /// Of [first, first + n), with values of a round.
  static Strings keys(std::size_t first, std::size_t n) {
    return strings(n, kKey, [&](std::size_t i) { return key(first + i); });
  }
  static Strings values(std::size_t first, std::size_t n, std::size_t round) {
    return strings(n, kValue, [&](std::size_t i) { return value(first + i + 5 * round); });
  }
  void put(std::size_t first, std::size_t n, std::size_t round) {
    for (rocksdb::DB* const db : both())
      ASSERT_TRUE(rocks::put(*db, db->DefaultColumnFamily(), keys(first, n).column(),
                             values(first, n, round).column())
                      .ok());
  }
  void put_batch(std::size_t first, std::size_t n, std::size_t round) {
    for (rocksdb::DB* const db : both()) {
      rocksdb::WriteBatch batch;
      for (std::size_t i = first; i < first + n; ++i) {
        ASSERT_TRUE(batch.Put(key(i), value(i + 5 * round)).ok());
        if (i % 10 == 0) {
          ASSERT_TRUE(batch.Delete(key(i + 1)).ok());
        }
      }
      ASSERT_TRUE(db->Write({}, &batch).ok());
    }
  }
  /// In words, the most that a run of the default family has of a value.
  [[nodiscard]] std::size_t row_words() {
    return lsm::row_words(parts().tables->view()->runs(family()->GetID()));
  }
  struct Read {
    std::vector<KeyStatus> statuses;
    std::string fixed;
    VariableValues variable;
    bool operator==(Read const& other) const {
      return statuses == other.statuses && fixed == other.fixed &&
             variable.data == other.variable.data && variable.offsets == other.variable.offsets;
    }
  };
  static Read read(rocksdb::DB& db, Strings const& keys) {
    std::size_t const n = keys.column().count;
    Read all{std::vector<KeyStatus>(n), std::string(n * kValue, '#'), {}};
    MutableColumn const to{reinterpret_cast<std::byte*>(all.fixed.data()), kValue, n};
    auto* const family = db.DefaultColumnFamily();
    EXPECT_TRUE(rocks::get(db, family, keys.column(), all.variable, all.statuses).ok());
    std::vector<KeyStatus> const statuses = all.statuses;
    EXPECT_TRUE(rocks::get(db, family, keys.column(), to, all.statuses).ok());
    EXPECT_EQ(all.statuses, statuses);
    return all;
  }
  void check_both(Strings const& keys) { EXPECT_TRUE(read(*db_, keys) == read(*plain_, keys)); }

  std::unique_ptr<rocksdb::DB> plain_;

 private:
  template <class Of>
  static Strings strings(std::size_t n, std::uint32_t width, Of const& of) {
    std::vector<std::string> all;
    for (std::size_t i = 0; i < n; ++i) all.push_back(of(i));
    return Strings::of_width(all, width);
  }
};

TEST_F(RocksArraysInside, ReadsAnswerAsWithValuesInTheLog) {
  for (std::size_t round = 0; round < 12; ++round) {
    split_reads_into(round % 2 == 0 ? 64 : 5000);
    put(round * 100, 300, round);
    if (round % 3 == 1) put_batch(round * 100, 200, round);
    if (round == 5) {
      for (rocksdb::DB* const db : both()) ASSERT_TRUE(db->Flush({}).ok());
    }
    if (round % 4 == 3) {
      for (rocksdb::DB* const db : both())
        ASSERT_TRUE(
            rocks::erase(*db, db->DefaultColumnFamily(), keys(round * 90, 150).column()).ok());
    }
    check_both(keys(7000, 5000));  // those from 10,000 on are the first again
  }
}

TEST_F(RocksArraysInside, MixedBatchesAnswerAsWithValuesInTheLog) {
  std::mt19937 random(3);
  for (std::size_t round = 0; round < 8; ++round) {
    constexpr std::size_t kCount = 700;
    Strings const k = keys(random() % 500, kCount), v = values(0, kCount, round);
    std::vector<OpKind> kinds(kCount);
    for (OpKind& kind : kinds) kind = static_cast<OpKind>(random() % 3);
    std::vector<std::string> found;
    for (rocksdb::DB* const db : both()) {
      std::string& out = found.emplace_back(kCount * kValue, '#');
      MixedBatch batch{k.column(), kinds, v.column()};
      batch.out = {reinterpret_cast<std::byte*>(out.data()), kValue, kCount};
      std::vector<KeyStatus> statuses(kCount);
      VariableValues none;
      ASSERT_TRUE(rocks::apply(*db, db->DefaultColumnFamily(), batch, none, statuses).ok());
    }
    EXPECT_EQ(found[0], found[1]);
    check_both(k);
  }
}

/// What the log holds is changed behind the databases: who goes there sees it.
TEST_F(RocksArraysInside, ArraysDoNotGoWhereTheLogHasValues) {
  constexpr std::size_t kCount = 1000;
  for (std::size_t part = 0; part < 8; ++part)  // so that runs were merged, too
    put(part * kCount / 8, kCount / 8 + 1, part == 3 ? 1 : 0);
  put_batch(2000, 300, 0);
  Strings sought = keys(0, kCount);
  for (std::size_t i = 0; i < 300; ++i) sought.add(key(2000 + i));
  EXPECT_EQ(row_words(), 13u);
  Read const before = read(*db_, sought);
  for (rocksdb::DB* const db : both()) {
    lsm::DatabaseParts& parts = parts_of(*db);
    auto const view = parts.tables->view();
    std::vector<lsm::Answer> answers(sought.column().count);
    ASSERT_TRUE(
        parts.engine
            ->find(view->runs(db->DefaultColumnFamily()->GetID()), sought.column(), {}, answers, {})
            .ok());
    for (lsm::Answer const& answer : answers) {
      ASSERT_FALSE(answer.inside);
      if (answer.found == lsm::Found::put) *const_cast<std::byte*>(answer.data) ^= std::byte{1};
    }
  }
  EXPECT_TRUE(read(*db_, sought) == before);
  EXPECT_FALSE(read(*plain_, sought) == before);
}

TEST_F(RocksArraysInside, ValuesThatAreTooLargeForMemtablesAreRefusedAtTheOpening) {
  rocks::GpuOptions gpu;
  gpu.device = rocks::Device::cpu;
  gpu.memtable_value_bytes = 1025;
  rocksdb::Options options;
  options.create_if_missing = true;
  rocksdb::DB* db = nullptr;
  auto const s = rocks::open(options, gpu, directory_ / "refused", &db);
  EXPECT_EQ(s.ToString(),
            "Invalid argument: memtable_value_bytes is 1025; give at most 1024, or 0 to keep no "
            "values in memtables");
}

}  // namespace
}  // namespace perdure::test
