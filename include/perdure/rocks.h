// RocksDB with memtables that a GPU sorts and searches (H-Rocks, SIGMOD '25), behind RocksDB's own
// interface: what open() gives is a rocksdb::DB. Writes that come in large batches go to sorted
// runs in the machine's memory and to a log of their own (G-WAL), and RocksDB gets them as sorted
// files; few go to RocksDB itself. Without a GPU the same code runs on CPU warps.
//
// The directory is RocksDB's: after an orderly close plain RocksDB opens it and finds the same
// data, and open() opens what plain RocksDB left. After a crash open() has to come first, for only
// it reads the G-WAL.
#pragma once

#include <rocksdb/db.h>
#include <rocksdb/merge_operator.h>
#include <rocksdb/options.h>
#include <rocksdb/utilities/optimistic_transaction_db.h>
#include <rocksdb/utilities/transaction_db.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "perdure/batch.h"
#include "perdure/export.h"

namespace perdure::rocks {

enum class Device : std::uint8_t {
  automatic = 0,  // the GPU where there is one, else CPU warps
  cpu = 1,
  cuda = 2,
};

/// What a plain write outlives when it has returned.
enum class Durability : std::uint8_t {
  process = 0,  // a process that is killed; a power loss, with `sync`, where the log lies on a disk
  power = 1,  // a power loss
};

struct GpuOptions {
  Device device = Device::automatic;
  std::uint32_t threads = 0;  // of the host; 0: as many as it has cores
  /// Directory of the G-WAL, of this database alone and outside of its directory. Empty: the
  /// database's path with ".gwal" behind it.
  std::string log_dir;
  /// With `power` memtables' writes go through a redo log on a disk in place of `log_dir`, and
  /// those that RocksDB serves are synced in its own. `disableWAL` is honoured.
  Durability durability = Durability::process;
  /// Directory of that redo log, of this database alone, on a disk and outside of its directory.
  /// Empty: the database's path with ".power" behind it.
  std::string power_log_dir;
  /// Bytes of a redo log that is made. Sealed memtables that fill it make writers wait for their
  /// flush. 0: four memtables, at least 4 MiB.
  std::uint64_t power_log_bytes = 0;
  /// Bytes of keys and values after which a memtable is sealed and flushed, and that a segment of
  /// the G-WAL has. 0: the default family's write_buffer_size.
  std::uint64_t memtable_bytes = 0;
  /// Values of up to so many bytes lie in memtables themselves, in the machine's memory, where all
  /// of a batch have one size; with a GPU they come to arrays without a walk to each in the log's
  /// segment. Others lie there alone. At most 1,024.
  std::uint32_t memtable_value_bytes = 8;
  /// Sealed memtables that wait for their flush before writers wait for it (H-Rocks: 5).
  std::uint32_t immutable_memtables = 5;
  /// Time without a large batch, and with fewer than 10,000 keys found in memtables, after which
  /// these are flushed and RocksDB serves what comes.
  std::uint32_t idle_millis = 200;
  /// How often in a second that happens at most: a load that comes and goes stays with memtables
  /// (H-Rocks, section 6.7). At least 1.
  std::uint32_t hand_overs_a_second = 3;
  /// Operations that have to wait, or to come in one batch, for the memtables to take them rather
  /// than RocksDB (H-Rocks: 10,000). 0: measured when the database is opened.
  std::uint64_t threshold = 0;
  /// Memory for values that reads found in RocksDB, of which a 16th is taken at once and the rest
  /// as it is used. At most
  /// the machine's memory. 0: none, and every such read is RocksDB's.
  std::uint64_t block_cache_bytes = std::uint64_t{256} << 20;
  /// Of an entry of it, a multiple of 64. Pairs are kept whose key and value, each filled up to
  /// eight bytes, have eight bytes less than that together.
  std::uint32_t block_cache_entry_bytes = 128;
  /// Memory, of the host and the machine together, for memtables that RocksDB has by now: reads of
  /// many keys still find there what was written last. 0: they go when RocksDB has them.
  std::uint64_t flushed_memtable_bytes = std::uint64_t{1} << 30;
};

/// Keeps the least operand or value, as bytes compare: the counterpart of RocksDB's "max". Of
/// values of up to 8 bytes in one size, the machine folds the operands of this one, "max" and
/// "uint64add".
[[nodiscard]] PERDURE_API std::shared_ptr<rocksdb::MergeOperator> min_operator();

/// As rocksdb::DB::Open(). What it returns in `db` is a rocksdb::StackableDB.
[[nodiscard]] PERDURE_API rocksdb::Status open(rocksdb::Options const& options,
                                               GpuOptions const& gpu, std::string const& path,
                                               rocksdb::DB** db);
[[nodiscard]] PERDURE_API rocksdb::Status open(
    rocksdb::DBOptions const& options, GpuOptions const& gpu, std::string const& path,
    std::vector<rocksdb::ColumnFamilyDescriptor> const& families,
    std::vector<rocksdb::ColumnFamilyHandle*>* handles, rocksdb::DB** db);

/// As rocksdb::DB::OpenForReadOnly(), with what the G-WAL has in sight: memtables are made of a
/// copy of it in memory. No file is changed, made or locked; and a directory that cannot be written
/// will do. Another process may have the database open: this one sees it as it was at a moment of
/// the opening, but for what memtables there hold of writes with disableWAL. Status::Busy: it was
/// being changed all the while. With max_open_files set, files may vanish under who reads them, as
/// ever. Writes, flushes and compactions are refused. GetRootDB() sees no memtables.
[[nodiscard]] PERDURE_API rocksdb::Status open_for_read_only(rocksdb::Options const& options,
                                                             GpuOptions const& gpu,
                                                             std::string const& path,
                                                             rocksdb::DB** db,
                                                             bool error_if_wal_file_exists = false);
[[nodiscard]] PERDURE_API rocksdb::Status open_for_read_only(
    rocksdb::DBOptions const& options, GpuOptions const& gpu, std::string const& path,
    std::vector<rocksdb::ColumnFamilyDescriptor> const& families,
    std::vector<rocksdb::ColumnFamilyHandle*>* handles, rocksdb::DB** db,
    bool error_if_wal_file_exists = false);

// Batches as arrays, for those who have them already: columns (perdure/batch.h) of fixed or
// variable width, of a database that open() gave, in host memory or that of a GPU, whichever device
// it runs on. A write is atomic, one batch to every reader, and in the log when it returns. Of
// equal keys in a batch the order of the array counts. VariableValues and Ranges that are passed
// again keep their memory, which spares large calls the time to get it.

struct ArrayOptions {
  bool sync = false;  // writes: on the log's medium when the call returns
  bool disable_wal = false;  // writes: a killed process may lose them
  rocksdb::Snapshot const* snapshot = nullptr;  // reads
  CUstream_st* stream = nullptr;  // of arrays of a GPU, as in CallOptions
  KeyStatus* device_statuses = nullptr;  // reads, apply: also put here, in memory of the GPU
};

[[nodiscard]] PERDURE_API rocksdb::Status put(rocksdb::DB& db, rocksdb::ColumnFamilyHandle* family,
                                              Column const& keys, Column const& values,
                                              ArrayOptions const& options = {});
/// Operands for the family's merge operator.
[[nodiscard]] PERDURE_API rocksdb::Status merge(rocksdb::DB& db,
                                                rocksdb::ColumnFamilyHandle* family,
                                                Column const& keys, Column const& operands,
                                                ArrayOptions const& options = {});
[[nodiscard]] PERDURE_API rocksdb::Status erase(rocksdb::DB& db,
                                                rocksdb::ColumnFamilyHandle* family,
                                                Column const& keys,
                                                ArrayOptions const& options = {});
/// Values of one width; `statuses` has one a key: ok, not_found, size_mismatch (the value has
/// another width) or corrupt (the merge operator refused).
[[nodiscard]] PERDURE_API rocksdb::Status get(rocksdb::DB& db, rocksdb::ColumnFamilyHandle* family,
                                              Column const& keys, MutableColumn const& values,
                                              std::span<KeyStatus> statuses,
                                              ArrayOptions const& options = {});
/// Values of any length.
[[nodiscard]] PERDURE_API rocksdb::Status get(rocksdb::DB& db, rocksdb::ColumnFamilyHandle* family,
                                              Column const& keys, VariableValues& values,
                                              std::span<KeyStatus> statuses,
                                              ArrayOptions const& options = {});

/// Pairs of range i are [offsets[i], offsets[i + 1]) of keys and values, in order of keys.
struct Ranges {
  std::vector<std::int64_t> offsets;
  VariableValues keys;
  VariableValues values;
};
/// Of each range [begins[i], ends[i]) the first `limit` pairs. Without `ends` (count 0) ranges have
/// no end.
[[nodiscard]] PERDURE_API rocksdb::Status range(rocksdb::DB& db,
                                                rocksdb::ColumnFamilyHandle* family,
                                                Column const& begins, Column const& ends,
                                                std::uint64_t limit, Ranges& ranges,
                                                ArrayOptions const& options = {});

/// A mixed batch: operation i sees those before it in the array and none after it (H-Rocks, section
/// 4.1). `update` is a merge with the family's operator; `rmw` and `element` are not used. Values
/// of the gets come back in `found`, empty for the others, or, where the batch has `out`, there, as
/// get() of values of one width has them, and `found` is left alone. `statuses` has one an
/// operation. While there are memtables, or with as many operations as GpuOptions::threshold, the
/// batch is atomic: other readers see all of its writes or none.
[[nodiscard]] PERDURE_API rocksdb::Status apply(rocksdb::DB& db,
                                                rocksdb::ColumnFamilyHandle* family,
                                                MixedBatch const& batch, VariableValues& found,
                                                std::span<KeyStatus> statuses,
                                                ArrayOptions const& options = {});

/// As rocksdb::TransactionDB::Open() and rocksdb::OptimisticTransactionDB::Open(), over open().
/// Of the options, write_policy must be WRITE_COMMITTED, and locks are on single keys.
/// Prepare() is refused. A batch of millions of writes is fastest in a transaction that nobody
/// reads, with TransactionOptions::skip_concurrency_control, or by PutUntracked() of an optimistic
/// one: it is one WriteBatch and nothing else.
[[nodiscard]] PERDURE_API rocksdb::Status open_transactions(
    rocksdb::Options const& options, GpuOptions const& gpu,
    rocksdb::TransactionDBOptions const& transactions, std::string const& path,
    rocksdb::TransactionDB** db);
[[nodiscard]] PERDURE_API rocksdb::Status open_transactions(
    rocksdb::DBOptions const& options, GpuOptions const& gpu,
    rocksdb::TransactionDBOptions const& transactions, std::string const& path,
    std::vector<rocksdb::ColumnFamilyDescriptor> const& families,
    std::vector<rocksdb::ColumnFamilyHandle*>* handles, rocksdb::TransactionDB** db);
[[nodiscard]] PERDURE_API rocksdb::Status open_optimistic_transactions(
    rocksdb::Options const& options, GpuOptions const& gpu, std::string const& path,
    rocksdb::OptimisticTransactionDB** db);
[[nodiscard]] PERDURE_API rocksdb::Status open_optimistic_transactions(
    rocksdb::DBOptions const& options, GpuOptions const& gpu, std::string const& path,
    std::vector<rocksdb::ColumnFamilyDescriptor> const& families,
    std::vector<rocksdb::ColumnFamilyHandle*>* handles, rocksdb::OptimisticTransactionDB** db);

/// As WrapDB() of those: transactions over a database that is open. `base` is what open() or
/// rocksdb::DB::Open() gave, `handles` its families. `db` owns `base` where the status is OK.
[[nodiscard]] PERDURE_API rocksdb::Status wrap_transactions(
    rocksdb::DB* base, rocksdb::TransactionDBOptions const& transactions,
    std::vector<rocksdb::ColumnFamilyHandle*> const& handles, rocksdb::TransactionDB** db);
[[nodiscard]] PERDURE_API rocksdb::Status wrap_optimistic_transactions(
    rocksdb::DB* base, std::vector<rocksdb::ColumnFamilyHandle*> const& handles,
    rocksdb::OptimisticTransactionDB** db);

}  // namespace perdure::rocks
