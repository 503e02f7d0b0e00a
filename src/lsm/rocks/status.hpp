// Between the project's values and RocksDB's: statuses, and bytes.
#pragma once

#include <rocksdb/slice.h>
#include <rocksdb/status.h>

#include <cstddef>
#include <span>

#include "perdure/status.h"

namespace perdure::lsm {

/// A RocksDB user's status for what went wrong below the memtables. RocksDB's own codes tell a full
/// disk, damage and a lock apart, as programs expect.
[[nodiscard]] inline rocksdb::Status to_rocks(Status const& status) {
  rocksdb::Slice const what(status.message());
  switch (status.code()) {
    case Code::ok: return rocksdb::Status::OK();
    case Code::invalid_argument: return rocksdb::Status::InvalidArgument(what);
    case Code::not_found: return rocksdb::Status::IOError(what);
    case Code::busy: return rocksdb::Status::IOError("lock ", what);
    case Code::no_space: return rocksdb::Status::NoSpace(what, rocksdb::Slice());
    case Code::corrupt: return rocksdb::Status::Corruption(what);
    case Code::unsupported: return rocksdb::Status::NotSupported(what);
    case Code::stopped:
    case Code::closed: return rocksdb::Status::Aborted(what);
    default: return rocksdb::Status::IOError(what);
  }
}

/// As RocksDB says it.
[[nodiscard]] inline rocksdb::Status refused_when_read_only() {
  return rocksdb::Status::NotSupported("Not supported operation in read only mode.");
}

[[nodiscard]] inline rocksdb::Slice as_slice(std::span<std::byte const> bytes) {
  return {reinterpret_cast<char const*>(bytes.data()), bytes.size()};
}
[[nodiscard]] inline std::byte const* as_bytes(char const* data) {
  return reinterpret_cast<std::byte const*>(data);
}

}  // namespace perdure::lsm
