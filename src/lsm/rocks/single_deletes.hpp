// SingleDelete as a plain Delete. RocksDB cancels a SingleDelete against one Put, and so counts the
// Puts below it; of a key that memtables had several times it gets one. A Delete covers them all.
#pragma once

#include <rocksdb/write_batch.h>

#include "lsm/rocks/families.hpp"

namespace perdure::lsm {

/// The same batch with Deletes in place of SingleDeletes, in `rewritten`. False: there is something
/// in it that cannot be rewritten (wide columns, marks of two-phase commit).
[[nodiscard]] bool without_single_deletes(rocksdb::WriteBatch const& batch,
                                          Families const& families, rocksdb::WriteBatch& rewritten);

}  // namespace perdure::lsm
