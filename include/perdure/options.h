// How pools are made and stores opened: the options of perdure/store.h. Invariant: options say what
// is asked for; what a store made of them, and what it could not give, is in its reports.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "perdure/batch.h"
#include "perdure/survival.h"

namespace perdure {

enum class Device : std::uint8_t { cpu, cuda };
/// What finds keys. `gphash`: GPHash's levels, for batches on a GPU or on CPU warps. `dash_eh`,
/// `dash_lh`: Dash's extendible and linear hashing, for many host threads at once, and pools that
/// open without a look at their records. `btree`: a B+-tree for many host threads, whose keys are
/// in order (Store::range). The tree is in ordinary memory, and every opening makes it anew from
/// all records. Dash and `btree` have device cpu, durability process or none, and single
/// operations: no transactions, atomic batches (but with Persist::full), steps, device sessions or
/// caches, which answer Code::unsupported.
enum class Index : std::uint8_t { gphash, dash_eh, dash_lh, btree };
/// Which of two keys of a `btree` comes first. `bytes`: the one whose first byte that differs is
/// less, and of one that continues the other the shorter. `unsigned_integer`, `signed_integer`: the
/// lesser number; keys are then little-endian integers of 1, 2, 4 or 8 bytes.
enum class KeyOrder : std::uint8_t { bytes, unsigned_integer, signed_integer };
/// Where a `btree` keeps its records: each in a slot of a heap, or one behind the other in log
/// segments whose outdated records a thread collects (docs/value_log.md).
enum class Values : std::uint8_t { heap, log };
/// What of a `btree` is durable. `minimal`: its records alone; each opening makes the tree of them.
/// `index`: the tree's leaves as well; an opening goes through those, and through no record.
/// `full`: inner nodes and what is free, too (docs/ordered.md has what each costs).
enum class Persist : std::uint8_t { minimal, index, full };
/// How the index of a pool is durable. `word`: GPHash with 8-byte slot words. `in_place`: as
/// published (GPHash section 3.1). `log`: as a log of 16 bytes an operation (32 with keys of more
/// than 8 bytes or of any length, 48 with 25 to 32), of which each opening makes the table in the
/// machine's memory; a batch of writes is there whole or not at all. It has the default shape. On a
/// GPU, the first scan, view or verify after a change copies the table's words to the host.
enum class Layout : std::uint8_t { word, in_place, log };

/// Levels x hash functions x slots a bucket; their product is at most 32, slots a power of two.
struct Shape {
  std::uint32_t levels = 2;
  std::uint32_t hashes = 2;
  std::uint32_t slots = 8;
};

/// What the values of a pool are to those who see arrays: rows of `rank` extents of elements of one
/// kind. The engine keeps it, and goes by bytes alone.
enum class ValueKind : std::uint8_t {
  bytes = 0,  // nothing is known of them
  boolean = 1,
  signed_integer = 2,
  unsigned_integer = 3,
  floating = 4,  // IEEE 754, of 2, 4 or 8 bytes
  bfloat = 5,  // bfloat16
  complex = 6,  // two floats of half its size
};

struct ValueType {
  static constexpr std::uint32_t kMostExtents = 8;
  ValueKind kind = ValueKind::bytes;
  // little-endian; 0 where the kind is `bytes`, as all that follows
  std::uint8_t element_bytes = 0;
  std::uint8_t rank = 0;  // 0: a value is one element
  // the first `rank` count, each at least 1; the others are 0
  std::uint32_t extents[kMostExtents] = {};
};

/// A file that a call makes: what it may replace, and whose it is. See Store::create.
struct FileOptions {
  // replace a file of the same kind (of durability power, the log's files too)
  bool overwrite = false;
  bool force = false;  // replace whatever file is there
  std::uint32_t mode = 0;  // permission bits; 0 = not given
};

/// Durability power: the log and two images of the pool.
struct LogOptions {
  std::string dir = {};  // a directory on a disk
  std::uint64_t bytes = 256u << 20;  // size of the log
};

struct CreateOptions {
  std::uint32_t key_bytes = 8;  // fixed, 1..128; 0 = variable length
  std::uint32_t value_bytes = 0;  // fixed, 1..max; 0 = variable length
  std::uint64_t expected_records = 1 << 16;  // sizes the first levels; the table grows past it
  std::uint64_t max_bytes = 0;  // the pool file never grows past this; 0 = as the medium allows
  Index index = Index::gphash;
  KeyOrder key_order = KeyOrder::bytes;  // index btree alone
  Values values = Values::heap;  // index btree alone
  Persist persist = Persist::minimal;  // index btree alone
  Layout layout = Layout::word;
  Shape shape = {};
  Durability durability = Durability::process;
  FileOptions file = {};
  LogOptions log = {};
  // of fixed-size values; value_bytes is then as many as a row has, or 0, and follows
  ValueType value_type = {};
};

/// What a pool made from a snapshot is to be. Sizes, layout and shape are the snapshot's.
struct RestoreOptions {
  std::optional<Durability> durability = {};  // none: as the snapshot's pool had it
  FileOptions file = {};
  LogOptions log = {};
};

using SnapshotOptions = FileOptions;

/// Where probes go. `mirrored`: the slots' words, a tag of each, and keys and checksums of the
/// records are held in the device's own memory as well, so that a probe or a miss touches no pool
/// memory and a hit only its value. Layout `word` only. `automatic`: mirrored on a GPU, as far as
/// MemoryOptions::budget_bytes goes; else pm.
enum class Residency : std::uint8_t { automatic, pm, mirrored };

/// How gets of a mirrored store fetch values: as they come, in the order of their addresses, by the
/// host's threads into memory that the device reads in one go, or some in order and some by the
/// host at the same time (`shared`). `automatic`: whatever is fastest here for so many, measured
/// while running. The host takes part for pools up to 64 GiB; beyond, values are gathered in order,
/// and MemoryStats::note says so if the host was asked for. A store of layout `in_place` has no
/// mirror: of keys and values of fixed sizes it reads records as they come, or, on a GPU for
/// batches of 2^13 keys and more, or with `in_order`, by address once all keys are found.
enum class Gather : std::uint8_t { automatic, at_once, in_order, by_host, shared };

/// Who answers gets whose arrays lie in host memory; index gphash. `device`: the store's device.
/// `host`: the host's threads, which read the pool themselves. `both`: each a part of the batch, at
/// one time. `measured`: the device, unless another of these proves faster for so many
/// keys, measured while running. `automatic`: `measured` on a GPU with layout `word`, unless
/// accesses are counted or records cached, which are the device's; else `device`. SharingStats says
/// what came of it.
enum class GetsBy : std::uint8_t { automatic, device, host, both, measured };

/// Which records a load of the cache takes: those got most often or most lately since the last one,
/// or any. Of layout `in_place` it takes buckets, by the gets that found their key there, or looked
/// there in vain.
enum class CachePolicy : std::uint8_t { lfu, lru, random };

/// What is held of a pool in the device's own memory.
struct MemoryOptions {
  Residency residency = Residency::automatic;
  Gather gather = Gather::automatic;
  std::uint64_t budget_bytes = 0;  // for mirror and cache; 0 = 7/8 of what is free
  // of it, for whole records (fixed sizes only), or buckets; filled by load_cache()
  std::uint64_t cache_bytes = 0;
  CachePolicy cache_policy = CachePolicy::lfu;
};

/// Sizes in bytes that a pool must have been made with, or it does not open; 0 = any.
struct ExpectedSizes {
  std::uint32_t key_bytes = 0;
  std::uint32_t value_bytes = 0;
};

/// Of a pool of `Values::log`.
struct ValueLogOptions {
  std::uint32_t collectors = 1;  // threads that collect segments; at least 1
  // Segments that may wait for them before writers wait, too: a low bound keeps to what can be
  // sustained, a high one lets bursts pass, and takes more room. At least 1.
  std::uint64_t most_queued = 8;
};

struct OpenOptions {
  bool read_only = false;
  // Look at a pool beside the process that has it open for writing, which neither waits nor
  // notices: at a copy in memory of this process, as the pool was between two changes of the other;
  // what comes later is not in it. It refuses writes. Waits two seconds for such a moment, then
  // Code::busy: a transaction or a device session is one change. Index gphash; durability none or
  // process.
  bool live = false;
  // Mend a pool that is not as its last orderly close left it, or whose log is damaged (layout
  // `log`), or go on without acknowledged batches that a damaged log has lost: else it does not
  // open. What it does is in RecoveryReport::changes.
  bool repair = false;
  Device device = Device::cpu;
  std::uint32_t threads = 0;  // CPU workers; 0 = one a core
  bool verify_reads = true;  // check each record's CRC-32C on get
  bool count_accesses = false;  // count PM reads, PM writes and ordering points (slower)
  bool lock_memory = false;  // mlock the pool, so that it is never swapped out
  bool displacement = true;  // layout word: move one word when every candidate is full
  bool grow = true;  // false: a full table reports no_space instead of growing
  std::string log_dir = {};  // of a pool of durability power: it is made anew from there
  GetsBy gets_by = GetsBy::automatic;
  ExpectedSizes expect = {};
  MemoryOptions memory = {};
  ValueLogOptions value_log = {};
};

}  // namespace perdure
