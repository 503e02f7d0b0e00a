#include "lsm/rocks/array_call.hpp"

namespace perdure::lsm {

using rocksdb::ColumnFamilyHandle;
using rocksdb::Slice;

rocksdb::Status check_call(rocksdb::DB& db, ColumnFamilyHandle* family, Database*& database) {
  database = dynamic_cast<Database*>(&db);
  if (database == nullptr)
    return rocksdb::Status::InvalidArgument(
        "the database was not opened by perdure::rocks::open(); arrays need one that was");
  if (family == nullptr) return rocksdb::Status::InvalidArgument("no column family");
  return rocksdb::Status::OK();
}

rocksdb::Status check_statuses(std::size_t keys, std::span<KeyStatus> statuses) {
  if (statuses.size() == keys) return rocksdb::Status::OK();
  return rocksdb::Status::InvalidArgument(std::to_string(keys) + " keys and room for " +
                                          std::to_string(statuses.size()) + " statuses");
}

rocksdb::Status check_output(MutableColumn const& values, std::size_t keys) {
  if (values.count >= keys) return rocksdb::Status::OK();
  return rocksdb::Status::InvalidArgument(std::to_string(keys) + " keys and room for " +
                                          std::to_string(values.count) + " values");
}

bool is_for_tables(Database& database, ColumnFamilyHandle* family, bool merges,
                   std::size_t operations) {
  DatabaseParts& parts = database.parts();
  FamilyPtr const known = parts.families->find(family->GetID());
  return operations >= parts.writer->threshold() && known != nullptr && known->has_tables() &&
         (!merges || known->merge_operator != nullptr);
}

Slice element(Column const& column, std::size_t i) {
  auto const* const data = reinterpret_cast<char const*>(column.data);
  if (column.offsets == nullptr) return {data + i * column.width, column.width};
  return {data + column.offsets[i],
          static_cast<std::size_t>(column.offsets[i + 1] - column.offsets[i])};
}

Column part_of(Column const& keys, std::size_t begin, std::size_t end, Room<std::int64_t>& room) {
  Column part = keys;
  part.count = end - begin;
  if (keys.offsets == nullptr) {
    part.data = keys.data + begin * keys.width;
    return part;
  }
  std::int64_t const first = keys.offsets[begin];
  part.data = keys.data + first;
  part.offsets = keys.offsets + begin;
  if (first == 0) return part;
  std::span<std::int64_t> const offsets = room.take(part.count + 1);
  for (std::size_t i = 0; i <= part.count; ++i) offsets[i] = keys.offsets[begin + i] - first;
  part.offsets = offsets.data();
  return part;
}

rocksdb::WriteOptions write_options(rocks::ArrayOptions const& options) {
  rocksdb::WriteOptions write;
  write.sync = options.sync;
  write.disableWAL = options.disable_wal;
  return write;
}

rocksdb::Status add_operation(rocksdb::WriteBatch& batch, ColumnFamilyHandle* family, OpKind kind,
                              Slice const& key, Slice const& value) {
  switch (kind) {
    case OpKind::put: return batch.Put(family, key, value);
    case OpKind::erase: return batch.Delete(family, key);
    case OpKind::update: return batch.Merge(family, key, value);
    case OpKind::get: break;
  }
  return rocksdb::Status::InvalidArgument("an operation of no known kind");
}

KeyStatus status_of(rocksdb::Status const& status) {
  if (status.ok()) return KeyStatus::ok;
  return status.IsNotFound() ? KeyStatus::not_found : KeyStatus::corrupt;
}

OneState::OneState(Database& database, rocks::ArrayOptions const& options) {
  options_.snapshot = options.snapshot;
  if (options.snapshot != nullptr) return;
  own_ = database.parts().tables->snapshot();
  options_.snapshot = own_.get();
}

}  // namespace perdure::lsm
