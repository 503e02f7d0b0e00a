// What transactions ask of the database.
#include "lsm/rocks/conflicts.hpp"
#include "lsm/rocks/database.hpp"

namespace perdure::lsm {

std::shared_ptr<rocksdb::Snapshot const> Database::pin() {
  return {parts_.tables->pin().release(), [this](ViewSnapshot const* snapshot) {
            parts_.tables->unpin(snapshot->GetSequenceNumber());
            delete snapshot;
          }};
}

rocksdb::Status Database::unwritten(std::span<TrackedKey const> keys) {
  return Conflicts(*db_, *parts_.engine, *parts_.tables, *parts_.families).unwritten(keys);
}

rocksdb::Status Database::write_if_unwritten(WriteOptions const& o,
                                             std::span<TrackedKey const> keys,
                                             rocksdb::WriteBatch* batch) {
  return parts_.writer->write_if(o, batch, [&] { return unwritten(keys); });
}

rocksdb::ColumnFamilyHandle* Database::rocksdb_handle(CF* handle) {
  return handle != nullptr ? handle : DefaultColumnFamily();
}

rocksdb::ColumnFamilyHandle* Database::rocksdb_handle(std::uint32_t family) {
  FamilyPtr const found = parts_.families->find(family);
  return found != nullptr ? found->base.load() : nullptr;
}

std::shared_ptr<rocksdb::MergeOperator> Database::merge_operator(CF* handle) {
  FamilyPtr const found = parts_.families->find(handle->GetID());
  return found != nullptr ? found->merge_operator : nullptr;
}

}  // namespace perdure::lsm
