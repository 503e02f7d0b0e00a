// What the preload library takes from the environment:
//   PERDURE_ROCKS_DEVICE           auto (or automatic), cpu or cuda
//   PERDURE_ROCKS_THRESHOLD        operations from which memtables take a write; 0: measured
//   PERDURE_ROCKS_MEMTABLE_BYTES   bytes of keys and values in a memtable
//   PERDURE_ROCKS_MEMTABLE_VALUE_BYTES  of the largest values that lie in memtables themselves
//   PERDURE_ROCKS_BLOCK_CACHE_BYTES, PERDURE_ROCKS_BLOCK_CACHE_ENTRY_BYTES
//                                  memory of the block cache, 0: none; and of an entry of it
//   PERDURE_ROCKS_FLUSHED_MEMTABLE_BYTES
//                                  memory for memtables that RocksDB has by now, 0: none
//   PERDURE_ROCKS_IDLE_MILLIS      without large batches, before memtables are flushed
//   PERDURE_ROCKS_HAND_OVERS_A_SECOND  how often that happens at most
//   PERDURE_ROCKS_DURABILITY       process (as it is without it) or power
//   PERDURE_ROCKS_LOG_DIR          a directory for the G-WALs (with power: the power logs) of all
//                                  databases, each in one of its own there; otherwise each lies
//                                  beside its database
//   PERDURE_ROCKS_TRANSACTIONS     rocksdb (as it is without it) or perdure: who serves
//   TransactionDB
//                                  and OptimisticTransactionDB; Perdure refuses Prepare()
#pragma once

#include <rocksdb/status.h>

#include <string>

#include "perdure/rocks.h"

namespace perdure::lsm {

/// The options for the database at `path`. InvalidArgument names the variable, its value and what
/// it may be.
[[nodiscard]] rocksdb::Status options_from_environment(std::string const& path,
                                                       rocks::GpuOptions& options);

/// Whether Perdure serves databases of transactions.
[[nodiscard]] rocksdb::Status transactions_from_environment(bool& ours);

/// Where the G-WAL, or the power log, of a database with these options is.
[[nodiscard]] std::string log_directory(rocks::GpuOptions const& options, std::string const& path);

}  // namespace perdure::lsm
