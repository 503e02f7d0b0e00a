// What a record of the G-WAL says: WriteBatches, one behind the other, as RocksDB writes them down.
//
//   u32 kind (1) | u32 number of batches | each: u64 bytes | WriteBatch::Data() | zeros up to 8
#pragma once

#include <rocksdb/write_batch.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

#include "perdure/status.h"

namespace perdure::lsm {

[[nodiscard]] std::uint64_t record_bytes(std::span<rocksdb::WriteBatch const* const> batches);

/// Writes the record to `room`, which has record_bytes(). `copied` is called with each batch and
/// the place of its bytes.
void write_record(std::span<rocksdb::WriteBatch const* const> batches, std::span<std::byte> room,
                  std::function<void(rocksdb::WriteBatch const&, std::byte const*)> const& copied);

/// Calls `read` with each batch and the place of its bytes in the record. Code::corrupt: it is no
/// such record.
Status read_record(std::span<std::byte const> record,
                   std::function<Status(rocksdb::WriteBatch const&, std::byte const*)> const& read);

}  // namespace perdure::lsm
