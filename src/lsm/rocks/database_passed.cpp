// What RocksDB serves: some of it as it is, some after the memtables are flushed.
#include <utility>

#include "lsm/rocks/database.hpp"

namespace perdure::lsm {

rocksdb::Status Database::Flush(rocksdb::FlushOptions const& o, CF* cf) {
  if (auto s = parts_.writer->flush(); !s.ok()) return s;
  return db_->Flush(o, unwrap(cf));
}

rocksdb::Status Database::Flush(rocksdb::FlushOptions const& o, std::vector<CF*> const& cfs) {
  if (auto s = parts_.writer->flush(); !s.ok()) return s;
  return db_->Flush(o, unwrap(cfs));
}

rocksdb::Status Database::CompactRange(rocksdb::CompactRangeOptions const& o, CF* cf,
                                       Slice const* begin, Slice const* end) {
  if (auto s = parts_.writer->flush(); !s.ok()) return s;
  return db_->CompactRange(o, unwrap(cf), begin, end);
}

rocksdb::Status Database::CompactFiles(rocksdb::CompactionOptions const& o, CF* cf,
                                       std::vector<std::string> const& files, int level, int path,
                                       std::vector<std::string>* const outputs,
                                       rocksdb::CompactionJobInfo* info) {
  if (auto s = parts_.writer->flush(); !s.ok()) return s;
  return db_->CompactFiles(o, unwrap(cf), files, level, path, outputs, info);
}

rocksdb::Status Database::SuggestCompactRange(CF* cf, Slice const* begin, Slice const* end) {
  if (auto s = parts_.writer->flush(); !s.ok()) return s;
  return db_->SuggestCompactRange(unwrap(cf), begin, end);
}

rocksdb::Status Database::PromoteL0(CF* cf, int level) {
  if (auto s = parts_.writer->flush(); !s.ok()) return s;
  return db_->PromoteL0(unwrap(cf), level);
}

rocksdb::Status Database::IngestExternalFile(CF* cf, std::vector<std::string> const& files,
                                             rocksdb::IngestExternalFileOptions const& o) {
  return parts_.writer->alone([&] { return db_->IngestExternalFile(unwrap(cf), files, o); });
}

rocksdb::Status Database::IngestExternalFiles(
    std::vector<rocksdb::IngestExternalFileArg> const& args) {
  std::vector<rocksdb::IngestExternalFileArg> base = args;
  for (rocksdb::IngestExternalFileArg& arg : base) arg.column_family = unwrap(arg.column_family);
  return parts_.writer->alone([&] { return db_->IngestExternalFiles(base); });
}

rocksdb::Status Database::GetLiveFiles(std::vector<std::string>& files, uint64_t* manifest_bytes,
                                       bool flush) {
  if (auto s = parts_.writer->flush(); !s.ok()) return s;
  return db_->GetLiveFiles(files, manifest_bytes, flush);
}

rocksdb::Status Database::GetLiveFilesStorageInfo(
    rocksdb::LiveFilesStorageInfoOptions const& o,
    std::vector<rocksdb::LiveFileStorageInfo>* files) {
  if (auto s = parts_.writer->flush(); !s.ok()) return s;
  return db_->GetLiveFilesStorageInfo(o, files);
}

/// What memtables hold is on the medium as RocksDB's files.
rocksdb::Status Database::SyncWAL() {
  if (auto s = parts_.writer->flush(); !s.ok()) return s;
  return db_->SyncWAL();
}

rocksdb::Status Database::FlushWAL(bool sync) {
  if (sync) {
    if (auto s = parts_.writer->flush(); !s.ok()) return s;
  }
  return db_->FlushWAL(sync);
}

rocksdb::Status Database::GetUpdatesSince(rocksdb::SequenceNumber,
                                          std::unique_ptr<rocksdb::TransactionLogIterator>*,
                                          rocksdb::TransactionLogIterator::ReadOptions const&) {
  return Status::NotSupported(
      "RocksDB's WAL has only what its own memtables took: large batches "
      "go to the G-WAL, and from there to sorted files");
}

rocksdb::Status Database::Resume() {
  Status const s = db_->Resume();
  parts_.flusher->notice();
  return s;
}

bool Database::own_property(Slice const& property, std::uint64_t* value) const {
  Counters const& counters = *parts_.counters;
  struct Named {
    char const* name;
    std::uint64_t value;
  };
  Named const all[] = {
      {"perdure.table-batches", counters.table_batches},
      {"perdure.table-operations", counters.table_operations},
      {"perdure.passed-through", counters.passed_through},
      {"perdure.table-hits", counters.table_hits},
      {"perdure.table-misses", counters.table_misses},
      {"perdure.flushed-generations", counters.flushed_generations},
      {"perdure.flushed-entries", counters.flushed_entries},
      {"perdure.writer-waits", counters.writer_waits},
      {"perdure.writer-wait-micros", counters.writer_wait_micros},
      {"perdure.ingest-waits", counters.ingest_waits},
      {"perdure.recovered-generations", counters.recovered_generations},
      {"perdure.recovered-requests", counters.recovered_requests},
      {"perdure.sealed-generations", parts_.tables->sealed_generations()},
      {"perdure.threshold", parts_.writer->threshold()},
      {"perdure.memtables", parts_.tables->any() ? 1u : 0u},
  };
  for (Named const& one : all) {
    if (property != one.name) continue;
    *value = one.value;
    return true;
  }
  return false;
}

bool Database::GetProperty(CF* cf, Slice const& property, std::string* value) {
  std::uint64_t number = 0;
  if (property == "perdure.device") {
    *value = parts_.engine->describe();
    return true;
  }
  if (own_property(property, &number)) {
    *value = std::to_string(number);
    return true;
  }
  return db_->GetProperty(unwrap(cf), property, value);
}

bool Database::GetIntProperty(CF* cf, Slice const& property, uint64_t* value) {
  return own_property(property, value) || db_->GetIntProperty(unwrap(cf), property, value);
}

bool Database::GetMapProperty(CF* cf, Slice const& property,
                              std::map<std::string, std::string>* value) {
  return db_->GetMapProperty(unwrap(cf), property, value);
}

rocksdb::Status Database::GetApproximateSizes(rocksdb::SizeApproximationOptions const& o, CF* cf,
                                              rocksdb::Range const* ranges, int n,
                                              uint64_t* sizes) {
  return db_->GetApproximateSizes(o, unwrap(cf), ranges, n, sizes);
}

void Database::GetApproximateMemTableStats(CF* cf, rocksdb::Range const& range,
                                           uint64_t* const count, uint64_t* const size) {
  db_->GetApproximateMemTableStats(unwrap(cf), range, count, size);
}

rocksdb::Status Database::EnableAutoCompaction(std::vector<CF*> const& cfs) {
  return db_->EnableAutoCompaction(unwrap(cfs));
}

int Database::NumberLevels(CF* cf) { return db_->NumberLevels(unwrap(cf)); }

int Database::MaxMemCompactionLevel(CF* cf) { return db_->MaxMemCompactionLevel(unwrap(cf)); }

int Database::Level0StopWriteTrigger(CF* cf) { return db_->Level0StopWriteTrigger(unwrap(cf)); }

rocksdb::Options Database::GetOptions(CF* cf) const { return db_->GetOptions(unwrap(cf)); }

rocksdb::Status Database::SetOptions(CF* cf,
                                     std::unordered_map<std::string, std::string> const& options) {
  return db_->SetOptions(unwrap(cf), options);
}

void Database::GetColumnFamilyMetaData(CF* cf, rocksdb::ColumnFamilyMetaData* metadata) {
  db_->GetColumnFamilyMetaData(unwrap(cf), metadata);
}

void Database::GetAllColumnFamilyMetaData(std::vector<rocksdb::ColumnFamilyMetaData>* metadata) {
  db_->GetAllColumnFamilyMetaData(metadata);
}

rocksdb::Status Database::GetPropertiesOfAllTables(CF* cf,
                                                   rocksdb::TablePropertiesCollection* props) {
  return db_->GetPropertiesOfAllTables(unwrap(cf), props);
}

rocksdb::Status Database::GetPropertiesOfTablesInRange(CF* cf, rocksdb::Range const* ranges,
                                                       std::size_t n,
                                                       rocksdb::TablePropertiesCollection* props) {
  return db_->GetPropertiesOfTablesInRange(unwrap(cf), ranges, n, props);
}

rocksdb::Status Database::IncreaseFullHistoryTsLow(CF* cf, std::string low) {
  return db_->IncreaseFullHistoryTsLow(unwrap(cf), std::move(low));
}

rocksdb::Status Database::GetFullHistoryTsLow(CF* cf, std::string* low) {
  return db_->GetFullHistoryTsLow(unwrap(cf), low);
}

rocksdb::Status Database::GetStatsHistory(
    uint64_t begin, uint64_t end, std::unique_ptr<rocksdb::StatsHistoryIterator>* iterator) {
  return db_->GetStatsHistory(begin, end, iterator);
}

rocksdb::Status Database::NewDefaultReplayer(std::vector<CF*> const& handles,
                                             std::unique_ptr<rocksdb::TraceReader>&& reader,
                                             std::unique_ptr<rocksdb::Replayer>* replayer) {
  return db_->NewDefaultReplayer(unwrap(handles), std::move(reader), replayer);
}

}  // namespace perdure::lsm
