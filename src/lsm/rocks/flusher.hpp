// The background flush: sealed generations become RocksDB's, the oldest first, each as one sorted
// file a family, by one ingest under the intent protocol (notes in docs/design.md).
//
// Invariants:
//  1. Between an intent and the retirement of its segment nothing else changes RocksDB, and a
//     snapshot of it is open, so that its sequence number rises if and only if it ingested.
//  2. Files of several generations are written side by side; they are ingested one after the other.
//  3. Of each key the newest version is written, operands folded, on what RocksDB has of older
//     generations.
//  4. A flush that fails leaves the generation where it was, in view and G-WAL.
//  5. What little is left when a hand-over ends becomes RocksDB's by a write in place of a file,
//     while no other write is under way.
//  6. From before an ingest, or such a write, until the view that follows it, the block cache is
//     closed; what the ingest changed has left it by then.
#pragma once

#include <rocksdb/db.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <future>
#include <list>
#include <string>
#include <system_error>
#include <thread>

#include "base/mutex.hpp"
#include "lsm/cache/block_cache.hpp"
#include "lsm/rocks/counters.hpp"
#include "lsm/rocks/families.hpp"
#include "lsm/rocks/sorted_files.hpp"
#include "lsm/rocks/tables.hpp"

namespace perdure::lsm {

class Flusher {
 public:
  /// `cache` is null where there is none.
  /// `directory`: for the files until RocksDB has them; on its file system.
  /// `seal_idle`: called now and then (Writer::seal_idle).
  Flusher(rocksdb::DB& base, Engine& engine, exec::Workers& workers, Tables& tables,
          Families const& families, Counters& counters, BlockCache* cache, std::string directory,
          std::function<std::shared_ptr<void>()> seal_idle);
  ~Flusher();

  void start();
  /// A generation was sealed, or is the first.
  void notice();
  /// Until at most `left` sealed generations remain, or a flush has failed meanwhile.
  rocksdb::Status wait_until_sealed(std::uint64_t left);
  /// Until RocksDB has this generation and all before it, or a flush has failed meanwhile.
  rocksdb::Status wait_until_flushed(GenerationPtr const& generation);
  /// The last failure; OK once a flush succeeds.
  [[nodiscard]] rocksdb::Status failure() const;
  /// An ingest failed half way: RocksDB must not write a new MANIFEST, which would forget it.
  [[nodiscard]] bool is_uncertain() const { return uncertain_; }
  /// How long a generation takes, of those of late.
  [[nodiscard]] std::chrono::microseconds a_flush() const {
    return std::chrono::microseconds(a_flush_.load(std::memory_order_relaxed));
  }
  /// The thread ends after the flush that is under way.
  void stop();

 private:
  void run();
  template <class Waits>
  rocksdb::Status wait_while(Waits waits);
  using Files = std::list<SortedFiles>;  // of all families
  /// The files of a generation, and the thread that writes them.
  struct Ahead {
    GenerationPtr generation;
    Files files = {};
    std::future<rocksdb::Status> written = {};
  };
  bool hand_over();
  rocksdb::Status write_over(Generation& generation);
  rocksdb::Status flush_oldest();
  /// Begins to write files of sealed generations, several side by side.
  void write_ahead();
  void warn_of_threads(std::system_error const& error) const;
  rocksdb::Status wait_for_files(GenerationPtr const& generation);
  rocksdb::Status flush(GenerationPtr const& generation, Files* prepared);
  rocksdb::Status ingest(Generation& generation, Files* prepared);
  rocksdb::Status ingest(Generation& generation, Files const& files, std::uint64_t sequence);
  rocksdb::Status after_failed_ingest(Generation& generation, std::uint64_t sequence,
                                      rocksdb::Status const& failure);
  rocksdb::Status write_files(Generation& generation, rocksdb::Snapshot const* snapshot,
                              Files& files);
  rocksdb::Status write_parts(FamilyPtr const& family, Run const& run,
                              rocksdb::Snapshot const* snapshot, Files& files);
  void invalidate(Files const& files);
  void wait_for_compaction(Generation const& generation);
  void count_flush();
  void refresh(Generation const& generation, std::uint64_t sequence);
  void rest();

  rocksdb::DB& base_;
  Engine& engine_;
  exec::Workers& workers_;
  Tables& tables_;
  Families const& families_;
  Counters& counters_;
  BlockCache* const cache_;
  std::string const directory_;
  bool const buffers_wal_;  // a write that returned may be lost with the process
  std::size_t const side_by_side_;  // generations whose files are written at once
  std::function<std::shared_ptr<void>()> const seal_idle_;

  mutable Mutex mutex_;
  Condition changed_;
  std::atomic<bool> uncertain_ = false;
  std::atomic<std::uint64_t> next_file_ = 0;
  std::uint64_t attempts_ PERDURE_GUARDED_BY(mutex_) = 0;
  rocksdb::Status failure_ PERDURE_GUARDED_BY(mutex_);
  bool noticed_ PERDURE_GUARDED_BY(mutex_) = false;
  bool stopping_ PERDURE_GUARDED_BY(mutex_) = false;
  std::thread thread_;

  // The thread's: generations whose files are being written, oldest first; since when it has been
  // busy, when it had the last generation, and whether it rests.
  using Clock = std::chrono::steady_clock;
  std::list<Ahead> ahead_;
  // Of each family of what was ingested last, the keys that the block cache had.
  std::vector<std::pair<std::uint32_t, std::vector<std::uint32_t>>> invalidated_;
  Clock::time_point busy_since_{}, last_flush_{};
  bool rests_ = true;
  std::atomic<std::int64_t> a_flush_ = 0;  // microseconds
};

}  // namespace perdure::lsm
