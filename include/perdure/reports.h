// What stores say of themselves: recovery, statistics, verification, pages of scans, loads of the
// cache.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "perdure/batch.h"
#include "perdure/options.h"

namespace perdure {

struct RecoveryReport {
  bool clean = true;  // the pool was closed cleanly
  bool resize_resumed = false;
  std::uint64_t records = 0;  // reachable after recovery
  bool counted = true;  // false: not yet, of a large Dash index that was not closed in order; see
                        // Stats::records
  // slots cleared (half inserted, or by a repair), or pointing outside any record
  std::uint64_t dropped = 0;
  // slots set back, for a transaction that had not committed; its step counts as one. Layout `log`:
  // operations dropped. Persist::full: pieces of cache lines
  std::uint64_t undone = 0;
  // second copies of one record removed (a crash inside a displacement)
  std::uint64_t duplicates = 0;
  std::string why_dropped;  // empty when nothing was dropped
  bool repaired = false;  // by OpenOptions::repair, for it or its log was damaged: see
                          // Store::acknowledge_repair
  std::vector<std::string> changes;  // what recovery or repair changed, one line each, naming slot
                                     // and file offset; at most 100
  std::uint64_t replayed = 0;  // durability power: batches taken from the log
  // durability power: by OpenOptions::repair, without what a damaged log had held
  bool lost_acknowledged = false;
  std::string log_report;  // durability power: which image was used, where the log ended and why
  double replay_seconds = 0;
  double map_seconds = 0;
  double recover_seconds = 0;  // all that an opening does between mapping the pool and that replay
};

/// Since open or the last reset; zero unless count_accesses. Of a Dash index reads and writes are
/// cache lines: those that an operation looks at, each once, and those that it has to bring back to
/// the medium.
struct AccessCounts {
  std::uint64_t pm_reads = 0;  // bucket rows and records touched
  std::uint64_t pm_writes = 0;  // records and slot words written
  std::uint64_t orders = 0;  // ordering points
  // gets that the record cache answered, or whose key the bucket cache found
  std::uint64_t cache_hits = 0;
};

/// Bytes of the pool's file.
struct SpaceStats {
  std::uint64_t pool_bytes = 0;  // its size
  // header, live levels, heap superblocks in use, and room for dense buffers
  std::uint64_t used_bytes = 0;
  std::uint64_t dense_bytes = 0;  // of it, for dense buffers: two copies of each
};

/// What is held in the device's own memory.
struct MemoryStats {
  Residency residency = Residency::pm;
  std::uint64_t mirror_bytes = 0;
  std::string note;  // what the mirror lacks, and why; empty when it lacks nothing
  std::uint64_t cache_records = 0;  // taken by the last load, or in the buckets that it took
  std::uint64_t cache_bytes = 0;  // of a bucket cache, with what buckets are chosen by
};

/// How gets of a mirrored store fetch values, of batches of one size, measured while running:
/// MemoryOptions::gather `automatic`. Sizes below 1,024 keys take values as they come.
struct GatherSize {
  std::uint64_t batch = 0;  // keys: from here to twice as many
  Gather by = Gather::in_order;  // the way that stays
  // a batch of `batch` keys, as each way took last; 0 = not tried
  double at_once_us = 0, in_order_us = 0, by_host_us = 0, shared_us = 0;
  std::uint64_t contests = 0;  // of ways, that have ended
  bool learning = false;  // some way has not been tried yet
  // A GPU's, into arrays in host memory; by_host then copies values straight into them.
  bool to_host = false;
};

/// Gets of batches of one size, measured while running.
struct SharedSize {
  std::uint64_t batch = 0;  // keys: from here to twice as many
  GetsBy by = GetsBy::host;  // who answers them: host, device or both
  double device_share = 0;  // of the keys, where both answer
  double host_us = 0, device_us = 0, both_us = 0;  // a batch of `batch` keys; 0 = not tried
  std::uint64_t contests = 0;  // of ways, that have ended
  // of batches so far; and of them more than the better way of a contest would have taken
  double spent_seconds = 0, contest_seconds = 0;
};

/// Of OpenOptions::gets_by: gets that the host's threads share with the device.
struct SharingStats {
  bool shared = false;
  std::string note;  // why not, where that was not asked for
  std::uint64_t host_keys = 0;  // of batches that may be shared, by who answered
  std::uint64_t device_keys = 0;
  std::vector<SharedSize> sizes;  // that came, ascending
};

/// Of durability power.
struct LogStats {
  std::uint64_t used_bytes = 0;  // not yet covered by both checkpoints
  std::uint64_t checkpoints = 0;  // since open
  std::string method;  // for example "io_uring, O_DIRECT, registered buffers"
};

/// Of a pool of `Values::log`; zeros elsewhere. What has been counted, since the store was opened.
struct ValueLogStats {
  std::uint64_t segments = 0;
  std::uint64_t free_segments = 0;
  std::uint64_t queued_segments = 0;  // wait to be collected, or are being collected
  std::uint64_t used_bytes = 0;  // of records, outdated ones and tombstones among them
  std::uint64_t outdated_bytes = 0;  // without tombstones
  std::uint64_t tombstone_bytes = 0;
  std::uint64_t appended_bytes = 0;  // by writes
  std::uint64_t moved_bytes = 0;  // by collections
  std::uint64_t collections = 0;
  std::uint64_t failed_collections = 0;  // of segments that are damaged, or found no room
  std::uint64_t waits = 0;  // of writers, while the queue was full
  std::uint64_t longest_wait_ns = 0;
};

struct Stats {
  // of a Dash index that was not closed in order: counted when first asked for
  std::uint64_t records = 0;
  std::string damage;  // of a Dash index: what the counting met, so that `records` lacks some;
                       // empty: nothing
  std::uint64_t slots = 0;
  double load_factor = 0;  // records / slots
  // begun or resumed since open, and not given up for want of memory; 0 with index btree, which
  // grows leaf by leaf
  std::uint64_t growths = 0;
  // of the table, that a growth under way has still to move; 0: it does not grow
  std::uint64_t units_left = 0;
  std::uint64_t displacements = 0;  // words moved aside since open
  std::uint64_t batches = 0;  // batches since open
  AccessCounts accesses;
  SpaceStats space;
  MemoryStats memory;
  SharingStats sharing;
  std::vector<GatherSize> gathers;  // sizes that came, ascending; those to_host come last
  LogStats log;
  ValueLogStats value_log;
  // What the pool is.
  std::uint32_t key_bytes = 0;
  std::uint32_t value_bytes = 0;
  ValueType value_type;
  std::uint32_t max_key_bytes = 0;
  std::uint32_t max_value_bytes = 0;
  std::uint32_t top_level = 0;  // log2 of its buckets
  Shape shape = {};
  Index index = Index::gphash;
  KeyOrder key_order = KeyOrder::bytes;
  Values values = Values::heap;
  Persist persist = Persist::minimal;
  std::uint64_t segments = 0;  // of a Dash index; of a btree, leaves
  std::uint64_t index_bytes = 0;  // of ordinary memory, that a btree takes
  Layout layout = Layout::word;
  Device device = Device::cpu;
  Medium medium = Medium::tmpfs;
  std::string machine;  // for example "cpu avx512 x2" or "cuda NVIDIA H200"
};

struct VerifyReport {
  std::uint64_t records = 0;  // records whose checksum, key and place in the index agree
  std::uint64_t dropped = 0;  // what recovery dropped when this store was opened
  std::vector<std::string>
      faults;  // one line each, naming the slot and the file offset; at most 100
  std::uint64_t fault_count = 0;
};

/// Where a scan stands. Order is the index's, not the keys'. A scan sees every key that is there
/// from its begin to its end; it ends with Code::busy (start again) if keys moved meanwhile,
/// because the table grew or made room in a crowded bucket. Of a Dash index it goes on, for keys
/// keep their order: each page looks at a segment (some hundred records) at a time, and may begin
/// after records that came meanwhile. With index btree it goes on too, in the order of keys.
struct ScanCursor {
  std::uint64_t slot = 0;
  std::uint64_t generation = 0;  // 0 = a new scan
  bool done = false;
  std::vector<std::byte> key = {};  // index btree: of the last record that was seen
};

struct ScanPage {
  VariableValues keys;  // same shape for fixed-width pools, all lengths equal
  VariableValues values;
  ScanCursor next;
};

/// Records whose keys lie in [start, end), in the order of keys, which the pool's KeyOrder says. A
/// bound is a key; among fixed keys in the order of bytes a shorter one may be, too, and stands for
/// the least that begins so.
struct RangeQuery {
  std::optional<std::vector<std::byte>> start = {};  // none: from the least key on
  bool after_start = false;  // without `start` itself
  std::optional<std::vector<std::byte>> end = {};  // is not in it; none: up to the greatest key
  bool reverse = false;  // the greatest key first
  std::size_t limit = 65536;  // records of a page
};

/// A page ends early where it has more than 32 MiB.
struct RangePage {
  VariableValues keys;  // as a ScanPage's
  VariableValues values;
  std::optional<RangeQuery> next = {};  // asks for what is left; none: nothing
};

/// What a load of the record cache came to.
struct CacheReport {
  std::uint64_t records = 0;
  std::uint64_t corrupt = 0;  // left out, for their checksum does not match
  std::uint64_t bytes = 0;  // of the device's memory
  double seconds = 0;
};

}  // namespace perdure
