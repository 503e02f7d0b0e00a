// What tests of arrays share: a database of small memtables, columns of any shape, and a plain map
// that says what is right.
#pragma once

#include <gtest/gtest.h>
#include <rocksdb/convenience.h>
#include <rocksdb/merge_operator.h>
#include <rocksdb/statistics.h>

#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "lsm/rocks/database.hpp"
#include "perdure/rocks.h"
#include "rocks/temporary_directory.hpp"

namespace perdure::test {

using Model = std::map<std::string, std::string>;

/// Byte strings as a column: of one width where that is not 0.
struct Strings {
  std::vector<std::byte> data;
  std::vector<std::int64_t> offsets = {0};
  std::uint32_t width = 0;
  bool fixed = false;

  Strings() = default;
  explicit Strings(std::vector<std::string> const& all) {
    for (std::string const& one : all) add(one);
  }
  static Strings of_width(std::vector<std::string> const& all, std::uint32_t bytes) {
    Strings strings(all);
    strings.fixed = true;
    strings.width = bytes;
    return strings;
  }
  void add(std::string const& text) {
    auto const* const bytes = reinterpret_cast<std::byte const*>(text.data());
    data.insert(data.end(), bytes, bytes + text.size());
    offsets.push_back(static_cast<std::int64_t>(data.size()));
  }
  [[nodiscard]] Column column() const {
    return {data.data(), fixed ? nullptr : offsets.data(), width, offsets.size() - 1,
            MemorySpace::host};
  }
};

inline std::string at(VariableValues const& values, std::size_t i) {
  return {reinterpret_cast<char const*>(values.data.data()) + values.offsets[i],
          static_cast<std::size_t>(values.offsets[i + 1] - values.offsets[i])};
}

/// `update` appends, as the database's operator does.
inline void write(Model& model, OpKind kind, std::string const& key, std::string const& value) {
  auto const found = model.find(key);
  if (kind == OpKind::erase)
    model.erase(key);
  else if (kind == OpKind::update && found != model.end())
    found->second += "," + value;
  else
    model[key] = value;
}

class RocksArrays : public ::testing::Test {
 protected:
  static constexpr std::size_t kThreshold = 100;

  /// Memtables stay though a thread sleeps for a while, unless a test says less.
  explicit RocksArrays(std::uint32_t value_bytes_inside = 8, std::uint32_t idle_millis = 100'000)
      : db_(open("db", value_bytes_inside, idle_millis)) {}
  std::unique_ptr<rocksdb::DB> open(std::string const& name, std::uint32_t value_bytes_inside,
                                    std::uint32_t idle_millis) {
    rocksdb::Options options;
    options.create_if_missing = true;
    options.allow_fallocate = false;
    options.statistics = rocksdb::CreateDBStatistics();
    statistics_ = options.statistics;
    EXPECT_TRUE(rocksdb::MergeOperator::CreateFromString(rocksdb::ConfigOptions(), "stringappend",
                                                         &options.merge_operator)
                    .ok());
    rocks::GpuOptions gpu;
    gpu.device = rocks::Device::cpu;
    gpu.threads = 3;
    gpu.threshold = kThreshold;
    gpu.memtable_bytes = 1 << 18;
    gpu.flushed_memtable_bytes = 0;  // what is flushed is RocksDB's to answer
    gpu.memtable_value_bytes = value_bytes_inside;
    gpu.idle_millis = idle_millis;
    rocksdb::DB* db = nullptr;
    auto const s = rocks::open(options, gpu, directory_ / name, &db);
    EXPECT_TRUE(s.ok()) << s.ToString();
    return std::unique_ptr<rocksdb::DB>(db);
  }
  rocksdb::ColumnFamilyHandle* family() { return db_->DefaultColumnFamily(); }
  static lsm::DatabaseParts& parts_of(rocksdb::DB& db) {
    return dynamic_cast<lsm::Database&>(db).parts();
  }
  lsm::DatabaseParts& parts() { return parts_of(*db_); }
  /// Of the machine's parts.
  void split_reads_into(std::size_t keys) { parts().read_rooms->part_keys = {keys, keys}; }

  testing::TemporaryDirectory directory_;
  std::shared_ptr<rocksdb::Statistics> statistics_;
  std::unique_ptr<rocksdb::DB> db_;
};

}  // namespace perdure::test
