// What RocksDB serves: some of it as it is, some after the memtables are flushed.
#include <utility>

#include "lsm/rocks/database.hpp"

namespace perdure::lsm {

rocksdb::Status Database::Flush(rocksdb::FlushOptions const& o, CF* cf) {
  if (auto s = parts_.writer->flush(); !s.ok()) return s;
  return db_->Flush(o, cf);
}

rocksdb::Status Database::Flush(rocksdb::FlushOptions const& o, std::vector<CF*> const& cfs) {
  if (auto s = parts_.writer->flush(); !s.ok()) return s;
  return db_->Flush(o, cfs);
}

rocksdb::Status Database::CompactRange(rocksdb::CompactRangeOptions const& o, CF* cf,
                                       Slice const* begin, Slice const* end) {
  if (auto s = parts_.writer->flush(); !s.ok()) return s;
  return db_->CompactRange(o, cf, begin, end);
}

rocksdb::Status Database::CompactFiles(rocksdb::CompactionOptions const& o, CF* cf,
                                       std::vector<std::string> const& files, int level, int path,
                                       std::vector<std::string>* const outputs,
                                       rocksdb::CompactionJobInfo* info) {
  if (auto s = parts_.writer->flush(); !s.ok()) return s;
  return db_->CompactFiles(o, cf, files, level, path, outputs, info);
}

rocksdb::Status Database::SuggestCompactRange(CF* cf, Slice const* begin, Slice const* end) {
  if (auto s = parts_.writer->flush(); !s.ok()) return s;
  return db_->SuggestCompactRange(cf, begin, end);
}

rocksdb::Status Database::PromoteL0(CF* cf, int level) {
  if (auto s = parts_.writer->flush(); !s.ok()) return s;
  return db_->PromoteL0(cf, level);
}

/// What overlaps nothing is ingested without a sequence number of its own.
rocksdb::Status Database::IngestExternalFile(CF* cf, std::vector<std::string> const& files,
                                             rocksdb::IngestExternalFileOptions const& o) {
  return parts_.writer->alone([&] {
    CacheSuspension const suspension(parts_.cache.get());
    return db_->IngestExternalFile(cf, files, o);
  });
}

rocksdb::Status Database::IngestExternalFiles(
    std::vector<rocksdb::IngestExternalFileArg> const& args) {
  return parts_.writer->alone([&] {
    CacheSuspension const suspension(parts_.cache.get());
    return db_->IngestExternalFiles(args);
  });
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

rocksdb::Status Database::GetSortedWalFiles(rocksdb::VectorLogPtr&) {
  return Status::NotSupported(
      "RocksDB's WAL has only what its own memtables took; take a "
      "checkpoint or a backup of the database instead");
}

rocksdb::Status Database::Resume() {
  if (parts_.flusher->is_uncertain()) return parts_.flusher->failure();
  Status const s = db_->Resume();
  parts_.flusher->notice();
  return s;
}

void Database::GetAllColumnFamilyMetaData(std::vector<rocksdb::ColumnFamilyMetaData>* metadata) {
  db_->GetAllColumnFamilyMetaData(metadata);
}

rocksdb::Status Database::GetStatsHistory(
    uint64_t begin, uint64_t end, std::unique_ptr<rocksdb::StatsHistoryIterator>* iterator) {
  return db_->GetStatsHistory(begin, end, iterator);
}

}  // namespace perdure::lsm
