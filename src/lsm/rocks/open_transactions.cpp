// Databases with transactions, over open().
#include <memory>

#include "perdure/rocks.h"

namespace perdure::rocks {
namespace {

/// `wrap` takes the database where it succeeds. Handles go with a database that it refuses.
template <class Wrap>
rocksdb::Status finish(rocksdb::DB* base, std::vector<rocksdb::ColumnFamilyHandle*>* handles,
                       Wrap const& wrap) {
  rocksdb::Status status = wrap(base, *handles);
  if (status.ok()) return status;
  for (rocksdb::ColumnFamilyHandle* const handle : *handles)
    base->DestroyColumnFamilyHandle(handle).PermitUncheckedError();
  handles->clear();
  delete base;
  return status;
}

}  // namespace

rocksdb::Status open_transactions(rocksdb::Options const& options, GpuOptions const& gpu,
                                  rocksdb::TransactionDBOptions const& transactions,
                                  std::string const& path, rocksdb::TransactionDB** db) {
  *db = nullptr;
  rocksdb::DB* base = nullptr;
  rocksdb::Status status = open(options, gpu, path, &base);
  if (!status.ok()) return status;
  std::vector<rocksdb::ColumnFamilyHandle*> none;
  return finish(base, &none, [&](auto* below, auto const& handles) {
    return wrap_transactions(below, transactions, handles, db);
  });
}

rocksdb::Status open_transactions(rocksdb::DBOptions const& options, GpuOptions const& gpu,
                                  rocksdb::TransactionDBOptions const& transactions,
                                  std::string const& path,
                                  std::vector<rocksdb::ColumnFamilyDescriptor> const& families,
                                  std::vector<rocksdb::ColumnFamilyHandle*>* handles,
                                  rocksdb::TransactionDB** db) {
  *db = nullptr;
  rocksdb::DB* base = nullptr;
  rocksdb::Status status = open(options, gpu, path, families, handles, &base);
  if (!status.ok()) return status;
  return finish(base, handles, [&](auto* below, auto const& all) {
    return wrap_transactions(below, transactions, all, db);
  });
}

rocksdb::Status open_optimistic_transactions(rocksdb::Options const& options, GpuOptions const& gpu,
                                             std::string const& path,
                                             rocksdb::OptimisticTransactionDB** db) {
  *db = nullptr;
  rocksdb::DB* base = nullptr;
  rocksdb::Status status = open(options, gpu, path, &base);
  if (!status.ok()) return status;
  std::vector<rocksdb::ColumnFamilyHandle*> none;
  return finish(base, &none, [&](auto* below, auto const& handles) {
    return wrap_optimistic_transactions(below, handles, db);
  });
}

rocksdb::Status open_optimistic_transactions(
    rocksdb::DBOptions const& options, GpuOptions const& gpu, std::string const& path,
    std::vector<rocksdb::ColumnFamilyDescriptor> const& families,
    std::vector<rocksdb::ColumnFamilyHandle*>* handles, rocksdb::OptimisticTransactionDB** db) {
  *db = nullptr;
  rocksdb::DB* base = nullptr;
  rocksdb::Status status = open(options, gpu, path, families, handles, &base);
  if (!status.ok()) return status;
  return finish(base, handles, [&](auto* below, auto const& all) {
    return wrap_optimistic_transactions(below, all, db);
  });
}

}  // namespace perdure::rocks
