// What perdure-bench-rocks is asked for.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

namespace perdure::bench::rocks {

/// Names of what is measured, in the order in which it runs.
[[nodiscard]] std::vector<std::string> const& item_names();

struct Options {
  std::string path = "/dev/shm";
  std::vector<std::string> only;  // empty: all
  std::string system;  // empty: both; "itself": RocksDB in Perdure's place, too
  std::uint64_t records = 10'000'000;
  std::uint32_t threads = std::max(1u, std::thread::hardware_concurrency());
  double seconds = 10;
  std::uint32_t repeats = 3;
  std::uint64_t seed = 1;
  // Operations a WriteBatch or MultiGet.
  std::uint64_t rocksdb_batch = 1000;
  std::vector<std::uint64_t> batches{1000, 100'000};  // Perdure's
  // Of both.
  std::uint64_t memtable_mib = 512;
  std::uint64_t cache_mib = 4096;
  std::vector<std::string> set;  // RocksDB's own options, NAME=VALUE
  // Perdure's.
  std::string device = "automatic";
  std::uint64_t threshold = 0;
  std::uint32_t memtable_value_bytes = 8;
  std::uint64_t block_cache_mib = 256;
  std::uint32_t block_cache_entry_bytes = 128;
  std::uint64_t flushed_mib = 1024;
  std::uint32_t idle_millis = 200;
  std::uint32_t hand_overs_a_second = 3;
  // Of single items.
  std::vector<std::uint64_t> rates{10'000, 100'000, 1'000'000, 5'000'000, 20'000'000};
  std::vector<std::uint64_t> transactions{1000, 10'000, 100'000, 1'000'000, 5'000'000};
  std::vector<std::string> workloads{"c", "b", "a", "d"};  // of YCSB
  std::vector<std::uint32_t> value_bytes{8, 64, 128, 512, 1024};
  std::vector<std::uint64_t> memtables{64, 128, 256, 512, 1024};  // MiB
  std::vector<std::uint64_t> logs{256, 1024};  // MiB
  std::string json;
  // For a process that is to be killed: which system's database it fills, and where.
  std::string fill;
  std::string fill_directory;

  [[nodiscard]] std::uint64_t largest_batch() const {
    return *std::max_element(batches.begin(), batches.end());
  }
};

}  // namespace perdure::bench::rocks
