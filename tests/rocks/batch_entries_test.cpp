// WriteBatches taken apart and put together again, against what RocksDB hands out of them.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>
#include <rocksdb/db.h>
#include <rocksdb/env.h>

#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "lsm/rocks/batch_entries.hpp"
#include "lsm/rocks/rocksdb_version.hpp"

namespace perdure::lsm {
namespace {

using rocksdb::Slice;

struct Operation {
  RequestId request = 0;
  Kind kind = Kind::put;
  std::string key, value;
  bool operator==(Operation const&) const = default;
};
using Operations = std::map<std::uint32_t, std::vector<Operation>>;  // of families

std::ostream& operator<<(std::ostream& out, Operation const& one) {
  return out << one.request << ' ' << static_cast<int>(one.kind) << ' ' << one.key.size() << '/'
             << one.value.size();
}

/// What RocksDB hands out.
class Told final : public rocksdb::WriteBatch::Handler {
 public:
  explicit Told(RequestId first) : next_(first) {}
  rocksdb::Status PutCF(std::uint32_t family, Slice const& key, Slice const& value) override {
    return add(family, Kind::put, key, value);
  }
  rocksdb::Status DeleteCF(std::uint32_t family, Slice const& key) override {
    return add(family, Kind::erase, key, "");
  }
  rocksdb::Status SingleDeleteCF(std::uint32_t family, Slice const& key) override {
    return add(family, Kind::erase, key, "");
  }
  rocksdb::Status MergeCF(std::uint32_t family, Slice const& key, Slice const& value) override {
    return add(family, Kind::merge, key, value);
  }
  void LogData(Slice const&) override {}

  Operations operations;

 private:
  rocksdb::Status add(std::uint32_t family, Kind kind, Slice const& key, Slice const& value) {
    operations[family].push_back({next_++, kind, key.ToString(), value.ToString()});
    return rocksdb::Status::OK();
  }
  RequestId next_;
};

/// Handles of three families, in memory.
class Handles {
 public:
  Handles() : env_(rocksdb::NewMemEnv(rocksdb::Env::Default())) {
    rocksdb::Options options;
    options.create_if_missing = true;
    options.env = env_.get();
    rocksdb::DB* db = nullptr;
    EXPECT_TRUE(open_rocksdb(&db, options, "/handles").ok());
    db_.reset(db);
    of.push_back(db->DefaultColumnFamily());
    for (char const* const name : {"one", "two"}) {
      of.emplace_back();
      EXPECT_TRUE(db->CreateColumnFamily(options, name, &of.back()).ok());
    }
  }
  ~Handles() {
    for (std::size_t i = 1; i < of.size(); ++i)
      db_->DestroyColumnFamilyHandle(of[i]).PermitUncheckedError();
  }
  Handles(Handles const&) = delete;
  Handles& operator=(Handles const&) = delete;

 private:
  std::unique_ptr<rocksdb::Env> env_;
  std::unique_ptr<rocksdb::DB> db_;

 public:
  std::vector<rocksdb::ColumnFamilyHandle*> of;
};

void add_any(rocksdb::WriteBatch& batch, rocksdb::ColumnFamilyHandle* family, bool one_width,
             bool only_puts) {
  std::size_t const width =
      one_width ? 8 : *rc::gen::element<std::size_t>(0, 1, 8, 8, 8, 127, 128, 300);
  std::string const key(width, static_cast<char>(*rc::gen::inRange('a', 'z')));
  std::string const value(*rc::gen::element<std::size_t>(0, 1, 8, 127, 128, 20'000), 'v');
  switch (only_puts ? 0 : *rc::gen::inRange(0, 6)) {
    case 1: return RC_ASSERT(batch.Delete(family, key).ok());
    case 2: return RC_ASSERT(batch.SingleDelete(family, key).ok());
    case 3: return RC_ASSERT(batch.Merge(family, key, value).ok());
    case 4: return RC_ASSERT(batch.PutLogData("said to nobody").ok());
    default: return RC_ASSERT(batch.Put(family, key, value).ok());
  }
}

Operations found(std::vector<FamilyBatch> const& batches) {
  Operations all;
  for (auto const& [family, entries, merges] : batches) {
    bool some = false;
    for (std::size_t i = 0; i < entries.keys.count; ++i) {
      Column const& keys = entries.keys;
      bool const by_width = keys.offsets == nullptr;
      auto const from = by_width ? i * keys.width : static_cast<std::size_t>(keys.offsets[i]);
      auto const to = by_width ? from + keys.width : static_cast<std::size_t>(keys.offsets[i + 1]);
      auto const* const text = reinterpret_cast<char const*>(keys.data);
      Operation one;
      one.request = entries.first_request + (entries.requests.empty() ? i : entries.requests[i]);
      one.kind = entries.kinds.empty() ? Kind::put : entries.kinds[i];
      one.key.assign(text + from, text + to);
      ValueRef const& value = entries.values[i];
      one.value.assign(reinterpret_cast<char const*>(value.data), value.size);
      some |= one.kind == Kind::merge;
      all[family].push_back(one);
    }
    RC_ASSERT(some == merges);
  }
  return all;
}

RC_GTEST_PROP(BatchEntries, AreWhatRocksDbHandsOutOneBatchBehindTheOther, ()) {
  static Handles const handles;
  bool const one_width = *rc::gen::arbitrary<bool>();
  bool const only_puts = *rc::gen::arbitrary<bool>();
  std::size_t const families = *rc::gen::element<std::size_t>(1, 1, 2, 3);
  constexpr RequestId kFirst = 100;
  Told told(kFirst);
  std::deque<BatchEntries> read;
  std::deque<std::string> copies;
  GroupEntries group;
  for (int batches = *rc::gen::inRange(1, 4); batches > 0; --batches) {
    rocksdb::WriteBatch batch;
    for (int n = *rc::gen::inRange(1, 30); n > 0; --n)
      add_any(batch, handles.of[*rc::gen::inRange<std::size_t>(0, families)], one_width, only_puts);
    RC_ASSERT(batch.Iterate(&told).ok());
    RC_ASSERT(read.emplace_back().read(batch));
    copies.push_back(batch.Data());
    group.add(read.back(), reinterpret_cast<std::byte const*>(copies.back().data()));
  }
  group.make_room();
  for (std::size_t i = read.size(); i > 0; --i) group.put(i - 1);
  RC_ASSERT(found(group.batches(kFirst)) == told.operations);
}

TEST(BatchEntries, WhatMemtablesDoNotHoldIsSaid) {
  Handles const handles;
  rocksdb::WriteBatch ranges;
  ASSERT_TRUE(ranges.Put("a", "1").ok() && ranges.DeleteRange("a", "b").ok());
  EXPECT_FALSE(BatchEntries().read(ranges));
  rocksdb::WriteBatch cut(std::string(rocksdb::WriteBatch().Data()) + std::string("\1\5key", 5));
  EXPECT_FALSE(BatchEntries().read(cut));
  rocksdb::WriteBatch whole;
  ASSERT_TRUE(whole.Put("a", "1").ok());
  std::string wrong_count = whole.Data();
  wrong_count[8] = 2;
  EXPECT_FALSE(BatchEntries().read(rocksdb::WriteBatch(wrong_count)));
}

}  // namespace
}  // namespace perdure::lsm
