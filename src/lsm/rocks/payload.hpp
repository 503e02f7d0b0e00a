// What a record of the G-WAL says, in one of three ways:
//
//   WriteBatches, one behind the other, as RocksDB writes them down:
//     u32 1 | u32 number of batches | each: u64 bytes | WriteBatch::Data() | zeros up to 8
//   columns of one family, as the redo log has them (wal/batch_record.hpp; `update` is a merge):
//     u32 2 | u32 family | batch
//   the same of several, one behind the other, written together:
//     u32 3 | u32 number of batches | each: u32 family | u32 0 | batch | zeros up to 8
//
// Invariant: who reads a record gets what who wrote it gave, and values lie in the record itself.
#pragma once

#include <rocksdb/write_batch.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "exec/workers.hpp"
#include "perdure/status.h"
#include "wal/batch_record.hpp"

namespace perdure::lsm {

[[nodiscard]] std::uint64_t payload_bytes(std::span<rocksdb::WriteBatch const* const> batches);
/// Columns of a family, and what they are encoded as.
struct ColumnsToWrite {
  std::uint32_t family = 0;
  wal::BatchOps const* ops = nullptr;
  wal::EncodedBatch const* encoded = nullptr;
};
[[nodiscard]] std::uint64_t payload_bytes(std::span<ColumnsToWrite const> columns);

/// Writes all but the bytes of batches to `room`, which has payload_bytes(). Answers where those of
/// each go.
[[nodiscard]] std::vector<std::byte*> lay_out_payload(
    std::span<rocksdb::WriteBatch const* const> batches, std::span<std::byte> room);
[[nodiscard]] std::vector<std::byte*> lay_out_payload(std::span<ColumnsToWrite const> columns,
                                                      std::span<std::byte> room);
/// Columns as they lie in a record, with the caller's kinds and offsets where these may stay.
class WrittenColumns {
 public:
  explicit WrittenColumns(wal::BatchOps const& ops) : ops_(ops) {}
  explicit WrittenColumns(wal::DecodedBatch decoded) : decoded_(std::move(decoded)) {}
  /// Valid while this object and the caller's columns stay where they are.
  [[nodiscard]] wal::BatchOps ops() const { return decoded_ ? decoded_->ops() : ops_; }

 private:
  wal::BatchOps ops_;
  std::optional<wal::DecodedBatch> decoded_;
};
/// Writes a batch to where lay_out_payload() said, by the workers.
WrittenColumns write_columns(exec::Workers& workers, ColumnsToWrite const& columns, std::byte* to);

struct PayloadReader {
  /// A batch's bytes, in the record; those of a record in their order.
  std::function<Status(std::span<std::byte const>)> batch;
  /// Columns that point into the record; those of a record in their order.
  std::function<Status(std::uint32_t family, wal::DecodedBatch const&)> columns;
};
/// Code::corrupt: it is no such record.
Status read_payload(std::span<std::byte const> record, PayloadReader const& reader);

}  // namespace perdure::lsm
