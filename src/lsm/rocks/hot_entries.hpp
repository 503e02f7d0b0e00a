// Hot entries of the block cache in the machine's memory. Reads of many keys count what the block
// cache answers them; once that is worth it, a thread gathers the entries that are read most, and
// they join what was flushed (FlushedTables), which the machine is asked for first.
//
// Invariant: they are published only while RocksDB is in the state in which the block cache held
// them, and nobody changes RocksDB in ways that its sequence number may not show.
#pragma once

#include <rocksdb/db.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <thread>

#include "base/mutex.hpp"
#include "lsm/rocks/counters.hpp"
#include "lsm/rocks/hot_gather.hpp"
#include "lsm/rocks/tables.hpp"
#include "lsm/rocks/writer.hpp"

namespace perdure::lsm {

/// When entries are gathered. A test has less.
struct HotRules {
  /// Keys that the block cache has answered to reads of many, since the last time; and at least as
  /// many as there were entries then.
  std::uint64_t hits = std::uint64_t{1} << 16;
  HotAsked asked = {};  // its bytes are the owner's
  /// After each time, a pause of so many times as long as that took, at least.
  std::uint32_t pause = 19;
};

/// Pauses twice as long each time, up to a limit, as long as gathering brings little: not many more
/// entries than the last time, while the machine answers most of what it and the block cache know.
class HotPace {
 public:
  static constexpr std::uint32_t kMostTimes = 64;

  explicit HotPace(std::uint32_t pause) : pause_(pause) {}
  /// The pause after a gathering; `by_cache` and `by_machine`: keys that each answered before it.
  std::uint32_t after(std::uint64_t entries, std::uint64_t by_cache, std::uint64_t by_machine) {
    bool const brings_little = entries <= entries_ + entries_ / 8 && by_cache < by_machine / 4;
    entries_ = entries;
    times_ = brings_little ? std::min(2 * times_, kMostTimes) : 1;
    return pause_ * times_;
  }

 private:
  std::uint32_t const pause_;
  std::uint32_t times_ = 1;
  std::uint64_t entries_ = 0;
};

class HotEntries {
 public:
  /// `most_bytes`: of what was flushed and hot entries together.
  HotEntries(rocksdb::DB& base, Engine& engine, exec::Workers& workers, Tables& tables,
             Writer& writer, Counters& counters, BlockCache& cache, std::uint64_t most_bytes);
  ~HotEntries();

  /// Until then nothing is counted or gathered.
  void start(HotRules const& rules);
  void stop();
  /// The block cache answered so many keys of a read of many.
  void found(std::uint64_t keys) {
    if (hits_.fetch_add(keys) + keys >= due_.load()) wake();
  }

  // What the thread does, step by step.
  /// Of the state of RocksDB that the block cache knows; without a generation where there is none.
  HotGathered gather(HotAsked asked);
  /// Whether they hold still, and are asked from now on.
  bool publish(HotGathered const& gathered);

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr std::uint64_t kNever = ~std::uint64_t{0};

  void wake();
  void run(HotRules rules);
  /// The answer is how many entries there are.
  std::uint64_t build(HotAsked const& asked);
  /// Until so many keys were found; no: it is to stop.
  bool wait_for_hits(std::uint64_t keys);
  bool pause(Clock::duration time);

  rocksdb::DB& base_;
  Engine& engine_;
  exec::Workers& workers_;
  Tables& tables_;
  Writer& writer_;
  Counters& counters_;
  BlockCache& cache_;
  std::uint64_t const most_bytes_;

  std::atomic<std::uint64_t> hits_ = 0;
  std::atomic<std::uint64_t> due_ = kNever;  // so many hits wake the thread
  Mutex mutex_;
  Condition changed_;
  bool stopping_ PERDURE_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace perdure::lsm
