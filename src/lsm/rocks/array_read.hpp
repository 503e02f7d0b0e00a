// A read of many keys of one family: by the machine in parts, all workers side by side, each key's
// value copied once, from where the memtables have it to where the caller wants it. What they do
// not know is asked of RocksDB at the end.
//
// Invariant: all keys are read in one sight, each up to its own limit.
#pragma once

#include <rocksdb/db.h>

#include <cstddef>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/mutex.hpp"
#include "lsm/engine/engine.hpp"
#include "lsm/rocks/read_rooms.hpp"
#include "lsm/rocks/reader.hpp"
#include "lsm/rocks/value_sink.hpp"
#include "perdure/batch.h"

namespace perdure::lsm {

struct DatabaseParts;

class ArrayRead {
 public:
  /// `sight` has a view; `keys` and the limits stay as long as this.
  ArrayRead(DatabaseParts& parts, Sight const& sight, rocksdb::ColumnFamilyHandle* family,
            Column const& keys, Limits const& limits, ValueSink& sink);
  ~ArrayRead();

  /// Once. What the sink was told of points to memory of the view's or of this. A key that cannot
  /// be merged is told by its status; what fails otherwise, by the answer.
  rocksdb::Status run();

 private:
  /// A key whose operands stand on what RocksDB has.
  struct Open {
    std::size_t key;
    std::span<Version const> chain;
  };
  class Folder;
  class AbsentTeller;
  class OpenTeller;
  void read_part(std::size_t begin, std::size_t end);
  /// What the block cache knows of these keys; the others stay.
  void ask_cache(std::vector<std::size_t>& absent);
  void take(std::size_t first, std::span<Answer const> answers, AnswerRows const& rows,
            std::vector<std::size_t>& merges);
  Status fold(std::span<std::size_t const> merges);
  /// Folds those that the machine can by itself; the others stay.
  Status fold_there(std::vector<std::size_t>& merges);
  void fold_closed(std::span<std::size_t const> merges, Chains const& chains);
  void ask_below();
  /// What became of a key.
  void tell(std::size_t key, rocksdb::Status const& status, rocksdb::Slice const& value,
            ValueArena& arena);
  void fail(rocksdb::Status const& why);
  ValueArena& new_arena();

  DatabaseParts& parts_;
  Sight const& sight_;
  rocksdb::ColumnFamilyHandle* const family_;
  Column const keys_;
  Limits const limits_;
  ValueSink& sink_;
  RunList const runs_;
  RunList const known_;  // and behind them, those of flushed memtables
  std::size_t const row_words_;  // of an answer; 0: values that runs have in rows are not asked for
  std::optional<CacheTicket> ticket_;  // none: the block cache knows nothing of the sight

  Mutex mutex_;
  rocksdb::Status failure_ PERDURE_GUARDED_BY(mutex_);  // the first
  std::vector<std::size_t> absent_ PERDURE_GUARDED_BY(mutex_);
  std::vector<Open> open_ PERDURE_GUARDED_BY(mutex_);
  // of the open ones
  std::deque<Chains> chains_ PERDURE_GUARDED_BY(mutex_);
  std::deque<std::vector<Version>> folded_ PERDURE_GUARDED_BY(mutex_);
  std::deque<ValueArena> arenas_ PERDURE_GUARDED_BY(mutex_);
};

}  // namespace perdure::lsm
