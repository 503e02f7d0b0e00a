// Folding of merge operands over what they stand on, as RocksDB folds them. Get, flushes and
// iterators share it.
//
// Invariant: a MergeOperator gets its operands oldest first, over the value of the newest Put below
// them, or over none where a tombstone or nothing at all is below.
#pragma once

#include <rocksdb/env.h>
#include <rocksdb/merge_operator.h>
#include <rocksdb/slice.h>
#include <rocksdb/status.h>

#include <span>
#include <string>
#include <vector>

#include "lsm/engine/engine.hpp"
#include "lsm/entry.hpp"

namespace perdure::lsm {

/// A value as RocksDB's interface has it. Its data is never null, for to RocksDB that is no value.
[[nodiscard]] inline rocksdb::Slice slice_of(ValueRef const& value) {
  if (value.size == 0) return {};
  return {reinterpret_cast<char const*>(value.data), value.size};
}

/// A chain is of one key's versions, newest first, down to the first that is no operand (Chains in
/// engine.hpp). It is open where all are operands: the value below is the LSM tree's.
[[nodiscard]] inline bool is_open(std::span<Version const> chain) {
  return !chain.empty() && chain.back().kind == Kind::merge;
}

/// Of key i.
[[nodiscard]] inline std::span<Version const> chain_of(Chains const& chains, std::size_t i) {
  return std::span(chains.versions)
      .subspan(chains.offsets[i], chains.offsets[i + 1] - chains.offsets[i]);
}

/// The value that operands make. Reusing an object spares its memory.
class Merged {
 public:
  /// As long as this object and the operands, for it may be one of them.
  [[nodiscard]] rocksdb::Slice value() const { return value_; }

  /// `base` is null where there is none; operands oldest first. Without operands the value is the
  /// base's, which must be there then. Corruption: the operator failed. InvalidArgument: there are
  /// operands and no operator.
  rocksdb::Status fold(rocksdb::MergeOperator const* merge_operator, rocksdb::Logger* logger,
                       rocksdb::Slice const& key, rocksdb::Slice const* base,
                       std::vector<rocksdb::Slice> const& operands);

  /// The value of a chain that does not begin with a tombstone. `below` is what the LSM tree has of
  /// the key, null where nothing; it counts for open chains alone.
  rocksdb::Status resolve(rocksdb::MergeOperator const* merge_operator, rocksdb::Logger* logger,
                          rocksdb::Slice const& key, std::span<Version const> chain,
                          rocksdb::Slice const* below);

 private:
  std::string owned_;
  std::vector<rocksdb::Slice> operands_;
  rocksdb::Slice value_;
};

/// Operands over a value of several columns, which RocksDB 7.8 does not merge, or that make one,
/// which is left to RocksDB.
[[nodiscard]] rocksdb::Status entity_does_not_merge();

/// One key's operands did not merge: what fold() and entity_does_not_merge() say, and RocksDB of a
/// key in its files.
[[nodiscard]] bool is_failed_merge(rocksdb::Status const& status);

}  // namespace perdure::lsm
