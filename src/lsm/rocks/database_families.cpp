// Column families: made, dropped, and what becomes of a handle that a user deletes.
#include <utility>

#include "lsm/rocks/database.hpp"
#include "lsm/rocks/status.hpp"

namespace perdure::lsm {

/// Families that were made just now: the handles are the user's.
void Database::adopt(std::vector<CF*> const& handles,
                     std::vector<rocksdb::ColumnFamilyDescriptor> const& families) {
  for (std::size_t i = 0; i < handles.size(); ++i)
    parts_.families->add(handles[i], families[i].options, false);
}

/// The user deletes the handle that a family is flushed by: nobody writes to it or reads it any
/// more, and what memtables have of it becomes RocksDB's first.
void Database::handle_deleted(CF* handle) {
  if (!parts_.families->uses(handle)) return;
  if (auto s = parts_.writer->flush(); !s.ok())
    rocksdb::Error(db_->GetDBOptions().info_log.get(),
                   "perdure: column family %s: its handle goes before its memtables could be "
                   "flushed; they are in the G-WAL: %s",
                   handle->GetName().c_str(), s.ToString().c_str());
  parts_.families->forget(handle);
}

rocksdb::Status Database::CreateColumnFamily(rocksdb::ColumnFamilyOptions const& options,
                                             std::string const& name, CF** handle) {
  if (parts_.read_only) return refused_when_read_only();
  Status const s = db_->CreateColumnFamily(options, name, handle);
  if (s.ok()) adopt({*handle}, {{name, options}});
  return s;
}

/// Those that were made before one failed are there, as RocksDB has it.
rocksdb::Status Database::CreateColumnFamilies(rocksdb::ColumnFamilyOptions const& options,
                                               std::vector<std::string> const& names,
                                               std::vector<CF*>* handles) {
  if (parts_.read_only) return refused_when_read_only();
  Status const s = db_->CreateColumnFamilies(options, names, handles);
  std::vector<rocksdb::ColumnFamilyDescriptor> families;
  for (std::string const& name : names) families.emplace_back(name, options);
  adopt(*handles, families);
  return s;
}

rocksdb::Status Database::CreateColumnFamilies(
    std::vector<rocksdb::ColumnFamilyDescriptor> const& families, std::vector<CF*>* handles) {
  if (parts_.read_only) return refused_when_read_only();
  Status const s = db_->CreateColumnFamilies(families, handles);
  adopt(*handles, families);
  return s;
}

rocksdb::Status Database::CreateColumnFamilyWithImport(
    rocksdb::ColumnFamilyOptions const& options, std::string const& name,
    rocksdb::ImportColumnFamilyOptions const& how,
    rocksdb::ExportImportFilesMetaData const& metadata, CF** handle) {
  return parts_.writer->alone([&] {
    Status const s = db_->CreateColumnFamilyWithImport(options, name, how, metadata, handle);
    if (s.ok()) adopt({*handle}, {{name, options}});
    return s;
  });
}

/// What memtables hold of it goes with them: flushes leave dropped families out.
rocksdb::Status Database::DropColumnFamily(CF* cf) { return DropColumnFamilies({cf}); }

rocksdb::Status Database::DropColumnFamilies(std::vector<CF*> const& cfs) {
  return parts_.writer->alone([&] {
    Status const s = db_->DropColumnFamilies(cfs);
    if (s.ok())
      for (CF* const cf : cfs) parts_.families->drop(cf->GetID());
    return s;
  });
}

}  // namespace perdure::lsm
