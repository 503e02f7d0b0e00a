// One store of a design (kv_baseline.hpp), filled, and what workloads on it take. Values begin with
// their key's number, so every answer can be checked. Invariant: the clock runs from when all
// threads may begin to when the last has ended, less what emulating takes; of sustained runs until
// collectors have nothing left, too. Filling is not measured, and flushes only what is emulated.
#pragma once

#include <atomic>
#include <chrono>
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
  double seconds = 0;  // after which a workload ends, whatever is left of ops; 0: never
  double age = 0;  // updates of a record, on average, before anything is measured
  std::uint32_t threads = 1;
  std::uint64_t batch = 1;  // operations of a call
  bool sustained = false;
  std::uint64_t series_ms = 0;  // how often operations are counted while they run; 0: never
  std::uint64_t seed = 1;
  std::string pool;
};

/// What is asked of a store.
struct KvWork {
  /// insert, update, delete, get, a workload of YCSB from a to e, or recover, which updates, lets
  /// the store go as a kill would, opens it again, and reads all records. Insert may come once.
  /// After a delete nothing more.
  std::string workload;
  std::shared_ptr<Zipf const> zipf;  // of as many records; null: keys are uniform
  std::uint32_t recovery_threads = 1;
};

/// What one workload gave.
struct KvMeasured {
  std::uint64_t ops = 0;  // that were done
  double seconds = 0;
  double cpu_seconds = 0;  // of the threads that asked
  double all_cpu_seconds = 0;  // of the process: with collectors
  kv_baselines::Counts counts;
  kv_baselines::PartSeconds parts;
  kv_baselines::Recovery recovery;  // of workload recover
  double recovery_seconds = 0;
  kv_baselines::Collected collected;
  kv_baselines::MediaWrites media;
  double longest_us = 0;  // that a call took, where operations were counted while they ran
  std::vector<std::vector<std::uint64_t>> series;  // operations so far, by thread and time
  std::uint64_t faults = 0;
};

/// Bytes that the store, and what is about it, may come to: of the pool, and of other memory.
struct KvMemory {
  std::uint64_t pool = 0, other = 0;
};
/// `workloads`: that are to run on the store.
[[nodiscard]] KvMemory kv_memory(KvSetting const& setting, std::size_t workloads);
/// Throws a Failure that tells what is needed and what there is.
void require_memory(KvSetting const& setting, std::size_t workloads);

class KvBench {
 public:
  explicit KvBench(KvSetting const& setting);
  ~KvBench();
  KvBench(KvBench const&) = delete;
  KvBench& operator=(KvBench const&) = delete;

  KvMeasured run(KvWork const& work);
  [[nodiscard]] std::uint64_t pool_bytes() const { return store_->pool_bytes(); }
  [[nodiscard]] double filling_seconds() const { return filling_seconds_; }

 private:
  struct Thread;
  class Operations;
  using Clock = std::chrono::steady_clock;

  template <class F>
  void on_threads(F f);
  void load(Thread& thread, std::uint64_t begin, std::uint64_t end);
  void age(Thread& thread, std::uint64_t updates);
  void fill();
  void ask(KvWork const& work, std::uint32_t t, Thread& thread);
  bool ask_once(Operations& operations, Thread& thread, std::size_t n);
  void watch(KvMeasured& measured, std::atomic<std::uint32_t> const& running) const;
  KvMeasured recover(KvWork const& work);
  void open_sessions(bool filling);
  std::uint64_t check_all();
  void time(KvWork const& work, KvMeasured& measured);
  void finish(KvMeasured& measured) const;

  KvSetting setting_;
  PoolFile file_;
  Scramble scramble_;
  std::unique_ptr<kv_baselines::Store> store_;
  std::vector<std::unique_ptr<Thread>> threads_;
  std::uint64_t inserted_ = 0;  // by workload insert
  Clock::time_point begin_;  // of the workload that runs
  double filling_seconds_ = 0;
};

}  // namespace perdure::bench
