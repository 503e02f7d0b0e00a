// One store of a design (kv_baseline.hpp), filled, and what workloads on it take. Values begin with
// their key's number, so every answer can be checked. Invariant: the clock runs from when all
// threads may begin to when the last has ended, less what emulating takes; of sustained runs until
// collectors have nothing left, too.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "common.hpp"
#include "kv_baseline.hpp"
#include "ycsb.hpp"

namespace perdure::bench {

struct KvSetting {
  kv_baselines::Options store;
  std::uint64_t records = 0;
  std::uint64_t ops = 0;
  std::uint32_t threads = 1;
  std::uint64_t batch = 1;  // operations of a call
  double theta = 0;  // of the keys; 0: uniform
  bool sustained = false;
  std::uint64_t series_ms = 0;  // how often operations are counted while they run; 0: never
  std::uint64_t seed = 1;
  std::string pool;
};

/// What one workload gave.
struct KvMeasured {
  double seconds = 0;
  double cpu_seconds = 0;  // of the threads that asked
  double all_cpu_seconds = 0;  // of the process: with collectors
  kv_baselines::Counts counts;
  kv_baselines::PartSeconds parts;
  kv_baselines::Recovery recovery;  // of workload recover
  kv_baselines::Collected collected;
  kv_baselines::MediaWrites media;
  double longest_us = 0;  // that a call took, where operations were counted while they ran
  std::vector<std::vector<std::uint64_t>> series;  // operations so far, by thread and time
  std::uint64_t faults = 0;
};

class KvBench {
 public:
  explicit KvBench(KvSetting const& setting);
  ~KvBench();
  KvBench(KvBench const&) = delete;
  KvBench& operator=(KvBench const&) = delete;

  /// insert, update, delete, get, a workload of YCSB from a to e, or recover, which updates, lets
  /// the store go as a kill would, opens it again, and reads all records. After a delete nothing
  /// more.
  KvMeasured run(std::string const& workload);
  [[nodiscard]] std::uint64_t pool_bytes() const { return store_->pool_bytes(); }

 private:
  struct Thread;
  class Operations;

  void load();
  void work(std::string const& workload, std::uint32_t t, Thread& thread);
  void watch(KvMeasured& measured, std::atomic<std::uint32_t> const& running) const;
  KvMeasured recover();
  void open_sessions();
  std::uint64_t read_all();
  void finish(KvMeasured& measured) const;

  KvSetting setting_;
  PoolFile file_;
  Zipf zipf_;
  Scramble scramble_;
  std::unique_ptr<kv_baselines::Store> store_;
  std::vector<std::unique_ptr<Thread>> threads_;
};

}  // namespace perdure::bench
