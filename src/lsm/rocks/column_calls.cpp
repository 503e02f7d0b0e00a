// Batches as arrays (perdure/rocks.h). Large ones go to the memtables as the columns that they are;
// few go the way that all writes go.
//
// Invariant: each call sees, or makes, one state of the database.
#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

#include "lsm/rocks/array_call.hpp"
#include "lsm/rocks/merging.hpp"

namespace perdure::rocks {

using namespace lsm;  // NOLINT: whose interface this is
using rocksdb::ColumnFamilyHandle;
using rocksdb::PinnableSlice;
using rocksdb::Slice;

namespace {

rocksdb::Status write(rocksdb::DB& db, ColumnFamilyHandle* family, OpKind kind, Column const& keys,
                      Column const& values, ArrayOptions const& options) {
  Database* database = nullptr;
  if (auto s = check_call(db, family, keys, database); !s.ok()) return s;
  bool const has_values = kind != OpKind::erase;
  if (has_values && values.count != keys.count)
    return rocksdb::Status::InvalidArgument(std::to_string(keys.count) + " keys and " +
                                            std::to_string(values.count) + " values");
  if (auto s = check_host(values, "values"); !s.ok()) return s;
  if (is_for_tables(*database, family, kind == OpKind::update, keys.count)) {
    Writer::Columns columns;
    columns.family = family->GetID();
    columns.ops.kind = kind;
    columns.ops.keys = keys;
    if (has_values) columns.ops.values = values;
    columns.all_requests = keys.count;
    return database->parts().writer->write_columns(write_options(options), columns);
  }
  rocksdb::WriteBatch batch;
  for (std::size_t i = 0; i < keys.count; ++i) {
    Slice const value = has_values ? element(values, i) : Slice();
    if (auto s = add_operation(batch, family, kind, element(keys, i), value); !s.ok()) return s;
  }
  return db.Write(write_options(options), &batch);
}

constexpr std::size_t kKeysATurn = 256;

/// Calls found(i, value, status) for each key, by the workers, in any order. The first failure that
/// is no key's own ends it.
template <class F>
rocksdb::Status read(Database& database, ColumnFamilyHandle* family, Column const& keys,
                     rocksdb::ReadOptions const& options, F found) {
  Mutex mutex;
  rocksdb::Status failure;
  database.parts().workers->for_chunks(
      keys.count, kKeysATurn, [&](std::size_t begin, std::size_t end) {
        std::vector<Slice> slices;
        for (std::size_t i = begin; i < end; ++i) slices.push_back(element(keys, i));
        std::vector<PinnableSlice> values(slices.size());
        std::vector<rocksdb::Status> statuses(slices.size());
        database.parts().reader->multi_get(options, family, slices, values.data(), statuses.data(),
                                           false);
        for (std::size_t i = begin; i < end; ++i) {
          rocksdb::Status const& status = statuses[i - begin];
          if (!status.ok() && !status.IsNotFound() && !is_failed_merge(status)) {
            MutexLock lock(mutex);
            failure = status;
          }
          found(i, values[i - begin], status);
        }
      });
  return failure;
}

}  // namespace

rocksdb::Status put(rocksdb::DB& db, ColumnFamilyHandle* family, Column const& keys,
                    Column const& values, ArrayOptions const& options) {
  return write(db, family, OpKind::put, keys, values, options);
}

rocksdb::Status merge(rocksdb::DB& db, ColumnFamilyHandle* family, Column const& keys,
                      Column const& operands, ArrayOptions const& options) {
  return write(db, family, OpKind::update, keys, operands, options);
}

rocksdb::Status erase(rocksdb::DB& db, ColumnFamilyHandle* family, Column const& keys,
                      ArrayOptions const& options) {
  return write(db, family, OpKind::erase, keys, {}, options);
}

rocksdb::Status get(rocksdb::DB& db, ColumnFamilyHandle* family, Column const& keys,
                    MutableColumn const& values, std::span<KeyStatus> statuses,
                    ArrayOptions const& options) {
  Database* database = nullptr;
  if (auto s = check_call(db, family, keys, database); !s.ok()) return s;
  if (auto s = check_statuses(keys.count, statuses); !s.ok()) return s;
  if (values.space != MemorySpace::host || values.count < keys.count)
    return rocksdb::Status::InvalidArgument("values go to host memory, with room for one a key");
  OneState const state(*database, options);
  return read(*database, family, keys, state.options(),
              [&](std::size_t i, PinnableSlice const& value, rocksdb::Status const& status) {
                statuses[i] = status_of(status);
                if (!status.ok()) return;
                if (value.size() == values.width)
                  std::memcpy(values.data + i * values.width, value.data(), value.size());
                else
                  statuses[i] = KeyStatus::size_mismatch;
              });
}

rocksdb::Status get(rocksdb::DB& db, ColumnFamilyHandle* family, Column const& keys,
                    VariableValues& values, std::span<KeyStatus> statuses,
                    ArrayOptions const& options) {
  Database* database = nullptr;
  if (auto s = check_call(db, family, keys, database); !s.ok()) return s;
  if (auto s = check_statuses(keys.count, statuses); !s.ok()) return s;
  OneState const state(*database, options);
  std::vector<std::string> found(keys.count);
  auto const s = read(*database, family, keys, state.options(),
                      [&](std::size_t i, PinnableSlice const& value, rocksdb::Status const& is) {
                        statuses[i] = status_of(is);
                        if (is.ok()) found[i] = value.ToString();
                      });
  collect(found, values);
  return s;
}

rocksdb::Status range(rocksdb::DB& db, ColumnFamilyHandle* family, Column const& begins,
                      Column const& ends, std::uint64_t limit, Ranges& ranges,
                      ArrayOptions const& options) {
  Database* database = nullptr;
  if (auto s = check_call(db, family, begins, database); !s.ok()) return s;
  if (auto s = check_host(ends, "ends"); !s.ok()) return s;
  if (ends.count != 0 && ends.count != begins.count)
    return rocksdb::Status::InvalidArgument("as many ends as begins, or none");
  OneState const state(*database, options);
  struct Pairs {
    std::vector<std::string> keys, values;
  };
  std::vector<Pairs> found(begins.count);
  Mutex mutex;
  rocksdb::Status failure;
  database->parts().workers->for_chunks(begins.count, 16, [&](std::size_t first, std::size_t last) {
    std::unique_ptr<rocksdb::Iterator> const iterator(db.NewIterator(state.options(), family));
    for (std::size_t i = first; i < last; ++i) {
      Pairs& pairs = found[i];
      for (iterator->Seek(element(begins, i)); iterator->Valid() && pairs.keys.size() < limit;
           iterator->Next()) {
        if (ends.count != 0 && iterator->key().compare(element(ends, i)) >= 0) break;
        pairs.keys.push_back(iterator->key().ToString());
        pairs.values.push_back(iterator->value().ToString());
      }
      if (iterator->status().ok()) continue;
      MutexLock lock(mutex);
      failure = iterator->status();
    }
  });
  std::vector<std::string> keys, values;
  ranges.offsets.assign(1, 0);
  for (Pairs& pairs : found) {
    std::move(pairs.keys.begin(), pairs.keys.end(), std::back_inserter(keys));
    std::move(pairs.values.begin(), pairs.values.end(), std::back_inserter(values));
    ranges.offsets.push_back(static_cast<std::int64_t>(keys.size()));
  }
  collect(keys, ranges.keys);
  collect(values, ranges.values);
  return failure;
}

}  // namespace perdure::rocks
