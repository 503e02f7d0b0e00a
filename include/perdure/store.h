// The store: a durable table of key-value records in one pool file, served by CPU warps or by a
// GPU.
//
// Arrays of a call (alignment, aliasing, streams, and whose they are meanwhile): perdure/batch.h.
// Thread safety: every method may be called from any number of threads. With index gphash read
// batches run side by side; a write batch is alone, so each batch sees all or nothing of every
// other batch. With a Dash index batches of several threads, reads and writes, run beside each
// other, and each operation takes effect by itself: between any two of a batch others may come, so
// a reader may see half of another's batch. Within a batch operations on one key take effect in
// array order, whatever the index. Acknowledgement: when a call returns ok, its effects survive
// what `survives()` lists. Failures: no exception crosses the API; what lacks memory answers
// Code::no_space. A failure in the midst of a change ends writing: further writes, and whatever
// could show half of a change, are refused until the pool is opened anew. Forks: a store belongs to
// the process that opened it. In a child (fork, multiprocessing) every call that answers a Status
// answers Code::closed, the others nothing of use, and destructors leave pool and parent alone; the
// child may open pools of its own. The parent's lock on a pool is not the child's, however long
// that lives.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "perdure/batch.h"
#include "perdure/export.h"
#include "perdure/status.h"
#include "perdure/survival.h"

namespace perdure {

enum class Device : std::uint8_t { cpu, cuda };
/// What finds keys. `gphash`: GPHash's levels, for batches on a GPU or on CPU warps. `dash_eh`,
/// `dash_lh`: Dash's extendible and linear hashing, for many host threads at once, and pools that
/// open without a look at their records. Dash has device cpu, durability process or none, and
/// single operations: no transactions, atomic batches, steps, device sessions or caches, which
/// answer Code::unsupported.
enum class Index : std::uint8_t { gphash, dash_eh, dash_lh };
enum class Layout : std::uint8_t {
  word,
  in_place
};  // GPHash with 8-byte slot words, or as published (section 3.1)

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
/// and MemoryStats::note says so if the host was asked for.
enum class Gather : std::uint8_t { automatic, at_once, in_order, by_host, shared };

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

struct OpenOptions {
  bool read_only = false;
  // Look at a pool beside the process that has it open for writing, which neither waits nor
  // notices: at a copy in memory of this process, as the pool was between two changes of the other;
  // what comes later is not in it. It refuses writes. Waits two seconds for such a moment, then
  // Code::busy: a transaction or a device session is one change. Index gphash; durability none or
  // process.
  bool live = false;
  // Mend a pool that is not as its last orderly close left it, or go on without acknowledged
  // batches that a damaged log has lost: else it does not open. What it does is in
  // RecoveryReport::changes.
  bool repair = false;
  Device device = Device::cpu;
  std::uint32_t threads = 0;  // CPU workers; 0 = one a core
  bool verify_reads = true;  // check each record's CRC-32C on get
  bool count_accesses = false;  // count PM reads, PM writes and ordering points (slower)
  bool lock_memory = false;  // mlock the pool, so that it is never swapped out
  bool displacement = true;  // layout word: move one word when every candidate is full
  bool grow = true;  // false: a full table reports no_space instead of growing
  std::string log_dir = {};  // of a pool of durability power: it is made anew from there
  ExpectedSizes expect = {};
  MemoryOptions memory = {};
};

struct RecoveryReport {
  bool clean = true;  // the pool was closed cleanly
  bool resize_resumed = false;
  std::uint64_t records = 0;  // reachable after recovery
  bool counted = true;  // false: not yet, of a large Dash index that was not closed in order; see
                        // Stats::records
  // slots cleared (half inserted, or by a repair), or pointing outside any record
  std::uint64_t dropped = 0;
  // slots set back, for a transaction that had not committed; its step counts as one
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
  double recover_seconds = 0;
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

/// Of durability power.
struct LogStats {
  std::uint64_t used_bytes = 0;  // not yet covered by both checkpoints
  std::uint64_t checkpoints = 0;  // since open
  std::string method;  // for example "io_uring, O_DIRECT, registered buffers"
};

struct Stats {
  // of a Dash index that was not closed in order: counted when first asked for
  std::uint64_t records = 0;
  std::string damage;  // of a Dash index: what the counting met, so that `records` lacks some;
                       // empty: nothing
  std::uint64_t slots = 0;
  double load_factor = 0;  // records / slots
  std::uint64_t growths = 0;  // begun or resumed since open, and not given up for want of memory
  // of the table, that a growth under way has still to move; 0: it does not grow
  std::uint64_t units_left = 0;
  std::uint64_t displacements = 0;  // words moved aside since open
  std::uint64_t batches = 0;  // batches since open
  AccessCounts accesses;
  SpaceStats space;
  MemoryStats memory;
  LogStats log;
  // What the pool is.
  std::uint32_t key_bytes = 0;
  std::uint32_t value_bytes = 0;
  ValueType value_type;
  std::uint32_t max_key_bytes = 0;
  std::uint32_t max_value_bytes = 0;
  std::uint32_t top_level = 0;  // log2 of its buckets
  Shape shape = {};
  Index index = Index::gphash;
  std::uint64_t segments = 0;  // of a Dash index
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
/// after records that came meanwhile.
struct ScanCursor {
  std::uint64_t slot = 0;
  std::uint64_t generation = 0;  // 0 = a new scan
  bool done = false;
};

struct ScanPage {
  VariableValues keys;  // same shape for fixed-width pools, all lengths equal
  VariableValues values;
  ScanCursor next;
};

/// What a load of the record cache came to.
struct CacheReport {
  std::uint64_t records = 0;
  std::uint64_t corrupt = 0;  // left out, for their checksum does not match
  std::uint64_t bytes = 0;  // of the device's memory
  double seconds = 0;
};

/// An array of the caller's that steps make durable beside the table, whole: see
/// Store::register_dense.
struct DenseBuffer {
  std::string name;  // 1 to 111 bytes
  std::byte* data = nullptr;  // the caller's, there for as long as it is registered
  std::uint64_t bytes = 0;
  Place place = Place::host;
};

struct TransactionOptions {
  std::uint64_t max_operations = 1u
                                 << 16;  // of all its batches; room for them is made when it begins
};

/// Batches that take effect together or not at all, whatever happens: see Store::begin. Any thread
/// may use, end or destroy it, one at a time. Destroying one that has not ended aborts it.
class PERDURE_API Transaction {
 public:
  struct PERDURE_INTERNAL State;  // the library's own
  Transaction(Transaction&&) noexcept;
  Transaction& operator=(Transaction&&) noexcept;
  ~Transaction();

  /// The registered dense buffers, as they are now (device arrays: once `stream`, a cudaStream_t,
  /// has come here), and this number, 2^63 - 2 at most, are part of the transaction: they take
  /// effect with its batches or not at all. Once a transaction, and as one of its operations.
  Status write_step(std::uint64_t step, CUstream_st* stream = nullptr);

  /// With this one store all its batches stay, and survive what the pool's durability survives.
  Status commit();
  /// The store is as it was when the transaction began.
  Status abort();

 private:
  friend class Store;
  explicit Transaction(std::shared_ptr<State> state);
  std::shared_ptr<State> state_;
};

struct DeviceSessionOptions {
  std::uint64_t records = 1u << 20;  // that kernels may write: one for each put, update and modify
};

/// What a kernel sees of a store during a device session: perdure/device.cuh makes a DeviceTable of
/// it.
struct DeviceView;

/// A store in the hands of the user's own kernels: see Store::device_session. Any thread may end or
/// destroy it. Destroying one that has not ended ends it.
class PERDURE_API DeviceSession {
 public:
  struct PERDURE_INTERNAL State;  // the library's own
  DeviceSession(DeviceSession&&) noexcept;
  DeviceSession& operator=(DeviceSession&&) noexcept;
  ~DeviceSession();

  /// For kernels launched before end(); valid until then.
  [[nodiscard]] DeviceView const& table() const;
  /// Waits for all kernels on the device; then records they replaced or erased may be used again. A
  /// kernel that failed ends the store's writing, as a failed batch does: what was in flight is
  /// unknown until recovery.
  Status end();

 private:
  friend class Store;
  friend struct DeviceAccess;
  explicit DeviceSession(std::shared_ptr<State> state);
  std::shared_ptr<State> state_;
};

class PERDURE_API Store {
 public:
  struct PERDURE_INTERNAL Impl;  // the library's own
  /// Makes a pool and opens it. The path's file system decides the medium: tmpfs (/dev/shm),
  /// hugetlbfs, or a file (CPU only); "memfd:NAME" is anonymous memory that dies with the process
  /// (not with durability power). Files: only regular ones are opened, no symbolic link is followed
  /// in the last component of a path. A pool has its name once it is whole. A file that is there is
  /// replaced only with `overwrite`, if it is a pool of whatever version, or with `force`; never
  /// one that is in use, and of two makers of one path one is told Code::busy. Files have mode
  /// 0600, whatever the umask; one that is replaced hands its mode on. `mode` (0 = not given) sets
  /// other bits, at least 0600, less those that the umask takes away. While a pool is open its file
  /// must not be cut off by others: touching what is gone raises SIGBUS.
  static Result<Store> create(std::string const& path, CreateOptions const& create,
                              OpenOptions const& open = {});
  static Result<Store> open(std::string const& path, OpenOptions const& options = {});
  /// Makes a pool from a snapshot, with an identity of its own, and opens it. Nothing is left
  /// behind on failure.
  static Result<Store> restore(std::string const& snapshot, std::string const& path,
                               RestoreOptions const& restore = {}, OpenOptions const& open = {});

  Store(Store&&) noexcept;
  Store& operator=(Store&&) noexcept;
  ~Store();  // closes, after aborting any transaction; errors of that close are lost, so call
             // close()

  /// Each call handles one batch. `statuses` is empty or one per key. A returned error means that
  /// nothing of the batch took effect, except Code::no_space, where the statuses tell key by key
  /// (with a Dash index operations of one batch on one key too: each finds room or does not). An
  /// atomic batch fails whole: at an operation that is refused (every status but ok and not_found),
  /// its status tells why. With durability power, a batch whose log write failed comes back at the
  /// next opening whole or not at all, and until then gets and scans are refused with the log's
  /// error: what they would show could be gone afterwards. Where a get fails, its arrays may hold
  /// anything. A batch with `stop` in its call options runs in pieces of 65,536 operations or 32
  /// MiB, with nobody between them, and looks at `stop` before each. Once that is true the call
  /// answers Code::stopped: the operations before that piece have been done, in array order, and
  /// the others say KeyStatus::not_tried. An error in a piece ends it likewise. Atomic batches,
  /// those of a transaction, and writes to pools of durability power are one piece each: once
  /// begun, they run to their end.
  Status get(Column const& keys, MutableColumn const& values, std::span<KeyStatus> statuses,
             CallOptions const& call = {});
  Result<VariableValues> get_variable(Column const& keys, std::span<KeyStatus> statuses,
                                      CallOptions const& call = {});
  Status put(Column const& keys, Column const& values, std::span<KeyStatus> statuses = {},
             CallOptions const& call = {});
  Status update(Column const& keys, Column const& operands, Rmw rmw, Element element,
                std::span<KeyStatus> statuses = {}, CallOptions const& call = {});
  Status erase(Column const& keys, std::span<KeyStatus> statuses = {},
               CallOptions const& call = {});
  Status apply(MixedBatch const& batch, std::span<KeyStatus> statuses = {},
               CallOptions const& call = {});

  /// Begins a transaction: pass it in the CallOptions of its batches, and end it by commit() or
  /// abort(). Its owner is whoever names it: batches and gets that do so, from any thread, belong
  /// to it and see what it wrote. So do calls that name none on the thread that began it, which
  /// reads (get, scan, verify, stats) but must name it to write. All others wait until it ends,
  /// those too of a thread that was handed it and does not name it. A batch in it takes effect
  /// whole or fails whole; after a failure the others still count. Its room is fixed when it
  /// begins: a batch that needs more fails with Code::no_space. Layout `word` only.
  Result<Transaction> begin(TransactionOptions const& options = {});

  /// Names the dense buffers that Transaction::write_step saves and restore_step() fills, all in
  /// one call. The first call that a pool sees makes room in it for two copies of each. Later ones,
  /// after opening it again or to name other memory, must name the same buffers of the same sizes,
  /// in any order; an error names the first that differs. Layout `word`; not with durability power,
  /// whose log does not carry them.
  Status register_dense(std::vector<DenseBuffer> const& buffers);
  /// Fills the registered buffers with what the last step that committed saved of them, and answers
  /// its number; none where there has been no step yet, and the buffers are as they were.
  Result<std::optional<std::uint64_t>> restore_step(CUstream_st* stream = nullptr);

  /// Hands the store to kernels of the user's own, which find, put, update and erase keys warp by
  /// warp, each durably when it returns (perdure/device.cuh). Until the session ends other threads
  /// wait, and calls of the thread that began it answer Code::busy. Room for the records is made
  /// now: in a session the table does not grow, no word is displaced, and no record is used again.
  /// Device cuda, residency mirrored, layout `word` of the default shape, fixed sizes, not
  /// durability power.
  Result<DeviceSession> device_session(DeviceSessionOptions const& options = {});

  /// Fills the record cache anew, with what was got since the last time and cache_policy says.
  /// Until the next load its contents are frozen (GPHash, section 3.3); a record that is changed
  /// leaves it. Gets go on meanwhile, writers wait. Code::unsupported without
  /// MemoryOptions::cache_bytes or without a mirror. Layout `in_place` caches buckets, as GPHash
  /// does, and has no mirror: a key that is found there costs its record alone. A bucket that is
  /// changed stays, and its copy is changed with it; a resize empties the cache.
  Result<CacheReport> load_cache();

  /// Once `stop` is true it answers Code::stopped, within milliseconds; so does verify().
  Result<ScanPage> scan(ScanCursor const& from, std::size_t limit,
                        std::atomic<bool> const* stop = nullptr);

  /// Writes the pool as it is between two batches into one file, as durably as that file's disk
  /// allows. Writers wait meanwhile, readers do not. The file is there whole or not at all; one
  /// that is there is replaced only with `overwrite`, if it is a snapshot, or with `force`.
  Status snapshot(std::string const& path, SnapshotOptions const& options = {});

  /// Looks at every record. After a repair it finds faults, which name what the repair changed,
  /// until that is acknowledged.
  [[nodiscard]] Result<VerifyReport> verify(std::atomic<bool> const* stop = nullptr);
  /// What repairs changed (OpenOptions::repair) has been seen to: `verify` is silent about it from
  /// now on, durably; with durability power that takes a checkpoint.
  Status acknowledge_repair();
  /// Of a store that was moved elsewhere these are empty, or 0; calls that have a status answer
  /// Code::closed.
  [[nodiscard]] Stats stats()
      const;  // std::bad_alloc where memory lacks: the one call that has no other answer
  void reset_counts();
  [[nodiscard]] RecoveryReport const& recovery() const;
  [[nodiscard]] Survival survives() const;
  [[nodiscard]] std::string const& path() const;
  /// Bytes of every key, and of every value; 0 = of any length. Unlike stats(), these count
  /// nothing.
  [[nodiscard]] std::uint32_t key_bytes() const;
  [[nodiscard]] std::uint32_t value_bytes() const;
  [[nodiscard]] ValueType value_type() const;
  [[nodiscard]] Device device() const;

  /// Ok in the process that opened this store; Code::closed, as every call, in one that was forked
  /// from it.
  [[nodiscard]] Status belongs_here() const;

  /// Marks the pool clean and unmaps it; with durability power a checkpoint comes before. Aborts a
  /// transaction that this thread began, and waits for another's. Further calls answer
  /// Code::closed. An error says what failed in here, or after a batch that was acknowledged: the
  /// store is closed all the same, and the next opening recovers it. Where an earlier call has said
  /// what failed, this one need not. Code::corrupt: the index of a Dash pool is damaged.
  Status close();

 private:
  friend class Transaction;
  friend class DeviceSession;
  friend struct DeviceAccess;
  explicit Store(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

/// The machines this build and this computer offer.
struct DeviceInfo {
  Device device = Device::cpu;
  bool available = false;
  std::string description;  // "Intel ... 2 cores, avx512", "NVIDIA H200, 139 GiB, driver 580"
  std::string why_not;  // when not available
};
[[nodiscard]] PERDURE_API std::vector<DeviceInfo> devices();

[[nodiscard]] PERDURE_API std::string_view version();

}  // namespace perdure
