// A database of a few hundred keys beside a plain map, whose memtables stay in memory when they are
// flushed, and any writes to it.
#pragma once

#include <gtest/gtest.h>
#include <rocksdb/convenience.h>
#include <rocksdb/merge_operator.h>
#include <rocksdb/sst_file_writer.h>

#include <algorithm>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "rocks/arrays_world.hpp"

namespace perdure::test {

class FlushedWorld : public ::testing::Test {
 protected:
  static constexpr std::size_t kKeys = 400;
  static constexpr std::uint64_t kMemtable = std::uint64_t{1} << 18;

  FlushedWorld() {
    for (std::size_t i = 0; i < kKeys; ++i) names_.push_back(name(i));
    keys_ = Strings(names_);
  }

  static std::string name(std::size_t i) {
    std::string const digits = std::to_string(i);
    return "key" + std::string(4 - digits.size(), '0') + digits;
  }

  void open(std::uint64_t flushed_bytes = 16 * kMemtable,
            std::uint64_t memtable_bytes = kMemtable) {
    options_.create_if_missing = true;
    options_.allow_fallocate = false;
    ASSERT_TRUE(
        rocksdb::MergeOperator::CreateFromString({}, "stringappend", &options_.merge_operator)
            .ok());
    rocks::GpuOptions gpu;
    gpu.device = rocks::Device::cpu;
    gpu.threads = 2;
    gpu.threshold = 100;
    gpu.memtable_bytes = memtable_bytes;
    gpu.idle_millis = 100'000;
    gpu.flushed_memtable_bytes = flushed_bytes;
    gpu.block_cache_bytes = cache_bytes_;
    rocksdb::DB* db = nullptr;
    auto const s = rocks::open(options_, gpu, directory_ / "db", &db);
    ASSERT_TRUE(s.ok()) << s.ToString();
    db_.reset(db);
  }

  [[nodiscard]] std::uint64_t number(char const* property) const {
    std::uint64_t value = 0;
    EXPECT_TRUE(db_->GetIntProperty(std::string("perdure.") + property, &value)) << property;
    return value;
  }

  void put(std::string const& value, std::size_t keys = kKeys) {
    std::vector<std::string> const some(names_.begin(),
                                        names_.begin() + static_cast<std::ptrdiff_t>(keys));
    std::vector<std::string> const values(keys, value);
    Strings const names(some), all(values);
    ASSERT_TRUE(rocks::put(*db_, db_->DefaultColumnFamily(), names.column(), all.column()).ok());
    for (std::string const& one : some) model_[one] = value;
  }
  void flush() { ASSERT_TRUE(db_->Flush({}).ok()); }
  /// A file of one key. Of a key that is in no other file, it takes no sequence number.
  void ingest(std::string const& key, std::string const& value) {
    ASSERT_TRUE(db_->IngestExternalFile({write_file(key, value)}, {}).ok());
    model_[key] = value;
  }
  std::string write_file(std::string const& key, std::string const& value) {
    std::string path = directory_ / "one.sst";
    rocksdb::SstFileWriter writer({}, options_);
    EXPECT_TRUE(writer.Open(path).ok());
    EXPECT_TRUE(writer.Put(key, value).ok());
    EXPECT_TRUE(writer.Finish().ok());
    return path;
  }

  [[nodiscard]] std::vector<std::string> read(rocksdb::Snapshot const* snapshot = nullptr) const {
    VariableValues values;
    std::vector<KeyStatus> statuses(kKeys);
    rocks::ArrayOptions options;
    options.snapshot = snapshot;
    auto const s =
        rocks::get(*db_, db_->DefaultColumnFamily(), keys_.column(), values, statuses, options);
    EXPECT_TRUE(s.ok()) << s.ToString();
    std::vector<std::string> all;
    for (std::size_t i = 0; i < kKeys; ++i)
      all.push_back(statuses[i] == KeyStatus::ok ? at(values, i) : "-");
    return all;
  }
  [[nodiscard]] std::vector<std::string> expected(Model const& model) const {
    std::vector<std::string> all;
    for (std::string const& key : names_) all.push_back(model.contains(key) ? model.at(key) : "-");
    return all;
  }
  void expect_right() const {
    EXPECT_EQ(read(), expected(model_));
    std::vector<rocksdb::Slice> const keys(names_.begin(), names_.end());
    std::vector<rocksdb::PinnableSlice> values(kKeys);
    std::vector<rocksdb::Status> statuses(kKeys);
    db_->MultiGet({}, db_->DefaultColumnFamily(), kKeys, keys.data(), values.data(),
                  statuses.data());
    for (std::size_t i = 0; i < kKeys; ++i) {
      EXPECT_EQ(statuses[i].ok() ? values[i].ToString() : "-", expected(model_)[i]) << names_[i];
    }
  }
  /// Keys that a read of all finds in flushed memtables.
  [[nodiscard]] std::uint64_t hits() const {
    std::uint64_t const before = number("flushed-hits");
    EXPECT_EQ(read(), expected(model_));
    return number("flushed-hits") - before;
  }

  testing::TemporaryDirectory directory_;
  rocksdb::Options options_;
  std::uint64_t cache_bytes_ = std::uint64_t{4} << 20;  // ten times what the keys need
  std::unique_ptr<rocksdb::DB> db_;
  std::vector<std::string> names_;
  Strings keys_;
  Model model_;
};

/// Any writes, in any order, on all ways that there are.
class GeneratedWrites : public FlushedWorld {
 protected:
  std::vector<std::string> draw(std::size_t n) {
    std::vector<std::string> some;
    for (std::size_t i = 0; i < n; ++i) some.push_back(names_[random_() % kKeys]);
    return some;
  }
  void write_array(OpKind kind) {
    auto const some = draw(120 + random_() % 200);
    std::vector<std::string> values;
    for (std::size_t i = 0; i < some.size(); ++i) values.push_back(std::to_string(random_() % 100));
    Strings const keys(some), all(values);
    auto* const family = db_->DefaultColumnFamily();
    auto const s = kind == OpKind::put ? rocks::put(*db_, family, keys.column(), all.column())
                   : kind == OpKind::erase
                       ? rocks::erase(*db_, family, keys.column())
                       : rocks::merge(*db_, family, keys.column(), all.column());
    ASSERT_TRUE(s.ok()) << s.ToString();
    for (std::size_t i = 0; i < some.size(); ++i) write(model_, kind, some[i], values[i]);
  }
  void write_one() {
    auto const key = draw(1).front();
    ASSERT_TRUE(db_->Put({}, key, "one").ok());
    model_[key] = "one";
  }
  void delete_range() {
    std::size_t const from = random_() % kKeys, to = std::min(kKeys - 1, from + random_() % 40);
    auto* const family = db_->DefaultColumnFamily();
    ASSERT_TRUE(db_->DeleteRange({}, family, names_[from], names_[to]).ok());
    for (std::size_t i = from; i < to; ++i) model_.erase(names_[i]);
  }
  void step() {
    switch (random_() % 16) {
      case 0: return write_one();
      case 1: return delete_range();
      case 2: return write_array(OpKind::update);
      case 3:
      case 4: return write_array(OpKind::erase);
      case 5:
      case 6:
      case 7:
      case 8: return flush();
      default: return write_array(OpKind::put);
    }
  }
  std::mt19937_64 random_{7};
};

}  // namespace perdure::test
