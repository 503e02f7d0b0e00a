// The iterator of a view: its memtables' runs merged with what RocksDB's LSM tree has. To a caller
// it is RocksDB's own: which keys it stops at, and with which status, is that of one RocksDB which
// has all of the data (DBIter of 7.8).
//
// Invariants:
//  1. A key's newest version that the view sees counts, and runs are newer than the LSM tree. A
//     tombstone hides the key, and operands stand on the newest value below them.
//  2. Bounds count as the caller's slices have them when it moves.
#pragma once

#include <rocksdb/env.h>
#include <rocksdb/iterator.h>
#include <rocksdb/merge_operator.h>
#include <rocksdb/options.h>
#include <rocksdb/slice_transform.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>

#include "lsm/engine/engine.hpp"
#include "lsm/rocks/merged_cursor.hpp"

namespace perdure::lsm {

/// What of a family's options an iterator needs; BytewiseComparator orders its keys.
struct IteratorFamily {
  Engine* engine = nullptr;
  std::shared_ptr<rocksdb::MergeOperator> merge_operator;
  std::shared_ptr<rocksdb::SliceTransform const> prefix_extractor;
  std::shared_ptr<rocksdb::Logger> logger;
  std::atomic<std::uint64_t>* hits = nullptr;  // counts keys of memtables that were shown
};

/// Replaces the view by the current one.
using RefreshView = std::function<rocksdb::Status(IteratorView& view)>;

/// `options` as the caller's of NewIterator; the view's snapshot counts in place of theirs.
/// `refresh` is empty where they have a snapshot, for then Refresh() is not supported. A tailing
/// iterator takes the current view at every seek, and differs from RocksDB's in that it has Prev().
/// Of max_skippable_internal_keys, each key that memtables hide counts as one.
[[nodiscard]] std::unique_ptr<rocksdb::Iterator> new_iterator(rocksdb::ReadOptions const& options,
                                                              IteratorFamily family,
                                                              IteratorView view,
                                                              RefreshView refresh);

}  // namespace perdure::lsm
