// Calls about files (flushes, compactions, checkpoints, backups, ingests) on databases whose
// memtables hold a batch of 20,000 operations: what they leave, plain RocksDB reads.
#include <rocksdb/convenience.h>
#include <rocksdb/sst_file_writer.h>
#include <rocksdb/utilities/backup_engine.h>
#include <rocksdb/utilities/checkpoint.h>

#include <filesystem>

#include "lsm/rocks/rocksdb_version.hpp"
#include "rocks/support/both.hpp"

namespace perdure::test {
namespace {

using RocksFiles = PopulatedDatabases;

TEST_F(RocksFiles, FlushBringsMemtablesToRocksdb) {
  alike("Flush", [](One& one, Transcript& said) {
    rocksdb::FlushOptions options;
    options.allow_write_stall = true;
    said.status(one.db->Flush(options));
    said.status(one.db->Flush(options, one.handles));
    said.status(one.db->Flush({}, Handles{}));
    std::string value;
    said.status(one.db->GetRootDB()->Get({}, both_key(1), &value)).bytes(value);
    options.wait = false;
    said.status(one.db->Put({}, "key", "value"));
    said.status(one.db->Flush(options));
  });
  contents_alike("flushed");
}

TEST_F(RocksFiles, CompactionsInAllTheirForms) {
  alike("compact", [](One& one, Transcript& said) {
    rocksdb::Slice const from("key000100"), to("key002000");
    said.status(one.db->CompactRange({}, nullptr, nullptr));
    said.status(one.db->CompactRange({}, one.counts(), &from, &to));
    said.status(one.db->SuggestCompactRange(one.appends(), &from, &to));
    rocksdb::WriteBatch batch;
    for (int i = 0; i < 1500; ++i) batch.Put(one.appends(), both_key(i), "again");
    said.status(one.db->Write({}, &batch)).status(one.db->Flush({}, one.appends()));
    rocksdb::ColumnFamilyMetaData files;
    one.db->GetColumnFamilyMetaData(one.appends(), &files);
    std::vector<std::string> names;
    for (auto const& level : files.levels)
      for (auto const& file : level.files) names.push_back(file.name);
    said.number(!names.empty());
    // Ingested files lie on the last level where nothing is in their way.
    said.status(one.db->CompactFiles({}, one.appends(), names, one.db->NumberLevels() - 1));
    rocksdb::CompactRangeOptions deep;
    deep.change_level = true;
    deep.target_level = 2;
    deep.bottommost_level_compaction = rocksdb::BottommostLevelCompaction::kForce;
    said.status(one.db->CompactRange(deep, one.counts(), nullptr, nullptr));
  });
  contents_alike("compacted");
  reopen();
  contents_alike("reopened");
}

TEST_F(RocksFiles, ACheckpointHasEverything) {
  alike("checkpoint", [this](One& one, Transcript& said) {
    for (std::uint64_t const log_bytes : {std::uint64_t{0}, std::uint64_t{1} << 30}) {
      std::string const path = one.path + "-checkpoint";
      rocksdb::Checkpoint* made = nullptr;
      said.status(rocksdb::Checkpoint::Create(one.db, &made));
      std::unique_ptr<rocksdb::Checkpoint> const checkpoint(made);
      said.status(checkpoint->CreateCheckpoint(path, log_bytes));
      tell_directory(path, families, said);
      said.status(checkpoint->CreateCheckpoint(path, log_bytes));  // it is there already
      remove_database(path);
      rocksdb::WriteBatch batch;
      for (int i = 0; i < 1500; ++i) batch.Put(both_key(i), "before the second");
      said.status(one.db->Write({}, &batch));
    }
  });
}

TEST_F(RocksFiles, AnExportedFamilyIsImportedElsewhere) {
  alike("export", [](One& one, Transcript& said) {
    std::string const path = one.path + "-export";
    rocksdb::Checkpoint* made = nullptr;
    said.status(rocksdb::Checkpoint::Create(one.db, &made));
    std::unique_ptr<rocksdb::Checkpoint> const checkpoint(made);
    rocksdb::ExportImportFilesMetaData* files = nullptr;
    said.status(checkpoint->ExportColumnFamily(one.counts(), path, &files));
    std::unique_ptr<rocksdb::ExportImportFilesMetaData> const owned(files);
    rocksdb::ColumnFamilyHandle* imported = nullptr;
    auto const options = one.db->GetOptions(one.counts());
    said.status(one.db->CreateColumnFamilyWithImport(options, "imported", {}, *files, &imported));
    std::unique_ptr<rocksdb::Iterator> it(one.db->NewIterator({}, imported));
    for (it->SeekToFirst(); it->Valid(); it->Next()) said.entry(it->key(), it->value());
    it.reset();
    said.status(one.db->Put({}, imported, "key", "goes on"));
    std::string value;
    said.status(one.db->Get({}, imported, "key", &value)).bytes(value);
    said.status(one.db->DestroyColumnFamilyHandle(imported));
    std::filesystem::remove_all(path);
  });
}

TEST_F(RocksFiles, ABackupIsRestoredWhole) {
  alike("backup", [this](One& one, Transcript& said) {
    std::string const path = one.path + "-backup", restored = one.path + "-restored";
    for (bool const flush_before : {true, false}) {
      rocksdb::BackupEngine* opened = nullptr;
      said.status(rocksdb::BackupEngine::Open(rocksdb::Env::Default(),
                                              rocksdb::BackupEngineOptions(path), &opened));
      std::unique_ptr<rocksdb::BackupEngine> const engine(opened);
      said.status(engine->CreateNewBackup(one.db, flush_before));
      said.status(engine->VerifyBackup(1));
      said.status(engine->RestoreDBFromLatestBackup(restored, restored));
      tell_directory(restored, families, said);
      std::filesystem::remove_all(restored);
      rocksdb::WriteBatch batch;
      for (int i = 0; i < 1500; ++i) batch.Put(both_key(i), "before the second");
      said.status(one.db->Write({}, &batch));
    }
    std::filesystem::remove_all(path);
  });
}

TEST_F(RocksFiles, LiveFilesAreACopyOfEverything) {
  alike("copy", [this](One& one, Transcript& said) {
    std::string const copy = one.path + "-copy";
    std::filesystem::create_directory(copy);
    said.status(one.db->DisableFileDeletions());
    std::vector<std::string> files;
    std::uint64_t manifest_bytes = 0;
    said.status(one.db->GetLiveFiles(files, &manifest_bytes, true));
    for (std::string const& file : files) std::filesystem::copy(one.path + file, copy + file);
    said.status(lsm::enable_file_deletions(*one.db));
    tell_directory(copy, families, said);
    std::filesystem::remove_all(copy);
  });
}

TEST_F(RocksFiles, FilesAreListedAndChecked) {
  alike("lists", [](One& one, Transcript& said) {
    said.status(one.db->Flush({}, one.handles));
    std::vector<rocksdb::LiveFileMetaData> files;
    one.db->GetLiveFilesMetaData(&files);
    std::uint64_t entries = 0;
    for (auto const& file : files)
      if (file.column_family_name == "default") entries += file.num_entries;
    said.number(entries >= 3000);
    std::vector<rocksdb::LiveFileStorageInfo> storage;
    said.status(one.db->GetLiveFilesStorageInfo({}, &storage)).number(storage.empty());
    std::vector<rocksdb::ColumnFamilyMetaData> all;
    one.db->GetAllColumnFamilyMetaData(&all);
    said.number(all.size());
    said.status(one.db->VerifyChecksum());
    said.status(one.db->VerifyFileChecksums({}));
    rocksdb::TablePropertiesCollection tables;
    said.status(one.db->GetPropertiesOfAllTables(one.counts(), &tables)).number(tables.empty());
    rocksdb::Range const range("key0001", "key0002");
    said.status(one.db->GetPropertiesOfTablesInRange(one.counts(), &range, 1, &tables));
#if PERDURE_ROCKSDB < 1000
    said.status(one.db->DeleteFile("no such file"));
#endif
    std::uint64_t time = 0;
    said.status(one.db->GetCreationTimeOfOldestFile(&time));
  });
}

TEST_F(RocksFiles, AnIngestedFileIsNewerThanMemtables) {
  alike("ingest", [](One& one, Transcript& said) {
    std::string const path = one.path + ".sst";
    for (bool const all_at_once : {false, true}) {
      rocksdb::SstFileWriter writer({}, rocksdb::Options({}, small_family_options()));
      said.status(writer.Open(path));
      for (int i = 100; i < 200; ++i) said.status(writer.Put(both_key(i), "ingested"));
      said.status(writer.Delete(both_key(300))).status(writer.Finish());
      rocksdb::IngestExternalFileArg arg;
      arg.column_family = one.plain();
      arg.external_files = {path};
      if (all_at_once)
        said.status(one.db->IngestExternalFiles({arg}));
      else
        said.status(one.db->IngestExternalFile({path}, {}));
      std::filesystem::remove(path);
      rocksdb::WriteBatch batch;
      for (int i = 150; i < 1650; ++i) batch.Put(both_key(i), "newer than the file");
      batch.Put(both_key(300), "newer than the file");
      said.status(one.db->Write({}, &batch));
    }
    said.status(one.db->IngestExternalFile({"/no/such/file"}, {}));
  });
  contents_alike("after both");
  reopen();
  contents_alike("reopened");
}

TEST_F(RocksFiles, DeletingWholeFilesOfARangeTouchesNothingElse) {
  alike("DeleteFilesInRange", [](One& one, Transcript& said) {
    said.status(one.db->Flush({}, one.handles));
    said.status(one.db->CompactRange({}, one.plain(), nullptr, nullptr));
    rocksdb::Slice const from("key009"), to("key010");
    said.status(rocksdb::DeleteFilesInRange(one.db, one.plain(), &from, &to));
  });
  contents_alike("afterwards");
}

TEST_F(RocksFiles, TheLogCallsMakeMemtablesDurable) {
  alike("logs", [](One& one, Transcript& said) {
    said.status(one.db->SyncWAL());
    said.status(one.db->FlushWAL(true));
    said.status(one.db->FlushWAL(false));
    said.status(one.db->LockWAL());
    said.status(one.db->UnlockWAL());
    std::unique_ptr<rocksdb::LogFile> log;
    said.status(one.db->GetCurrentWalFile(&log));
    said.status(one.db->Put({}, "key", "after them"));
  });
  contents_alike("afterwards");
}

TEST_F(RocksFiles, WritersGoOnWhileBackgroundWorkIsPaused) {
  alike("pause", [](One& one, Transcript& said) {
    said.status(one.db->PauseBackgroundWork());
    rocksdb::WriteBatch batch;
    for (int i = 0; i < 2000; ++i) batch.Put(both_key(i), "meanwhile");
    said.status(one.db->Write({}, &batch));
    said.status(one.db->ContinueBackgroundWork());
    said.status(one.db->Flush({}, one.handles));
    one.db->DisableManualCompaction();
    said.status(one.db->CompactRange({}, nullptr, nullptr));
    one.db->EnableManualCompaction();
    said.status(one.db->CompactRange({}, nullptr, nullptr));
    said.status(one.db->EnableAutoCompaction(one.handles));
  });
  contents_alike("afterwards");
}

}  // namespace
}  // namespace perdure::test
