// The seam between the store and the machines. An Engine is one table on one machine; a Session is
// one batch on its way through it: its buffers and, on a GPU, its stream. Invariants: sessions that
// get may run side by side, and the one that writes is alone; nothing of a batch is durable before
// the order() that follows the step which wrote it.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "batch/call.hpp"
#include "exec/counts.hpp"
#include "exec/workers.hpp"
#include "index/gphash/layout.hpp"
#include "perdure/batch.h"
#include "perdure/status.h"
#include "perdure/store.h"
#include "pm/heap.hpp"
#include "wal/entries.hpp"
#include "wal/undo.hpp"

namespace perdure {

/// The records that a batch of writes may use.
struct Reservation {
  // A free record for each operation that may write one, else 0; or, with `leased`, empty: the
  // engine takes them from its lease, so many.
  std::span<std::uint64_t const> records = {};
  std::uint64_t leased = 0;
  bool from_lease = false;
  bool any_fits = false;  // each fits every operation, and the session deals them out as it likes
  std::uint64_t sequence = 0;  // the batch's number, which its records carry
  // Layout `log`: where its entries go. `segments` is in host memory; empty: it has none.
  std::span<std::uint64_t const> segments = {};
  wal::EntryRegion entries = {};
  bool undoable = false;  // behind them it writes as many that undo them
  bool told = false;  // download() may be asked for its records, and then needs no more memory
  bool kept = false;  // others come before release_records(): see keep_records()
};

/// Layout `log`: cells to put into the table again.
struct CellsToReplay {
  std::span<std::uint64_t const> segments;  // that they lie in; host memory
  wal::EntryRegion region;
  std::uint64_t count = 0;
  std::span<std::uint32_t const> heads;  // cells where a head of an extent begins
  std::uint64_t salt = 0;  // nobody who makes keys knows it
  bool takes_out = false;  // entries that have keys: whatever they say, their keys are gone
};

/// Of the records that a table's words lead to.
struct MarkedRecords {
  std::uint64_t records = 0;
  std::uint64_t again = 0;  // words that lead to a record which another leads to
  std::uint64_t astray = 0;  // and those that lead to none
  std::uint64_t sum = 0;  // of all slots
};

/// What of a batch to copy to host memory.
enum class Download : std::uint8_t {
  statuses,
  outcome,  // `used` and `unlinked`
  reserved,  // the records it took from the lease
  columns,  // its arrays, where the call was to keep them
};

/// In host memory until the session's next step.
struct Downloaded {
  std::span<std::uint8_t const> statuses;
  std::span<std::uint8_t const> used;  // per reservation: its record is published
  std::span<std::uint64_t const> unlinked;  // per position: a record no longer reachable, or 0
  std::span<std::uint64_t const> reserved;  // by position where any fits, else by operation
  Call columns;
};

class Session {
 public:
  virtual ~Session() = default;

  /// Copies the batch to the machine. `status` is the initial status of each operation; empty: all
  /// are pending.
  virtual Status upload(Call const& call, std::span<std::uint8_t const> status) = 0;
  virtual Status get() = 0;
  virtual Result<VariableValues> get_variable() = 0;

  /// Groups the operations by key and takes the records. False: so many are not free in the lease,
  /// and nothing was taken.
  virtual Result<bool> prepare(Reservation const& reservation) = 0;
  /// In the place of upload() and prepare(): a batch of what these cells say. Its records are
  /// there.
  virtual Status replay(CellsToReplay const& cells) = 0;
  /// A pass begins: phase one. Without `displace`, an insert takes an empty slot or none.
  virtual Status plan(bool displace) = 0;
  /// Logs what publish() will overwrite. Displaces nothing: plan() must not have either.
  virtual Status log_undo(wal::UndoRegion const& region) = 0;
  /// All that the session has written is durable before anything that its next step writes. Does
  /// not wait.
  virtual Status order_steps() = 0;
  /// Phase two. With `statuses`, those of the pass are on their way to the host, so that download()
  /// need not wait once more.
  virtual Status publish(bool statuses) = 0;
  /// Those, while phase two goes on. Empty: there are none as early.
  virtual Result<std::span<std::uint8_t const>> early_statuses() = 0;
  /// Whether they stood, once pass_counts() has said what the pass came to.
  [[nodiscard]] virtual bool early_statuses_stand() const = 0;
  /// Waits for the pass, and says what its steps counted.
  virtual Result<exec::Counts> pass_counts() = 0;
  /// All that was written before is durable before anything that is written afterwards.
  virtual Status order() = 0;
  /// Once the batch is durable: releases to the lease what it unlinked, and what it did not use. Of
  /// one that is alone on the pool until it is durable its last pass may have.
  virtual Status release_records() = 0;
  /// Results are in the caller's arrays, and what is left to the session are the records that its
  /// batch took: release_records(), or a download of them, may come after other batches.
  virtual Status keep_records() = 0;

  virtual Result<Downloaded> download(Download what) = 0;
  /// Results are in the caller's arrays.
  virtual Status finish() = 0;
};

/// Moves the units of a growing table. No session is running meanwhile.
class UnitMover {
 public:
  virtual ~UnitMover() = default;
  /// Copies what these units hold on the retiring level to where it belongs afterwards; `full`
  /// counts what found no room, whose units take_refused() names. Ends with an ordering point.
  virtual Result<exec::Counts> rehash(std::span<std::uint32_t const> units) = 0;
  /// Empties these units' part of the retiring level.
  virtual Result<exec::Counts> empty(std::span<std::uint32_t const> units) = 0;
  /// Layout `log`: nothing of these units, which have not moved, stands anywhere but on the
  /// retiring level.
  virtual Status clear_copies(std::span<std::uint32_t const> units) = 0;
  /// The table's units that have moved are these from now on, one bit each.
  virtual Status set_moved(std::span<std::uint32_t const> bits) = 0;
  /// Units of which some key has found no room since this was asked last, in order.
  virtual Result<std::vector<std::uint32_t>> take_refused() = 0;
};

/// Keeps the map of the free records that the heap leases to the engine.
class RecordLease {
 public:
  virtual ~RecordLease() = default;
  virtual Status begin(pm::RecordHeap::Lease const& lease) = 0;
  /// The lease as it is now.
  virtual Status end(pm::RecordHeap::Lease& lease) = 0;
};

/// Loads the cache by these three steps; from the first to the last of them writes may not run.
/// Gets may, but for empty(), which evicts what will not stay, or makes the cache: no session is
/// running.
class CacheLoader {
 public:
  virtual ~CacheLoader() = default;
  virtual Status choose() = 0;
  virtual Status empty() = 0;
  virtual Result<CacheReport> fill() = 0;
};

/// Bytes that lie in the pool, inside one superblock, and in an array of the caller's in the
/// device's memory.
struct PoolCopy {
  std::byte* array = nullptr;
  std::byte* pool = nullptr;
  std::uint64_t bytes = 0;
};

/// What an engine's mirror holds.
struct MirrorReport {
  std::uint64_t bytes = 0;
  std::string lacks;  // what did not fit, and why
  std::uint64_t cache_bytes = 0;
  std::uint64_t cache_records = 0;
};

/// Of an engine, for Stats.
struct EngineReport {
  std::string machine;
  MirrorReport mirror;
  exec::Counts gets;  // what gets have counted since the last report
  std::vector<GatherSize> gathers;
};

class DeviceRun;

class Engine {
 public:
  virtual ~Engine() = default;
  /// The table's levels are these from now on; no session is running.
  virtual Status set_table(gphash::TableView const& view, std::uint64_t slots) = 0;
  /// The host changed slot words by itself: the mirror, if there is one, follows. No session is
  /// running.
  virtual Status refresh() = 0;
  /// The pool grew; its levels are where they were.
  virtual void set_pool_bytes(std::uint64_t bytes) = 0;
  virtual Result<std::unique_ptr<Session>> session() = 0;
  virtual UnitMover& units() = 0;
  /// Layout `log`: words and identities of the mirror, as the host may read them until the table
  /// changes. From a far machine they are copied when they are asked for, if they have changed
  /// since.
  virtual Result<gphash::Mirror> mirror() = 0;
  /// Layout `log`: an entry for each key of the table, side by side in that region. What it counts:
  /// how many, and their sum. Ordered by the caller; no session is running.
  virtual Result<exec::Counts> copy_entries(std::span<std::uint64_t const> segments,
                                            wal::EntryRegion region) = 0;
  /// Layout `log`: marks in these maps the records that the table's words lead to. No session is
  /// running.
  virtual Result<MarkedRecords> mark_records(pm::RecordHeap::Lease& maps) = 0;
  /// Null: sessions cannot take records themselves.
  virtual RecordLease* lease() = 0;
  virtual CacheLoader& cache() = 0;
  virtual Result<std::unique_ptr<DeviceRun>> device_run() = 0;
  /// From the arrays into the pool, after what the caller has put on `stream`: all is there when it
  /// returns, and the caller orders it. Then the other way.
  virtual Status save(std::span<PoolCopy const> copies, CUstream_st* stream) = 0;
  virtual Status load(std::span<PoolCopy const> copies, CUstream_st* stream) = 0;
  virtual EngineReport report() = 0;
  /// Whether gets of so many keys into host memory have still to find the fastest way to fetch
  /// their values.
  [[nodiscard]] virtual bool is_learning(std::uint64_t n) const = 0;
};

struct EngineOptions {
  std::byte* base = nullptr;
  bool in_place = false;
  bool logged = false;  // layout `log`
  bool hashed = false;  // and its entries have hashes of keys
  bool default_shape = true;  // 2L-2H-8S
  bool count_accesses = false;
  bool verify_reads = true;
  bool displacement = true;
  bool mirrored = false;
  bool gets_only = false;  // another engine writes: no claims
  Gather gather = Gather::automatic;
  std::uint64_t memory_budget = 0;
  std::uint64_t cache_bytes = 0;
  CachePolicy cache_policy = CachePolicy::lfu;
  exec::Workers* workers = nullptr;
};

/// The best CPU engine this processor can run; null if it has not even AVX2.
std::unique_ptr<Engine> make_cpu_engine(EngineOptions const& options);
Result<std::unique_ptr<Engine>> make_cuda_engine(EngineOptions const& options);
/// "avx512", "avx2" or "".
[[nodiscard]] std::string cpu_instruction_set();

}  // namespace perdure
