// A WriteBatch taken apart: the entries of each family, whose values lie in a copy of the batch
// (the G-WAL's record), and what has to be RocksDB's own business.
#pragma once

#include <rocksdb/write_batch.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "lsm/entry.hpp"

namespace perdure::lsm {

/// The entries of one family, in order of arrival.
struct FamilyEntries {
  std::uint32_t family = 0;
  std::vector<std::byte> keys;
  std::vector<std::int64_t> offsets = {0};
  std::vector<Kind> kinds;
  std::vector<RequestId> requests;
  std::vector<ValueRef> values;
  bool merges = false;

  [[nodiscard]] std::size_t size() const { return kinds.size(); }
  /// Valid while this stays as it is.
  [[nodiscard]] Entries entries() const;
};

/// A family's part of what is appended together.
struct FamilyBatch {
  std::uint32_t family = 0;
  Entries entries;
  bool merges = false;  // there are operands among them
};

struct BatchEntries {
  std::vector<FamilyEntries> families;
  RequestId requests = 0;  // of all families

  /// Takes a batch apart: requests 0, 1, ..., values where they are in it. False: there is
  /// something else in it, which memtables do not hold (DeleteRange, wide columns, marks of
  /// two-phase commit).
  [[nodiscard]] bool read(rocksdb::WriteBatch const& batch);
  /// Adds what another one read. `original`: where its batch's bytes (WriteBatch::Data()) are;
  /// `copy`: where they will be for as long as the memtable; `first`: its first request.
  void add(BatchEntries const& other, std::byte const* original, std::byte const* copy,
           RequestId first);
  FamilyEntries& of(std::uint32_t family);
  /// Valid while this stays as it is.
  [[nodiscard]] std::vector<FamilyBatch> batches() const;
};

}  // namespace perdure::lsm
