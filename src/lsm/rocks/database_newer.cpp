// Calls that RocksDB has got since 7.8. Reads of one key at a time answer from memtables first;
// what looks at several families as one is RocksDB's, after a flush.
#include <utility>

#include "lsm/rocks/database.hpp"

namespace perdure::lsm {

#if PERDURE_ROCKSDB >= 709
rocksdb::Status Database::Merge(WriteOptions const& o, CF* cf, Slice const& key,
                                Slice const& timestamp, Slice const& value) {
  return parts_.writer->write_alone(
      o, [&](WriteOptions const& how) { return db_->Merge(how, cf, key, timestamp, value); });
}
#endif

#if PERDURE_ROCKSDB >= 800
void Database::MultiGetEntity(ReadOptions const& o, CF* cf, size_t n, Slice const* keys,
                              rocksdb::PinnableWideColumns* results, Status* statuses,
                              bool sorted) {
  std::vector<CF*> families(n, cf);
  MultiGetEntity(o, n, families.data(), keys, results, statuses, sorted);
}

/// All at one snapshot.
void Database::MultiGetEntity(ReadOptions const& o, size_t n, CF** cfs, Slice const* keys,
                              rocksdb::PinnableWideColumns* results, Status* statuses,
                              bool sorted) {
  if (o.snapshot == nullptr && parts_.reader->sight(o).view == nullptr)
    return db_->MultiGetEntity(o, n, cfs, keys, results, statuses, sorted);
  ReadOptions options = o;
  std::unique_ptr<ViewSnapshot> snapshot;
  if (o.snapshot == nullptr) {
    snapshot = parts_.tables->snapshot();
    options.snapshot = snapshot.get();
  }
  for (size_t i = 0; i < n; ++i) statuses[i] = GetEntity(options, cfs[i], keys[i], &results[i]);
}
#endif

#if PERDURE_ROCKSDB >= 809
namespace {

/// Asks for the groups of all keys with one call of `read`, which has the form of MultiGetEntity().
template <class Read>
void read_groups(size_t n, rocksdb::Slice const* keys, rocksdb::PinnableAttributeGroups* groups,
                 Read const& read) {
  std::vector<rocksdb::ColumnFamilyHandle*> families;
  std::vector<rocksdb::Slice> asked;
  std::vector<rocksdb::PinnableAttributeGroup*> places;
  for (size_t i = 0; i < n; ++i) {
    for (rocksdb::PinnableAttributeGroup& group : groups[i]) {
      group.Reset();
      if (group.column_family() == nullptr) {
        group.SetStatus(rocksdb::Status::InvalidArgument("a group without a column family"));
        continue;
      }
      families.push_back(group.column_family());
      asked.push_back(keys[i]);
      places.push_back(&group);
    }
  }
  std::vector<rocksdb::PinnableWideColumns> found(asked.size());
  std::vector<rocksdb::Status> statuses(asked.size());
  read(asked.size(), families.data(), asked.data(), found.data(), statuses.data());
  for (size_t i = 0; i < places.size(); ++i) {
    places[i]->SetStatus(statuses[i]);
    if (statuses[i].ok()) places[i]->SetColumns(std::move(found[i]));
  }
}

}  // namespace

void Database::MultiGetEntity(ReadOptions const& o, size_t n, Slice const* keys,
                              rocksdb::PinnableAttributeGroups* groups) {
  read_groups(n, keys, groups,
              [&](auto... arguments) { MultiGetEntity(o, arguments..., /* sorted */ false); });
}

rocksdb::Status Database::GetEntity(ReadOptions const& o, Slice const& key,
                                    rocksdb::PinnableAttributeGroups* groups) {
  if (groups == nullptr) return Status::InvalidArgument("GetEntity() without groups to read");
  MultiGetEntity(o, 1, &key, groups);
  return Status::OK();
}

rocksdb::Status Database::PutEntity(WriteOptions const& o, Slice const& key,
                                    rocksdb::AttributeGroups const& groups) {
  return parts_.writer->write_alone(
      o, [&](WriteOptions const& how) { return db_->PutEntity(how, key, groups); });
}

rocksdb::Status Database::ClipColumnFamily(CF* cf, Slice const& begin, Slice const& end) {
  return parts_.writer->alone([&] { return db_->ClipColumnFamily(cf, begin, end); });
}

rocksdb::Status Database::CreateColumnFamilyWithImport(
    rocksdb::ColumnFamilyOptions const& options, std::string const& name,
    rocksdb::ImportColumnFamilyOptions const& how,
    std::vector<rocksdb::ExportImportFilesMetaData const*> const& metadata, CF** handle) {
  return parts_.writer->alone([&] {
    Status const s = db_->CreateColumnFamilyWithImport(options, name, how, metadata, handle);
    if (s.ok()) adopt({*handle}, {{name, options}});
    return s;
  });
}

rocksdb::Status Database::WaitForCompact(rocksdb::WaitForCompactOptions const& o) {
  if (auto s = parts_.writer->flush(); !s.ok()) return s;
  rocksdb::WaitForCompactOptions wait = o;
  wait.close_db = false;  // what stands on RocksDB closes first
  if (auto s = db_->WaitForCompact(wait); !s.ok()) return s;
  return o.close_db ? Close() : Status::OK();
}
#endif

#if PERDURE_ROCKSDB >= 902
namespace {

/// `read` by RocksDB alone, where that has all that is in sight of these families.
template <class Read>
rocksdb::Status read_flushed(DatabaseParts& parts, rocksdb::ReadOptions const& o,
                             std::vector<rocksdb::ColumnFamilyHandle*> const& cfs,
                             Read const& read) {
  if (o.snapshot == nullptr)
    return parts.writer->alone([&] {
      read(o);
      return rocksdb::Status::OK();
    });
  Sight const sight = parts.reader->sight(o);
  if (!sight.refusal.ok()) return sight.refusal;
  for (rocksdb::ColumnFamilyHandle* const cf : cfs)
    if (!sight.view->runs(cf->GetID()).empty())
      return rocksdb::Status::NotSupported(
          "iterators over several families as one, of a snapshot that sees memtables");
  read(sight.options);
  return rocksdb::Status::OK();
}

}  // namespace

std::unique_ptr<rocksdb::Iterator> Database::NewCoalescingIterator(ReadOptions const& o,
                                                                   std::vector<CF*> const& cfs) {
  std::unique_ptr<rocksdb::Iterator> made;
  Status const s = read_flushed(
      parts_, o, cfs, [&](ReadOptions const& now) { made = db_->NewCoalescingIterator(now, cfs); });
  if (!s.ok()) made.reset(rocksdb::NewErrorIterator(s));
  return made;
}

std::unique_ptr<rocksdb::AttributeGroupIterator> Database::NewAttributeGroupIterator(
    ReadOptions const& o, std::vector<CF*> const& cfs) {
  std::unique_ptr<rocksdb::AttributeGroupIterator> made;
  Status const s = read_flushed(parts_, o, cfs, [&](ReadOptions const& now) {
    made = db_->NewAttributeGroupIterator(now, cfs);
  });
  if (!s.ok()) made = std::make_unique<RefusedGroups>(s);
  return made;
}
#endif

#if PERDURE_ROCKSDB >= 1002
std::unique_ptr<rocksdb::MultiScan> Database::NewMultiScan(ReadOptions const& o, CF* cf,
                                                           ScanRanges const& ranges) {
  return scan_of(*this, o, cf, ranges);
}
#endif

#if PERDURE_ROCKSDB >= 1008
rocksdb::Status Database::FlushWAL(rocksdb::FlushWALOptions const& o) {
  if (o.sync) {
    if (auto s = parts_.writer->flush(); !s.ok()) return s;
  }
  return db_->FlushWAL(o);
}
#endif

#if PERDURE_ROCKSDB >= 1105
rocksdb::Status Database::CommitFileIngestionHandles(
    std::vector<std::unique_ptr<rocksdb::FileIngestionHandle>> handles) {
  return parts_.writer->alone([&] { return db_->CommitFileIngestionHandles(std::move(handles)); });
}
#endif

}  // namespace perdure::lsm
