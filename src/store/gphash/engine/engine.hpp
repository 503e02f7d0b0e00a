// The seam between the store and the machines: an Engine runs the batch pipeline of one layout on
// one machine. A Session is one batch's buffers (and, on a GPU, its stream); sessions of one engine
// may get side by side, while the one that writes is alone.
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
#include "wal/undo.hpp"

namespace perdure {

/// What a batch of writes came to, in host memory, valid until the session's next call.
struct Outcome {
  std::span<std::uint8_t const> used;  // per reservation: its record is published
  std::span<std::uint64_t const> unlinked;  // per position: a record no longer reachable, or 0
};

class Session {
 public:
  virtual ~Session() = default;

  /// Brings the batch to the machine. `status` is the initial status of each operation; empty, for
  /// gets: all are pending.
  virtual Status begin(Call const& call, std::span<std::uint8_t const> status) = 0;
  virtual Status get() = 0;
  virtual Result<std::span<std::uint64_t const>> locate() = 0;
  virtual Status copy_located(std::span<std::int64_t const> offsets, std::byte* out) = 0;

  /// Hashes and sorts. `reserved` has a free record for each operation that may write one, else 0;
  /// with `any_fits`, all of them fit every operation, and the session deals them out as it likes.
  virtual Status prepare(std::span<std::uint64_t const> reserved, bool any_fits,
                         std::uint64_t sequence) = 0;
  /// As prepare(), with records of the engine's own map, `records` of them: one for each operation
  /// that may write. False: so many are not free, and nothing was taken.
  virtual Result<bool> prepare_lent(std::uint64_t records, std::uint64_t sequence) = 0;
  /// Once the batch has committed: what it unlinked, and what it did not use.
  virtual Status give_back_lent() = 0;
  /// Each ends with an ordering point. Without `displace`, an insert takes an empty slot or none.
  /// With `undo`, what publish() will overwrite is logged there; then `displace` must be off.
  virtual Result<exec::Counts> plan(bool displace, wal::UndoPlace const* undo) = 0;
  virtual Result<exec::Counts> publish() = 0;

  /// The batch with its columns in host memory, if it was begun to keep them; valid until the next
  /// begin().
  virtual Result<Call> kept() = 0;
  virtual Result<std::span<std::uint8_t const>> statuses() = 0;
  /// The records that prepare() or prepare_lent() came with: by position where any fits, else by
  /// operation.
  virtual Result<std::span<std::uint64_t const>> reserved() = 0;
  virtual Result<Outcome> outcome() = 0;
  /// Results are where the caller wants them.
  virtual Status finish() = 0;
};

/// Bytes that lie in the pool, inside one superblock, and in an array of the caller's in the
/// device's memory.
struct PoolCopy {
  std::byte* array = nullptr;
  std::byte* pool = nullptr;
  std::uint64_t bytes = 0;
};

struct DeviceView;

/// Operations for a device session's own machine, as a kernel of a user's would do them: each of
/// `sequences` warps carries out operations s, s + sequences, ... one after the other; between
/// warps there is no order.
struct DeviceOps {
  Column keys;
  Column values;  // of puts and updates
  MutableColumn out;  // of gets, and room for the sums of updates that add
  std::span<OpKind const> kinds;  // one per key
  // to the value's first 8 bytes, and insert new keys: DeviceTable::modify
  bool updates_add = false;
  std::uint64_t sequences = 1;
  std::span<KeyStatus> statuses;
  // Moments of one clock, per key, or empty: before a call, and after it.
  std::span<std::uint64_t> began, ended;
  std::uint64_t* acknowledged = nullptr;  // machine memory or null: how many each sequence has done
};

/// A device session on its machine: see store/gphash/engine/device_run.hpp.
class DeviceRun {
 public:
  virtual ~DeviceRun() = default;
  /// Takes that many of the free records lent to the engine. False: so many are not free, and
  /// nothing was taken.
  virtual Result<bool> begin(std::uint64_t records, std::uint64_t sequence) = 0;
  [[nodiscard]] virtual DeviceView const& view() const = 0;
  virtual Status run(DeviceOps const& ops) = 0;
  /// Waits for every kernel on the device, and gives back the records that no slot leads to.
  virtual Result<exec::Counts> end() = 0;
};

/// What an engine's mirror holds.
struct MirrorReport {
  std::uint64_t bytes = 0;
  std::string lacks;  // what did not fit, and why
  std::uint64_t cache_bytes = 0;
  std::uint64_t cache_records = 0;
};

class Engine {
 public:
  virtual ~Engine() = default;
  /// The table's levels are these from now on; no session is running.
  virtual Status set_table(gphash::TableView const& view, std::uint64_t slots) = 0;
  /// The host changed slot words by itself: the mirror, if there is one, follows. No session is
  /// running.
  virtual Status refresh() = 0;
  /// A load of the cache is these three; from the first to the last of them writes may not run.
  /// Gets may, but for empty_cache(), which lets go of what will not stay, or makes the cache: no
  /// session is running.
  virtual Status choose_cache() = 0;
  virtual Status empty_cache() = 0;
  virtual Result<CacheReport> fill_cache() = 0;
  /// Whether sessions may take records themselves, once the heap has lent its superblocks.
  [[nodiscard]] virtual bool can_borrow() const = 0;
  virtual Status borrow(pm::RecordHeap::Loan const& loan) = 0;
  /// The loan as it is now.
  virtual Status give_back(pm::RecordHeap::Loan& loan) = 0;
  /// The pool grew; its levels are where they were.
  virtual void set_pool_bytes(std::uint64_t bytes) = 0;
  virtual Result<std::unique_ptr<Session>> session() = 0;
  virtual Result<std::unique_ptr<DeviceRun>> device_run() = 0;
  /// Copies what these units hold on the retiring level to where it belongs afterwards; `full`
  /// counts what found no room, whose units take_refused() names. Ends with an ordering point. No
  /// session is running; nor in the next two.
  virtual Result<exec::Counts> rehash(std::span<std::uint32_t const> units) = 0;
  /// Empties these units' part of the retiring level.
  virtual Result<exec::Counts> empty(std::span<std::uint32_t const> units) = 0;
  /// The table's units that have moved are these from now on, one bit each.
  virtual Status set_moved(std::span<std::uint32_t const> bits) = 0;
  /// Units of which some key has found no room since this was asked last, in order.
  virtual Result<std::vector<std::uint32_t>> take_refused() = 0;
  /// From the arrays into the pool, after what the caller has put on `stream`: all is there when it
  /// returns, and the caller orders it. Then the other way.
  virtual Status save(std::span<PoolCopy const> copies, CUstream_st* stream) = 0;
  virtual Status load(std::span<PoolCopy const> copies, CUstream_st* stream) = 0;
  virtual exec::Counts get_counts() = 0;
  [[nodiscard]] virtual std::string describe() const = 0;
  [[nodiscard]] virtual MirrorReport mirror() = 0;
};

struct EngineOptions {
  std::byte* base = nullptr;
  bool in_place = false;
  bool default_shape = true;  // 2L-2H-8S
  bool count_accesses = false;
  bool verify_reads = true;
  bool displacement = true;
  bool mirrored = false;
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
