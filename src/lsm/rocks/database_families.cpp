// Column families: made, dropped, and what users hold of them.
#include <utility>

#include "lsm/rocks/database.hpp"

namespace perdure::lsm {

/// RocksDB's handle stays here; the user gets one of ours.
rocksdb::ColumnFamilyHandle* Database::adopt(CF* base,
                                             rocksdb::ColumnFamilyOptions const& options) {
  return new Handle(parts_.families->add(base, options, true));
}

rocksdb::Status Database::CreateColumnFamily(rocksdb::ColumnFamilyOptions const& options,
                                             std::string const& name, CF** handle) {
  CF* base = nullptr;
  Status const s = db_->CreateColumnFamily(options, name, &base);
  if (s.ok()) *handle = adopt(base, options);
  return s;
}

/// Those that were made before one failed are there, as RocksDB has it.
template <class Create>
rocksdb::Status Database::create_families(
    std::vector<rocksdb::ColumnFamilyDescriptor> const& families, std::vector<CF*>* handles,
    Create create) {
  std::vector<CF*> base;
  Status const s = create(&base);
  handles->clear();
  for (std::size_t i = 0; i < base.size(); ++i)
    handles->push_back(adopt(base[i], families[i].options));
  return s;
}

rocksdb::Status Database::CreateColumnFamilies(rocksdb::ColumnFamilyOptions const& options,
                                               std::vector<std::string> const& names,
                                               std::vector<CF*>* handles) {
  std::vector<rocksdb::ColumnFamilyDescriptor> families;
  for (std::string const& name : names) families.emplace_back(name, options);
  return create_families(families, handles, [&](std::vector<CF*>* base) {
    return db_->CreateColumnFamilies(options, names, base);
  });
}

rocksdb::Status Database::CreateColumnFamilies(
    std::vector<rocksdb::ColumnFamilyDescriptor> const& families, std::vector<CF*>* handles) {
  return create_families(families, handles, [&](std::vector<CF*>* base) {
    return db_->CreateColumnFamilies(families, base);
  });
}

rocksdb::Status Database::CreateColumnFamilyWithImport(
    rocksdb::ColumnFamilyOptions const& options, std::string const& name,
    rocksdb::ImportColumnFamilyOptions const& how,
    rocksdb::ExportImportFilesMetaData const& metadata, CF** handle) {
  return parts_.writer->alone([&] {
    CF* base = nullptr;
    Status const s = db_->CreateColumnFamilyWithImport(options, name, how, metadata, &base);
    if (s.ok()) *handle = adopt(base, options);
    return s;
  });
}

/// What memtables hold of it goes with them: flushes leave dropped families out.
rocksdb::Status Database::DropColumnFamily(CF* cf) { return DropColumnFamilies({cf}); }

rocksdb::Status Database::DropColumnFamilies(std::vector<CF*> const& cfs) {
  return parts_.writer->alone([&] {
    Status const s = db_->DropColumnFamilies(unwrap(cfs));
    if (s.ok())
      for (CF* const cf : cfs) parts_.families->drop(cf->GetID());
    return s;
  });
}

rocksdb::Status Database::DestroyColumnFamilyHandle(CF* cf) {
  if (cf == DefaultColumnFamily())
    return Status::InvalidArgument("Cannot destroy the handle returned by DefaultColumnFamily()");
  delete cf;
  return Status::OK();
}

}  // namespace perdure::lsm
