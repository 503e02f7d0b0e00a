#include "lsm/rocks/database.hpp"

#include <typeinfo>
#include <utility>

namespace perdure::lsm {

using rocksdb::PinnableSlice;
using rocksdb::WriteBatch;

Database::Database(rocksdb::DB* base, DatabaseParts parts, std::shared_ptr<FamilyListener> listener)
    : TwoReads(base),
      parts_(std::move(parts)),
      listener_(std::move(listener)),
      logger_(base->GetDBOptions().info_log) {
  listener_->set([this](CF* handle) { handle_deleted(handle); });
}

Database::~Database() {
  shut();
  parts_.families->close(*db_);
}

/// What cannot be flushed stays in the G-WAL, and the info log says so.
void Database::shut() {
  if (std::exchange(closed_, true)) return;
  listener_->set(nullptr);
  if (parts_.hot != nullptr) parts_.hot->stop();
  if (auto s = parts_.read_only ? Status() : parts_.writer->flush(); !s.ok())
    rocksdb::Error(logger_.get(),
                   "perdure: the database closes before its memtables could be flushed; what was "
                   "logged of them is in the G-WAL, and the next opening with Perdure has it: %s",
                   s.ToString().c_str());
  parts_.flusher->stop();
  parts_.tables->close();
  parts_.gwal->close();
}

rocksdb::DB* Database::GetRootDB() {
  if (!closed_) parts_.writer->flush().PermitUncheckedError();
  return db_->GetRootDB();
}

rocksdb::Status Database::Close() {
  shut();
  parts_.families->close(*db_);
  return db_->Close();
}

rocksdb::Status Database::Put(WriteOptions const& o, CF* cf, Slice const& key, Slice const& value) {
  return parts_.writer->write_one(
      o, [&](WriteOptions const& how) { return db_->Put(how, cf, key, value); },
      [&](WriteBatch& batch) { return batch.Put(cf, key, value); });
}

rocksdb::Status Database::Delete(WriteOptions const& o, CF* cf, Slice const& key) {
  return parts_.writer->write_one(
      o, [&](WriteOptions const& how) { return db_->Delete(how, cf, key); },
      [&](WriteBatch& batch) { return batch.Delete(cf, key); });
}

/// A plain one: of a key that was written twice in one memtable, RocksDB gets the last write alone,
/// and a SingleDelete would count writes.
rocksdb::Status Database::SingleDelete(WriteOptions const& o, CF* cf, Slice const& key) {
  return Delete(o, cf, key);
}

rocksdb::Status Database::Merge(WriteOptions const& o, CF* cf, Slice const& key,
                                Slice const& value) {
  FamilyPtr const family = parts_.families->find(cf->GetID());
  if (family == nullptr || family->merge_operator == nullptr)
    return db_->Merge(o, cf, key, value);  // which refuses it
  return parts_.writer->write_one(
      o, [&](WriteOptions const& how) { return db_->Merge(how, cf, key, value); },
      [&](WriteBatch& batch) { return batch.Merge(cf, key, value); });
}

rocksdb::Status Database::Write(WriteOptions const& o, WriteBatch* batch) {
  return parts_.writer->write(o, batch);
}

rocksdb::Status Database::Put(WriteOptions const& o, CF* cf, Slice const& key,
                              Slice const& timestamp, Slice const& value) {
  return parts_.writer->write_alone(
      o, [&](WriteOptions const& how) { return db_->Put(how, cf, key, timestamp, value); });
}

rocksdb::Status Database::PutEntity(WriteOptions const& o, CF* cf, Slice const& key,
                                    rocksdb::WideColumns const& columns) {
  return parts_.writer->write_alone(
      o, [&](WriteOptions const& how) { return db_->PutEntity(how, cf, key, columns); });
}

rocksdb::Status Database::Delete(WriteOptions const& o, CF* cf, Slice const& key,
                                 Slice const& timestamp) {
  return parts_.writer->write_alone(
      o, [&](WriteOptions const& how) { return db_->Delete(how, cf, key, timestamp); });
}

rocksdb::Status Database::SingleDelete(WriteOptions const& o, CF* cf, Slice const& key,
                                       Slice const& timestamp) {
  return parts_.writer->write_alone(
      o, [&](WriteOptions const& how) { return db_->SingleDelete(how, cf, key, timestamp); });
}

rocksdb::Status Database::DeleteRange(WriteOptions const& o, CF* cf, Slice const& begin,
                                      Slice const& end) {
  return parts_.writer->write_alone(
      o, [&](WriteOptions const& how) { return db_->DeleteRange(how, cf, begin, end); });
}

/// Families with timestamps have nothing in memtables.
rocksdb::Status Database::Get(ReadOptions const& o, CF* cf, Slice const& key, PinnableSlice* value,
                              std::string* timestamp) {
  if (timestamp == nullptr || cf->GetComparator()->timestamp_size() == 0)
    return parts_.reader->get(o, cf, key, value);
  Sight const sight = parts_.reader->sight(o);
  if (!sight.refusal.ok()) return sight.refusal;
  return db_->Get(sight.view == nullptr ? o : sight.options, cf, key, value, timestamp);
}

rocksdb::Status Database::GetEntity(ReadOptions const& o, CF* cf, Slice const& key,
                                    rocksdb::PinnableWideColumns* columns) {
  Sight const sight = parts_.reader->sight(o);
  if (!sight.refusal.ok()) return sight.refusal;
  if (sight.view == nullptr) return db_->GetEntity(o, cf, key, columns);
  PinnableSlice plain;  // as what memtables have is: wide columns are RocksDB's
  auto const known = parts_.reader->from_tables(sight, cf, key, &plain);
  if (!known) return db_->GetEntity(sight.options, cf, key, columns);
  if (kEntitiesMerge && known->ok() && merge_operator(cf) != nullptr) {
    bool is_entity = false;
    if (auto s = parts_.reader->merges_entity(sight, cf, key, &is_entity); !s.ok()) return s;
    if (is_entity) return merged_entity(o, cf, key, columns);
  }
  columns->Reset();
  if (known->ok()) columns->SetPlainValue(plain);
  return *known;
}

/// RocksDB merges operands with several columns.
rocksdb::Status Database::merged_entity(ReadOptions const& o, CF* cf, Slice const& key,
                                        rocksdb::PinnableWideColumns* columns) {
  if (o.snapshot != nullptr)
    return Status::NotSupported("merges into wide columns, of a snapshot that sees memtables");
  return parts_.writer->alone([&] { return db_->GetEntity(o, cf, key, columns); });
}

rocksdb::Status Database::GetMergeOperands(ReadOptions const& o, CF* cf, Slice const& key,
                                           PinnableSlice* slice,
                                           rocksdb::GetMergeOperandsOptions* how, int* operands) {
  if (auto s = parts_.writer->flush(); !s.ok()) return s;
  Sight const sight = parts_.reader->sight(o);
  if (sight.view == nullptr) return db_->GetMergeOperands(o, cf, key, slice, how, operands);
  if (!sight.view->runs(cf->GetID()).empty())
    return Status::NotSupported("GetMergeOperands() of a snapshot that sees memtables");
  return db_->GetMergeOperands(sight.options, cf, key, slice, how, operands);
}

bool Database::KeyMayExist(ReadOptions const& o, CF* cf, Slice const& key, std::string* value,
                           bool* value_found) {
  return parts_.reader->may_exist(o, cf, key, value, value_found);
}

rocksdb::Snapshot const* Database::GetSnapshot() { return parts_.tables->snapshot().release(); }

void Database::ReleaseSnapshot(rocksdb::Snapshot const* snapshot) {
  if (snapshot == nullptr) return;
  if (typeid(*snapshot) != typeid(ViewSnapshot)) return db_->ReleaseSnapshot(snapshot);
  delete static_cast<ViewSnapshot const*>(snapshot);
}

rocksdb::SequenceNumber Database::GetLatestSequenceNumber() const {
  return parts_.tables->sequence();
}

}  // namespace perdure::lsm
