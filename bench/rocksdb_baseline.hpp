// RocksDB as the comparison uses it: one of the builds found, loaded at run time through its
// adapter, and driven by several threads that share the work evenly.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "adapter.h"
#include "perdure/reports.h"
#include "perdure/status.h"

namespace perdure::bench {

/// One way to set RocksDB up. Those tried are listed in rocksdb_baseline.cpp.
struct BaselineConfig {
  /// Hash memtables and tables for single keys have no ranges.
  [[nodiscard]] bool keeps_order() const { return memtable == "skiplist" && table == "block"; }

  std::string name;
  std::string memtable = "skiplist";
  std::string table = "block";
  std::uint64_t write_buffer_bytes = 128u << 20;
  std::uint32_t write_buffers = 6;
  bool mmap_reads = true;
  std::uint32_t bloom_bits = 0;
  bool unordered_write = false;
  BaselineSettle settle = BASELINE_SETTLE_COMPACT;  // between loading and reading
  bool load_ends_settled =
      false;           // the memtable cannot serve reads, so settling belongs to the load
};

[[nodiscard]] std::vector<BaselineConfig> const& baseline_configs();
[[nodiscard]] BaselineConfig const& baseline_config_named(std::string const& name);

/// A build of RocksDB: "release" or "distribution".
class BaselineLibrary {
 public:
  explicit BaselineLibrary(std::string const& build);

  /// For example "RocksDB 7.8.3, Release build of rocksdbjni (no assertions)".
  [[nodiscard]] std::string const& description() const { return description_; }
  [[nodiscard]] bool has_assertions() const { return has_assertions_; }

  decltype(&baseline_rocksdb_open) open = nullptr;
  decltype(&baseline_rocksdb_close) close = nullptr;
  decltype(&baseline_rocksdb_put) put = nullptr;
  decltype(&baseline_rocksdb_get) get = nullptr;
  decltype(&baseline_rocksdb_scan) scan = nullptr;
  decltype(&baseline_rocksdb_settle) settle = nullptr;
  decltype(&baseline_rocksdb_error) error = nullptr;

 private:
  std::string description_;
  bool has_assertions_ = false;
};

/// The builds that can be loaded, the one to prefer first.
[[nodiscard]] std::vector<std::string> baseline_builds();

/// A database in a directory that is removed with this object.
class Baseline {
 public:
  Baseline(BaselineLibrary const& library, BaselineConfig const& config,
           std::filesystem::path directory, std::uint64_t records, std::uint32_t key_bytes,
           std::uint32_t value_bytes, std::uint32_t threads, std::size_t batch);
  ~Baseline();
  Baseline(Baseline const&) = delete;
  Baseline& operator=(Baseline const&) = delete;

  void put(std::span<std::byte const> keys, std::span<std::byte const> values, std::size_t count);
  void get(std::span<std::byte const> keys, std::size_t count, std::span<std::byte> values,
           std::span<unsigned char> found);
  /// As Store::range, from the query's start on and up to its limit; from any thread.
  Result<RangePage> range(RangeQuery const& query);
  void settle();

 private:
  template <class Work>
  void share(std::size_t count, Work const& work);

  BaselineLibrary const& library_;
  BaselineConfig config_;
  std::filesystem::path directory_;
  std::uint32_t key_bytes_;
  std::uint32_t value_bytes_;
  std::uint32_t threads_;
  std::size_t batch_;
  BaselineRocksdb* store_ = nullptr;
};

}  // namespace perdure::bench
