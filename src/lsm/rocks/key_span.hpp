// Between which keys a family has anything in RocksDB at a snapshot: two seeks tell, once, and so a
// range beside them costs none.
#pragma once

#include <rocksdb/db.h>

#include <cstdint>
#include <map>
#include <string>

#include "base/mutex.hpp"

namespace perdure::lsm {

/// Keys in the order of their bytes.
struct KeySpan {
  enum class Has : std::uint8_t { nothing, some, unknown };
  Has has = Has::unknown;
  std::string first, last;  // of `some`

  /// Whether there may be keys from `begin` on and, where it is not null, below `end`.
  [[nodiscard]] bool meets(rocksdb::Slice const& begin, rocksdb::Slice const* end) const {
    if (has != Has::some) return has == Has::unknown;
    return begin.compare(last) <= 0 && (end == nullptr || end->compare(first) > 0);
  }
};

/// Of all families at one snapshot; any thread's.
class KeySpans {
 public:
  /// As long as this. Of a family with BytewiseComparator.
  KeySpan const& of(rocksdb::DB& db, rocksdb::Snapshot const* snapshot,
                    rocksdb::ColumnFamilyHandle* family);

 private:
  Mutex mutex_;
  std::map<std::uint32_t, KeySpan> spans_ PERDURE_GUARDED_BY(mutex_);
};

}  // namespace perdure::lsm
