// A read of many ranges of one family: by the machine in parts, all workers side by side, and by
// iterators where that is not possible. What RocksDB has is merged in by a seek a range, where it
// has anything there.
//
// Invariant: all ranges are read in one sight.
#pragma once

#include <rocksdb/db.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <vector>

#include "base/mutex.hpp"
#include "lsm/engine/ranges.hpp"
#include "lsm/rocks/database.hpp"
#include "lsm/rocks/key_span.hpp"
#include "lsm/rocks/lsm_cursor.hpp"
#include "lsm/rocks/range_pieces.hpp"
#include "perdure/rocks.h"

namespace perdure::lsm {

/// Ranges [begins[i], ends[i]), without an end where there are no ends.
struct RangesAsked {
  Column begins;
  Column ends;
  std::uint64_t limit = 0;  // pairs of each
};

class RangeRead {
 public:
  /// `options` have a snapshot of the database's.
  RangeRead(Database& database, rocksdb::ColumnFamilyHandle* family,
            rocksdb::ReadOptions const& options, RangesAsked const& asked);

  /// Once.
  rocksdb::Status run(rocks::Ranges& ranges);

 private:
  /// What a thread reads with.
  struct Reader {
    explicit Reader(Reused<FoundPairs>::Loan pairs) : found(std::move(pairs)) {}
    std::unique_ptr<rocksdb::Iterator> all;  // null: not needed yet
    std::unique_ptr<LsmCursor> below;  // the same
    Reused<FoundPairs>::Loan found;
  };
  class Lent;

  /// Ranges that have about so many pairs together.
  [[nodiscard]] std::size_t ranges_of(std::uint64_t pairs) const {
    return std::max<std::size_t>(1, pairs / a_range_);
  }
  /// Ranges [begin, end), which are those of the pieces.
  void read_wave(std::size_t begin, std::size_t end);
  void read_part(std::size_t begin, std::size_t end);
  /// The machine's answer for ranges from `begin` on.
  void take(std::size_t begin, RangePairs const& pairs);
  void iterate(std::size_t range, Reader& reader);
  /// The machine's pairs and RocksDB's, where it has some, as one.
  void merge(std::size_t range, RangePairs const& pairs, std::size_t number, Reader& reader);
  [[nodiscard]] bool is_mixed(std::size_t range, RangePairs const& pairs, std::size_t number) const;
  [[nodiscard]] bool below_meets(std::size_t range) const;
  [[nodiscard]] bool ends_before(std::size_t range, rocksdb::Slice const& key) const;
  RangePiece& piece(std::size_t range) { return pieces_[range - wave_]; }
  RangePairs const& keep(RangePairs pairs);
  void fail(rocksdb::Status const& why);

  Database& database_;
  DatabaseParts& parts_;
  rocksdb::ColumnFamilyHandle* const family_;
  rocksdb::ReadOptions options_;
  RangesAsked const asked_;
  Sight const sight_;
  RunList runs_;
  KeySpan const* below_ = nullptr;  // not null where there are runs
  std::uint64_t a_range_;  // pairs that a range is taken to have
  std::size_t wave_ = 0;  // the first range of the wave
  std::vector<RangePiece> pieces_;  // one a range of the wave

  Mutex mutex_;
  rocksdb::Status failure_ PERDURE_GUARDED_BY(mutex_);  // the first
  std::deque<RangePairs> answers_ PERDURE_GUARDED_BY(mutex_);  // of the wave
  std::deque<Reader> readers_ PERDURE_GUARDED_BY(mutex_);
  std::vector<Reader*> idle_ PERDURE_GUARDED_BY(mutex_);
};

}  // namespace perdure::lsm
