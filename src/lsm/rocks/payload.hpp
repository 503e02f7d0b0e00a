// What a record of the G-WAL says, in one of two ways:
//
//   WriteBatches, one behind the other, as RocksDB writes them down:
//     u32 1 | u32 number of batches | each: u64 bytes | WriteBatch::Data() | zeros up to 8
//   columns of one family, as the redo log has them (wal/batch_record.hpp; `update` is a merge):
//     u32 2 | u32 family | batch
//
// Invariant: who reads a record gets what who wrote it gave, and values lie in the record itself.
#pragma once

#include <rocksdb/write_batch.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "exec/workers.hpp"
#include "perdure/status.h"
#include "wal/batch_record.hpp"

namespace perdure::lsm {

[[nodiscard]] std::uint64_t payload_bytes(std::span<rocksdb::WriteBatch const* const> batches);
[[nodiscard]] std::uint64_t payload_bytes(wal::EncodedBatch const& columns);

/// Writes all but the bytes of batches to `room`, which has payload_bytes(). Answers where those of
/// each go.
[[nodiscard]] std::vector<std::byte*> lay_out_payload(
    std::span<rocksdb::WriteBatch const* const> batches, std::span<std::byte> room);
/// Writes columns, by the workers. Returns them as they lie there.
wal::DecodedBatch write_payload(exec::Workers& workers, std::uint32_t family,
                                wal::EncodedBatch const& columns, std::span<std::byte> room);

struct PayloadReader {
  /// A batch, and the place of its bytes in the record.
  std::function<Status(rocksdb::WriteBatch const&, std::byte const*)> batch;
  /// Columns that point into the record.
  std::function<Status(std::uint32_t family, wal::DecodedBatch const&)> columns;
};
/// Code::corrupt: it is no such record.
Status read_payload(std::span<std::byte const> record, PayloadReader const& reader);

}  // namespace perdure::lsm
