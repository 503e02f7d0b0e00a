// The memtables: generations, the newest of which takes writes, and the view that readers get.
//
// Invariants:
//  1. Writes are appended by one thread at a time, who keeps all other writes to RocksDB out.
//  2. While there is a generation, nothing but the ingest of the oldest changes RocksDB, or a write
//     of it.
//  3. A batch is in the view as a whole, after its record in the G-WAL is whole.
//  4. A generation leaves the view only when RocksDB has all of it; the view that follows has a
//     snapshot of RocksDB that was taken after that.
#pragma once

#include <rocksdb/db.h>

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <vector>

#include "base/mutex.hpp"
#include "exec/workers.hpp"
#include "lsm/rocks/batch_entries.hpp"
#include "lsm/rocks/flushed_tables.hpp"
#include "lsm/rocks/generation.hpp"
#include "lsm/rocks/view.hpp"
#include "lsm/rocks/write_history.hpp"

namespace perdure::lsm {

class Tables {
 public:
  /// `memtable_bytes`: of a generation, and of its segment; `flushed_bytes`: see FlushedTables.
  Tables(rocksdb::DB& base, Engine& engine, Gwal& gwal, exec::Workers& workers,
         std::uint64_t memtable_bytes, std::uint64_t flushed_bytes);

  // By any thread.
  /// Whether there are generations: else RocksDB is all there is.
  [[nodiscard]] bool any() const { return any_.load(std::memory_order_acquire); }
  [[nodiscard]] ViewPtr view() const;
  /// The view, with a snapshot of RocksDB even where there are no generations.
  [[nodiscard]] std::unique_ptr<ViewSnapshot> snapshot() const;
  /// The same, and from it on writes are remembered for past(), until unpin() of its sequence.
  [[nodiscard]] std::unique_ptr<ViewSnapshot> pin();
  void unpin(std::uint64_t sequence);
  struct Past {
    ViewPtr view;
    WriteHistory history;
  };
  [[nodiscard]] Past past() const;
  /// The number of the last write, RocksDB's own among them. Never falls.
  [[nodiscard]] std::uint64_t sequence() const;
  [[nodiscard]] std::uint64_t sealed_generations() const;
  struct Load {
    std::uint64_t requests = 0;
    std::uint64_t bytes = 0;
    std::size_t generations = 0;
  };
  [[nodiscard]] Load load() const;
  /// Null where there is none.
  [[nodiscard]] GenerationPtr newest_sealed() const;
  [[nodiscard]] bool has(GenerationPtr const& generation) const;
  struct Flushed {
    std::uint64_t generations = 0;  // hot entries are one of them
    std::uint64_t bytes = 0;
    std::uint64_t hot_entries = 0;
  };
  [[nodiscard]] Flushed flushed() const;
  /// What RocksDB has of some keys in its state `sequence`: reads of many keys find it as they find
  /// what was flushed. Not where that state is over. No caller of forget_flushed() is under way.
  bool add_hot(GenerationPtr hot, std::uint64_t sequence);

  // By the writer alone.
  /// Room for a batch's copy, where its values stay; not appended, it is used again. `few` are to
  /// follow: a segment that is begun for it is a small one.
  Result<std::span<std::byte>> reserve(std::uint64_t bytes, bool logged, bool few);
  /// Whether the log can take a record of so many bytes.
  [[nodiscard]] GwalRoom log_room(std::uint64_t bytes) { return gwal_.make_room(bytes); }
  /// The request that the next batch begins with.
  [[nodiscard]] RequestId next_request();
  struct Written {
    std::uint64_t requests = 0;
    std::uint64_t bytes = 0;  // of the copy
    bool logged = true;
    bool sync = false;
    GwalPayloadSum const* sum = nullptr;  // of the copy, where there is one
  };
  /// The batch whose copy lies where reserve() said; of a family's parts the newest comes last.
  /// With `sync`, on the medium when it returns. `seen` gets the first view that has it.
  Status append(std::span<FamilyBatch const> batch, Written const& written,
                ViewPtr* seen = nullptr);
  /// The newest generation takes no more; where there is none, nothing happens.
  void seal();
  /// RocksDB changes in other ways than by the flusher: what was flushed says nothing of it.
  void forget_flushed();
  [[nodiscard]] bool is_full() const;
  /// At the end: nothing is read or written any more. What is not flushed stays in the G-WAL.
  void close();
  /// A generation that an earlier process left; in the order in which they were written.
  Status restore(GenerationPtr generation, std::span<FamilyBatch const> batch, RequestId last);

  // By the flusher alone.
  /// Nothing was written for long: memory that the next memtables would use again goes.
  void rest();
  /// Oldest first.
  [[nodiscard]] std::vector<GenerationPtr> sealed() const;
  /// One run a family in place of several, with the same entries.
  Status compact(Generation& generation);
  /// Makes what will be kept of it. Before RocksDB gets it: from then on until the next view is
  /// published, a reader's iterators pass over all that they must not see.
  void prepare_removal(GenerationPtr const& generation);
  /// RocksDB has it. The sequence number of RocksDB that readers see from now on.
  std::uint64_t remove(GenerationPtr const& generation);

 private:
  [[nodiscard]] std::shared_ptr<View> view_of_rocksdb() const;
  /// What was flushed, where the view's snapshot of RocksDB is of the state in which it holds.
  void add_flushed(View& view) const PERDURE_REQUIRES(mutex_);
  Result<std::vector<RunPtr>> build(std::span<FamilyBatch const> batch);
  /// Makes one run of the newest of these where there are many.
  void merge_some(std::vector<RunPtr>& runs);
  void add_generation(GenerationPtr generation) PERDURE_REQUIRES(mutex_);
  /// The sequence number of RocksDB that the view goes with.
  std::uint64_t publish() PERDURE_REQUIRES(mutex_);

  rocksdb::DB& base_;
  Engine& engine_;
  Gwal& gwal_;
  exec::Workers& workers_;
  std::uint64_t const memtable_bytes_;
  std::uint64_t const flushed_bytes_;
  GenerationPtr leaves_, kept_;  // by prepare_removal(); the flusher's alone
  std::atomic<bool> any_ = false;
  std::atomic<std::uint64_t> ahead_ = 0;  // of sequence() before RocksDB's own, without generations
  GenerationPtr active_;  // the writer's; null or generations_.front()

  mutable Mutex mutex_;
  std::deque<GenerationPtr> generations_ PERDURE_GUARDED_BY(mutex_);  // newest first
  std::shared_ptr<BaseSnapshot const> snapshot_ PERDURE_GUARDED_BY(mutex_);
  std::atomic<RequestId> last_ = 0;  // written under the mutex
  ViewPtr view_ PERDURE_GUARDED_BY(mutex_);
  WriteHistory history_ PERDURE_GUARDED_BY(mutex_);
  FlushedTables flushed_ PERDURE_GUARDED_BY(mutex_);
};

}  // namespace perdure::lsm
