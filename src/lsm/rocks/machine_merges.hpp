// Which merge operators machines have themselves.
//
// Invariant: an operator that a machine stands in for gave the same words for a set of samples,
// whatever its name says.
#pragma once

#include <rocksdb/merge_operator.h>

#include <memory>

#include "lsm/engine/engine.hpp"

namespace perdure::lsm {

/// RocksDB's uint64add and max, and min_operator(); of any other, and of none, `none`.
[[nodiscard]] Operation operation_of(rocksdb::MergeOperator const* merge_operator);

}  // namespace perdure::lsm
