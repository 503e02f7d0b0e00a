// The keys of a view, those of its runs and those of RocksDB's LSM tree in one order: each key that
// either has, hidden ones among them. What a key's value is, iterator.cpp says.
//
// Invariant: going forward, both cursors are on their first key that is not below the merged one,
// going backward on their last that is not above it.
#pragma once

#include <rocksdb/options.h>
#include <rocksdb/slice.h>
#include <rocksdb/status.h>

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "lsm/engine/engine.hpp"
#include "lsm/rocks/lsm_cursor.hpp"
#include "lsm/rocks/run_cursor.hpp"

namespace perdure::lsm {

/// What an iterator reads.
struct IteratorView {
  /// Has the runs, the values that their entries point to, the snapshot and the family's handle.
  /// The iterator keeps it. A view that shows anything else has another owner.
  std::shared_ptr<void const> owner;
  std::vector<RunPtr> runs;  // of the family, newest first
  RequestId limit = kNewest;
  LsmSource lsm;
};

class MergedCursor {
 public:
  /// `options` are those of RocksDB's iterator below. The engine outlives the cursor.
  MergedCursor(Engine& engine, IteratorView view, rocksdb::ReadOptions const& options);

  [[nodiscard]] IteratorView const& view() const { return view_; }
  /// Ahead of any key, as a new one.
  void renew(IteratorView view);
  /// A copy of a key that outlives moves and renew(): the key may be the cursor's own.
  rocksdb::Slice keep(rocksdb::Slice const& key);

  [[nodiscard]] bool valid() const { return in_runs_ || in_lsm_; }
  /// Why it is on no key, if that is an error. Then a seek is due.
  [[nodiscard]] rocksdb::Status status() const;
  [[nodiscard]] rocksdb::Slice key() const { return in_runs_ ? runs_->key() : lsm_->key(); }
  /// The runs have versions of the key: chain(), which count before lsm()'s.
  [[nodiscard]] bool in_runs() const { return in_runs_; }
  [[nodiscard]] bool in_lsm() const { return in_lsm_; }
  [[nodiscard]] std::span<Version const> chain() const { return runs_->chain(); }
  [[nodiscard]] LsmCursor const& lsm() const { return *lsm_; }

  void seek_to_first();
  void seek_to_last();
  void seek(rocksdb::Slice const& key);  // the first key not below
  /// The last key not above, and of the runs' keys below `end`, where that is not null; RocksDB's
  /// end as their options say.
  void seek_for_prev(rocksdb::Slice const& key, rocksdb::Slice const* end);
  void next();  // valid()
  void prev();  // valid()

 private:
  void choose(Direction direction);

  Engine* engine_;
  IteratorView view_;  // before the cursors, which it outlives
  rocksdb::ReadOptions options_;
  std::optional<RunCursor> runs_;
  std::optional<LsmCursor> lsm_;
  bool in_runs_ = false;
  bool in_lsm_ = false;
  Direction direction_ = Direction::forward;
  std::string kept_;
};

}  // namespace perdure::lsm
