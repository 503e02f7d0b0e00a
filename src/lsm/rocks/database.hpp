// The database that perdure::rocks::open() gives: RocksDB's interface over memtables and RocksDB.
// Each call is accelerated (memtables answer or take it), passed through, or passed through after a
// flush; docs/rocks.md has the table.
//
// Invariant: RocksDB gets its own snapshots, and users never do.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "exec/workers.hpp"
#include "lsm/rocks/counters.hpp"
#include "lsm/rocks/device_columns.hpp"
#include "lsm/rocks/families.hpp"
#include "lsm/rocks/flusher.hpp"
#include "lsm/rocks/hot_entries.hpp"
#include "lsm/rocks/read_rooms.hpp"
#include "lsm/rocks/reader.hpp"
#include "lsm/rocks/rocksdb_version.hpp"
#include "lsm/rocks/tables.hpp"
#include "lsm/rocks/transaction_store.hpp"
#include "lsm/rocks/writer.hpp"

namespace perdure::lsm {

/// What a database is made of, in the order in which it is made.
struct DatabaseParts {
  bool read_only = false;  // memtables are those that the opening found, and stay
  std::unique_ptr<exec::Workers> workers;
  // Writers' own, of which one appends at a time: reads of arrays keep the others busy, and all
  // other writers wait for the one.
  std::unique_ptr<exec::Workers> write_workers;
  std::unique_ptr<Engine> engine;
  std::unique_ptr<Gwal> gwal;
  std::unique_ptr<Families> families;
  std::unique_ptr<Counters> counters;
  std::unique_ptr<BlockCache> cache;  // null: there is none
  std::unique_ptr<Tables> tables;
  std::unique_ptr<Writer> writer;
  std::unique_ptr<HotEntries> hot;  // null: there is no block cache, or no room for them
  std::unique_ptr<Flusher> flusher;
  std::unique_ptr<Reader> reader;
  std::unique_ptr<ReadRooms> read_rooms = std::make_unique<ReadRooms>();
  std::unique_ptr<DeviceWays> device = std::make_unique<DeviceWays>();
};

class Database final : public TwoReads, public TransactionStore {
 public:
  using Status = rocksdb::Status;
  using Slice = rocksdb::Slice;
  using CF = rocksdb::ColumnFamilyHandle;
  using WriteOptions = rocksdb::WriteOptions;
  using ReadOptions = rocksdb::ReadOptions;

  /// Takes RocksDB.
  Database(rocksdb::DB* base, DatabaseParts parts, std::shared_ptr<FamilyListener> listener);
  ~Database() override;
  Status Close() override;
  /// RocksDB's own, after a flush: RocksDB's helpers (WriteBatchWithIndex among them) read it
  /// beside this interface.
  rocksdb::DB* GetRootDB() override;
  [[nodiscard]] DatabaseParts& parts() { return parts_; }

  // Writes.
  using DB::Put;
  Status Put(WriteOptions const& o, CF* cf, Slice const& key, Slice const& value) override;
  Status Put(WriteOptions const& o, CF* cf, Slice const& key, Slice const& timestamp,
             Slice const& value) override;
  using DB::PutEntity;
  Status PutEntity(WriteOptions const& o, CF* cf, Slice const& key,
                   rocksdb::WideColumns const& columns) override;
  using DB::Delete;
  Status Delete(WriteOptions const& o, CF* cf, Slice const& key) override;
  Status Delete(WriteOptions const& o, CF* cf, Slice const& key, Slice const& timestamp) override;
  using DB::SingleDelete;
  Status SingleDelete(WriteOptions const& o, CF* cf, Slice const& key) override;
  Status SingleDelete(WriteOptions const& o, CF* cf, Slice const& key,
                      Slice const& timestamp) override;
  using DB::DeleteRange;
  Status DeleteRange(WriteOptions const& o, CF* cf, Slice const& begin, Slice const& end) override;
  using DB::Merge;
  Status Merge(WriteOptions const& o, CF* cf, Slice const& key, Slice const& value) override;
  Status Write(WriteOptions const& o, rocksdb::WriteBatch* batch) override;

  // Reads.
  using DB::Get;
  Status Get(ReadOptions const& o, CF* cf, Slice const& key, rocksdb::PinnableSlice* value,
             std::string* timestamp) override;
  using DB::GetEntity;
  Status GetEntity(ReadOptions const& o, CF* cf, Slice const& key,
                   rocksdb::PinnableWideColumns* columns) override;
  using DB::GetMergeOperands;
  Status GetMergeOperands(ReadOptions const& o, CF* cf, Slice const& key,
                          rocksdb::PinnableSlice* slice, rocksdb::GetMergeOperandsOptions* how,
                          int* operands) override;
  using DB::MultiGet;
  void MultiGet(ReadOptions const& o, size_t n, CF** cfs, Slice const* keys,
                rocksdb::PinnableSlice* values, std::string* timestamps, Status* statuses,
                bool sorted) override;
  using DB::KeyMayExist;
  bool KeyMayExist(ReadOptions const& o, CF* cf, Slice const& key, std::string* value,
                   bool* value_found) override;
  using DB::NewIterator;
  rocksdb::Iterator* NewIterator(ReadOptions const& o, CF* cf) override;
  Status NewIterators(ReadOptions const& o, std::vector<CF*> const& cfs,
                      std::vector<rocksdb::Iterator*>* iterators) override;
  rocksdb::Snapshot const* GetSnapshot() override;
  void ReleaseSnapshot(rocksdb::Snapshot const* snapshot) override;
  rocksdb::SequenceNumber GetLatestSequenceNumber() const override;

  // For transactions.
  std::shared_ptr<rocksdb::Snapshot const> pin() override;
  Status unwritten(std::span<TrackedKey const> keys) override;
  Status write_if_unwritten(WriteOptions const& o, std::span<TrackedKey const> keys,
                            rocksdb::WriteBatch* batch) override;
  CF* rocksdb_handle(CF* handle) override;
  CF* rocksdb_handle(std::uint32_t family) override;
  std::shared_ptr<rocksdb::MergeOperator> merge_operator(CF* handle) override;
  rocksdb::Logger* logger() override { return logger_.get(); }

  // Column families.
  Status CreateColumnFamily(rocksdb::ColumnFamilyOptions const& options, std::string const& name,
                            CF** handle) override;
  Status CreateColumnFamilies(rocksdb::ColumnFamilyOptions const& options,
                              std::vector<std::string> const& names,
                              std::vector<CF*>* handles) override;
  Status CreateColumnFamilies(std::vector<rocksdb::ColumnFamilyDescriptor> const& families,
                              std::vector<CF*>* handles) override;
  using DB::CreateColumnFamilyWithImport;
  Status CreateColumnFamilyWithImport(rocksdb::ColumnFamilyOptions const& options,
                                      std::string const& name,
                                      rocksdb::ImportColumnFamilyOptions const& how,
                                      rocksdb::ExportImportFilesMetaData const& metadata,
                                      CF** handle) override;
  Status DropColumnFamily(CF* cf) override;
  Status DropColumnFamilies(std::vector<CF*> const& cfs) override;

  // After a flush, RocksDB's.
  using DB::Flush;
  Status Flush(rocksdb::FlushOptions const& o, CF* cf) override;
  Status Flush(rocksdb::FlushOptions const& o, std::vector<CF*> const& cfs) override;
  using DB::CompactRange;
  Status CompactRange(rocksdb::CompactRangeOptions const& o, CF* cf, Slice const* begin,
                      Slice const* end) override;
  using DB::CompactFiles;
  Status CompactFiles(rocksdb::CompactionOptions const& o, CF* cf,
                      std::vector<std::string> const& files, int level, int path,
                      std::vector<std::string>* const outputs,
                      rocksdb::CompactionJobInfo* info) override;
  Status SuggestCompactRange(CF* cf, Slice const* begin, Slice const* end) override;
  Status PromoteL0(CF* cf, int level) override;
  using DB::IngestExternalFile;
  Status IngestExternalFile(CF* cf, std::vector<std::string> const& files,
                            rocksdb::IngestExternalFileOptions const& o) override;
  using DB::IngestExternalFiles;
  Status IngestExternalFiles(std::vector<rocksdb::IngestExternalFileArg> const& args) override;
  Status GetLiveFiles(std::vector<std::string>& files, uint64_t* manifest_bytes,
                      bool flush) override;
  Status GetLiveFilesStorageInfo(rocksdb::LiveFilesStorageInfoOptions const& o,
                                 std::vector<rocksdb::LiveFileStorageInfo>* files) override;
  Status SyncWAL() override;
  Status FlushWAL(bool sync) override;
  Status GetSortedWalFiles(rocksdb::VectorLogPtr& files) override;
  Status GetUpdatesSince(rocksdb::SequenceNumber sequence,
                         std::unique_ptr<rocksdb::TransactionLogIterator>* iterator,
                         rocksdb::TransactionLogIterator::ReadOptions const& o) override;
  Status Resume() override;

  // RocksDB's, and what memtables add.
  using DB::GetProperty;
  bool GetProperty(CF* cf, Slice const& property, std::string* value) override;
  using DB::GetIntProperty;
  bool GetIntProperty(CF* cf, Slice const& property, uint64_t* value) override;
  bool GetAggregatedIntProperty(Slice const& property, uint64_t* value) override;
  using DB::GetApproximateSizes;
  Status GetApproximateSizes(rocksdb::SizeApproximationOptions const& o, CF* cf,
                             rocksdb::Range const* ranges, int n, uint64_t* sizes) override;
  using DB::GetApproximateMemTableStats;
  void GetApproximateMemTableStats(CF* cf, rocksdb::Range const& range, uint64_t* const count,
                                   uint64_t* const size) override;
  void GetAllColumnFamilyMetaData(std::vector<rocksdb::ColumnFamilyMetaData>* metadata) override;
  Status GetStatsHistory(uint64_t begin, uint64_t end,
                         std::unique_ptr<rocksdb::StatsHistoryIterator>* iterator) override;

  // What newer versions of RocksDB have beside. StackableDB takes it to RocksDB, past memtables.
#if PERDURE_ROCKSDB >= 709
  Status Merge(WriteOptions const& o, CF* cf, Slice const& key, Slice const& timestamp,
               Slice const& value) override;
#endif
#if PERDURE_ROCKSDB >= 800
  using DB::MultiGetEntity;
  void MultiGetEntity(ReadOptions const& o, CF* cf, size_t n, Slice const* keys,
                      rocksdb::PinnableWideColumns* results, Status* statuses,
                      bool sorted) override;
  void MultiGetEntity(ReadOptions const& o, size_t n, CF** cfs, Slice const* keys,
                      rocksdb::PinnableWideColumns* results, Status* statuses,
                      bool sorted) override;
#endif
#if PERDURE_ROCKSDB >= 809
  Status GetEntity(ReadOptions const& o, Slice const& key,
                   rocksdb::PinnableAttributeGroups* groups) override;
  void MultiGetEntity(ReadOptions const& o, size_t n, Slice const* keys,
                      rocksdb::PinnableAttributeGroups* groups) override;
  Status PutEntity(WriteOptions const& o, Slice const& key,
                   rocksdb::AttributeGroups const& groups) override;
  using DB::ClipColumnFamily;
  Status ClipColumnFamily(CF* cf, Slice const& begin, Slice const& end) override;
  Status CreateColumnFamilyWithImport(
      rocksdb::ColumnFamilyOptions const& options, std::string const& name,
      rocksdb::ImportColumnFamilyOptions const& how,
      std::vector<rocksdb::ExportImportFilesMetaData const*> const& metadata, CF** handle) override;
  Status WaitForCompact(rocksdb::WaitForCompactOptions const& o) override;
#endif
#if PERDURE_ROCKSDB >= 902
  std::unique_ptr<rocksdb::Iterator> NewCoalescingIterator(ReadOptions const& o,
                                                           std::vector<CF*> const& cfs) override;
  std::unique_ptr<rocksdb::AttributeGroupIterator> NewAttributeGroupIterator(
      ReadOptions const& o, std::vector<CF*> const& cfs) override;
#endif
#if PERDURE_ROCKSDB >= 1002
  using DB::NewMultiScan;
  std::unique_ptr<rocksdb::MultiScan> NewMultiScan(ReadOptions const& o, CF* cf,
                                                   ScanRanges const& ranges) override;
#endif
#if PERDURE_ROCKSDB >= 1008
  Status FlushWAL(rocksdb::FlushWALOptions const& o) override;
#endif
#if PERDURE_ROCKSDB >= 1105
  using DB::CommitFileIngestionHandles;
  Status CommitFileIngestionHandles(
      std::vector<std::unique_ptr<rocksdb::FileIngestionHandle>> handles) override;
#endif

 private:
  rocksdb::Iterator* iterate(ReadOptions const& o, CF* cf, Sight sight);
  void adopt(std::vector<CF*> const& handles,
             std::vector<rocksdb::ColumnFamilyDescriptor> const& families);
  void handle_deleted(CF* handle);
  Status merged_entity(ReadOptions const& o, CF* cf, Slice const& key,
                       rocksdb::PinnableWideColumns* columns);
  [[nodiscard]] bool own_property(Slice const& property, std::uint64_t* value) const;
  void shut();

  DatabaseParts parts_;
  std::shared_ptr<FamilyListener> listener_;
  std::shared_ptr<rocksdb::Logger> logger_;
  bool closed_ = false;
};

}  // namespace perdure::lsm
