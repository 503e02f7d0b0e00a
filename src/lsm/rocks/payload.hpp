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
#include "lsm/gwal/gwal_sum.hpp"
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

/// What of a record is copied. Pieces ascend by where they go.
struct PayloadLayout {
  struct Piece {
    std::byte* to;
    std::span<std::byte const> from;
  };
  std::vector<Piece> pieces;
  std::vector<std::byte*> places;  // of each batch
};
/// Writes all else to `room`, which has payload_bytes().
[[nodiscard]] PayloadLayout lay_out_payload(std::span<rocksdb::WriteBatch const* const> batches,
                                            std::span<std::byte> room);
[[nodiscard]] PayloadLayout lay_out_payload(std::span<ColumnsToWrite const> columns,
                                            std::span<std::byte> room);
/// Copies the pieces, by all workers, and sums the room where `sum` is not null: what was just
/// copied lies in a core's cache.
void copy_payload(exec::Workers& workers, std::span<PayloadLayout::Piece const> pieces,
                  std::span<std::byte> room, GwalPayloadSum* sum);
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
/// Of columns that were copied to where lay_out_payload() said.
WrittenColumns written_columns(ColumnsToWrite const& columns, std::byte* to);

struct PayloadReader {
  /// A batch's bytes, in the record; those of a record in their order.
  std::function<Status(std::span<std::byte const>)> batch;
  /// Columns that point into the record; those of a record in their order.
  std::function<Status(std::uint32_t family, wal::DecodedBatch const&)> columns;
};
/// Code::corrupt: it is no such record.
Status read_payload(std::span<std::byte const> record, PayloadReader const& reader);

}  // namespace perdure::lsm
