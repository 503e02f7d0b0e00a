// The store: a durable table of key-value records in one pool file, served by CPU warps or by a
// GPU.
//
// Arrays of a call (alignment, aliasing, streams, and whose they are meanwhile): perdure/batch.h.
// Thread safety: every method may be called from any number of threads. With index gphash read
// batches run side by side; a write batch is alone, so each batch sees all or nothing of every
// other batch. With a Dash index or a btree batches of several threads, reads and writes, run
// beside each other, and each operation takes effect by itself: between any two of a batch others
// may come, so a reader may see half of another's batch. Within a batch operations on one key take
// effect in array order, whatever the index. Acknowledgement: when a call returns ok, its effects
// survive what `survives()` lists. Failures: no exception crosses the API; what lacks memory
// answers Code::no_space. A failure in the midst of a change ends writing: further writes, and
// whatever could show half of a change, are refused until the pool is opened anew. Forks: a store
// belongs to the process that opened it. In a child (fork, multiprocessing) every call that answers
// a Status answers Code::closed, the others nothing of use, and destructors leave pool and parent
// alone; the child may open pools of its own. The parent's lock on a pool is not the child's,
// however long that lives.
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
#include "perdure/options.h"
#include "perdure/reports.h"
#include "perdure/status.h"
#include "perdure/survival.h"
#include "perdure/tables.h"

namespace perdure {

/// An array of the caller's that steps make durable beside the table, whole: see
/// Store::register_dense.
struct DenseBuffer {
  std::string name;  // 1 to 111 bytes
  std::byte* data = nullptr;  // the caller's, there for as long as it is registered
  std::uint64_t bytes = 0;
  MemorySpace space = MemorySpace::host;
};

struct TransactionOptions {
  std::uint64_t max_operations = 1u
                                 << 16;  // of all its batches; room for them is made when it begins
  bool revertible = false;  // Store::revert can take it back. Not with durability power
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
  // Layout `log`, where each takes room in the log: that kernels may do. Default: as many as
  // records. Layout `word` does any number.
  std::optional<std::uint64_t> erases = std::nullopt;
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

/// Values where they lie in a pool: see Store::view. Any thread may read it; only a process that
/// was forked may not, to whom the pool is not there. One that was moved from has no values.
class PERDURE_API ValuesView {
 public:
  struct PERDURE_INTERNAL State;  // the library's own
  ValuesView(ValuesView&&) noexcept;
  ValuesView& operator=(ValuesView&&) noexcept;
  ~ValuesView();

  [[nodiscard]] std::size_t size() const;
  /// Of key i; data() is null where the key has no value to show, as its status says.
  [[nodiscard]] std::span<std::byte const> operator[](std::size_t i) const;
  /// All values lie in here, which begins at a page: what to register with a GPU, whose kernels may
  /// then read them. A store on a GPU has done that.
  [[nodiscard]] std::span<std::byte const> memory() const;

 private:
  friend class Store;
  explicit ValuesView(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
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
  /// those of a transaction and of Persist::full, and writes to pools of durability power are one
  /// piece each: once begun, they run to their end.
  ///
  /// get: where the pool's values have any length, those of `values.width` bytes; a key whose value
  /// has another length answers KeyStatus::size_mismatch, and its row stays as it was. get_variable
  /// answers values of all lengths, in host memory.
  Status get(Column const& keys, MutableColumn const& values, std::span<KeyStatus> statuses,
             CallOptions const& call = {});
  Result<VariableValues> get_variable(Column const& keys, std::span<KeyStatus> statuses,
                                      CallOptions const& call = {});
  /// Where the values of these keys (in host memory) lie, without a copy; checked as a get checks
  /// them, but once. Until the view is destroyed they are there and do not change: gets, scans and
  /// further views go on, and whatever would write answers Code::busy. A store that is closed or
  /// destroyed meanwhile leaves the pool mapped, and its file in use, to the view. Opened
  /// read_only, a pool has no writer to keep waiting. Index gphash; others move values, and answer
  /// Code::unsupported. Not within a transaction.
  Result<ValuesView> view(Column const& keys, std::span<KeyStatus> statuses = {});
  Status put(Column const& keys, Column const& values, std::span<KeyStatus> statuses = {},
             CallOptions const& call = {});
  Status update(Column const& keys, Column const& operands, Rmw rmw, Element element,
                std::span<KeyStatus> statuses = {}, CallOptions const& call = {});
  Status erase(Column const& keys, std::span<KeyStatus> statuses = {},
               CallOptions const& call = {});
  Status apply(MixedBatch const& batch, std::span<KeyStatus> statuses = {},
               CallOptions const& call = {});

  /// The pool's table of that name (perdure/tables.h). Where there is none, it is made if
  /// `row_bytes` is not 0, durably, and once it is there it is there whole; Code::not_found
  /// otherwise. Code::invalid_argument: its rows have another width, the pool has no room for such
  /// a row or name, or this thread has a transaction open, which may abort. Code::unsupported: the
  /// pool's keys have not 16 bytes, or its values less than 32.
  Result<Table> table(std::string_view name, std::uint32_t row_bytes = 0);
  /// By their numbers.
  Result<std::vector<Table>> tables();
  /// As get, put, update and erase: each is one batch, over ids of any tables of this pool, whose
  /// rows may have different widths. A row that is absent is left as it was. Where the pool's
  /// values have any length, a get answers KeyStatus::size_mismatch for a value that is no row of
  /// its table.
  Status get_tables(TableBatch const& batch, std::span<std::byte> rows,
                    std::span<KeyStatus> statuses, CallOptions const& call = {});
  Status put_tables(TableBatch const& batch, std::span<std::byte const> rows,
                    std::span<KeyStatus> statuses = {}, CallOptions const& call = {});
  Status update_tables(TableBatch const& batch, std::span<std::byte const> operands, Rmw rmw,
                       Element element, std::span<KeyStatus> statuses = {},
                       CallOptions const& call = {});
  Status erase_tables(TableBatch const& batch, std::span<KeyStatus> statuses = {},
                      CallOptions const& call = {});

  /// Begins a transaction: pass it in the CallOptions of its batches, and end it by commit() or
  /// abort(). Its owner is whoever names it: batches and gets that do so, from any thread, belong
  /// to it and see what it wrote. So do calls that name none on the thread that began it, which
  /// reads (get, scan, verify, stats) but must name it to write. All others wait until it ends,
  /// those too of a thread that was handed it and does not name it. A batch in it takes effect
  /// whole or fails whole; after a failure the others still count. Its room is fixed when it
  /// begins: a batch that needs more fails with Code::no_space. Layouts `word` and `log`.
  Result<Transaction> begin(TransactionOptions const& options = {});

  /// Names the dense buffers that Transaction::write_step saves and restore_step() fills, all in
  /// one call. The first call that a pool sees makes room in it for two copies of each. Later ones,
  /// after opening it again or to name other memory, must name the same buffers of the same sizes,
  /// in any order; an error names the first that differs. Layouts `word` and `log`; not with
  /// durability power, whose log does not carry them.
  Status register_dense(std::vector<DenseBuffer> const& buffers);
  /// Fills the registered buffers with what the last step that committed saved of them, and answers
  /// its number; none where there has been no step yet, and the buffers are as they were.
  Result<std::optional<std::uint64_t>> restore_step(CUstream_st* stream = nullptr);

  /// Takes the last commit back, durably: the store, its dense buffers' copies and restore_step()
  /// are as they were before that transaction. It must have been revertible, and nothing written
  /// since, by this process or one before it; killed at any moment it has happened or not. Records
  /// that such a transaction replaced stay in use for as long. For stores that commit together,
  /// each its part: whoever is ahead goes back. Code::invalid_argument: there is nothing to take
  /// back.
  Status revert();
  /// Whether there is.
  Result<bool> can_revert();

  /// Hands the store to kernels of the user's own, which find, put, update and erase keys warp by
  /// warp, each durably when it returns (perdure/device.cuh). Until the session ends other threads
  /// wait, and calls of the thread that began it answer Code::busy. Room for the records is made
  /// now: in a session the table does not grow, no word is displaced, and no record is used again.
  /// Device cuda, residency mirrored, layout `word` of the default shape or layout `log`, fixed
  /// sizes, not durability power. Readers beside a writer of layout `log` see what a session wrote
  /// once it has ended.
  Result<DeviceSession> device_session(DeviceSessionOptions const& options = {});

  /// Fills the record cache anew, with what was got since the last time and cache_policy says.
  /// Only loads choose what is in it (GPHash, section 3.3): a record that is replaced stays, one
  /// that is erased or computed leaves. Gets go on meanwhile, writers wait. Code::unsupported
  /// without MemoryOptions::cache_bytes or without a mirror, which layout `log` always has: it
  /// caches values, of pools whose keys have one size of at most 32 bytes. Layout `in_place` caches
  /// buckets, as GPHash does, and has no mirror: a key that is found there costs its record alone.
  /// A bucket that is changed stays, and its copy is changed with it; a resize empties the cache.
  Result<CacheReport> load_cache();

  /// Once `stop` is true it answers Code::stopped, within milliseconds; so does verify().
  Result<ScanPage> scan(ScanCursor const& from, std::size_t limit,
                        std::atomic<bool> const* stop = nullptr);

  /// Of index btree; others keep no order, and answer Code::unsupported. A page has each record
  /// that was there throughout exactly once, in order, and of records that came or went meanwhile
  /// what was acknowledged when they were looked at. Other calls go on beside it. Once `stop` is
  /// true it answers Code::stopped.
  Result<RangePage> range(RangeQuery const& query, std::atomic<bool> const* stop = nullptr);
  /// How many records such a query has; exact while nobody writes. `limit` does not count.
  Result<std::uint64_t> count_range(RangeQuery const& query);

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
  [[nodiscard]] KeyOrder key_order() const;
  [[nodiscard]] Index index() const;
  [[nodiscard]] Device device() const;

  /// Ok in the process that opened this store; Code::closed, as every call, in one that was forked
  /// from it.
  [[nodiscard]] Status belongs_here() const;

  /// Number of the transaction or device session that another thread began and has not ended: calls
  /// that do not name it wait for its end. 0: there is none. Numbers are not used again by this
  /// process.
  [[nodiscard]] std::uint64_t held_elsewhere() const noexcept;

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
