// A program that knows RocksDB alone, by its C++ and its C interface: what preload_test.cpp runs
// with the preload library and without it. Its first word is a verb, its second the database.
#include <rocksdb/c.h>
#include <rocksdb/db.h>
#include <rocksdb/utilities/db_ttl.h>
#include <rocksdb/utilities/optimistic_transaction_db.h>
#include <rocksdb/utilities/stackable_db.h>
#include <rocksdb/utilities/transaction_db.h>
#include <signal.h>

#include <cstdio>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "lsm/rocks/rocksdb_version.hpp"

namespace {

using perdure::lsm::open_rocksdb;
using perdure::lsm::open_to_read;
using rocksdb::Status;
using Families = std::vector<rocksdb::ColumnFamilyDescriptor>;

constexpr int kPairs = 20'000;  // more than one batch needs to be taken by memtables

int failed(std::string const& why) {
  std::printf("failed: %s\n", why.c_str());
  return 1;
}

rocksdb::Options options() {
  rocksdb::Options options;
  options.create_if_missing = true;
  options.allow_fallocate = false;
  return options;
}

int say_kind(Status const& status, rocksdb::DB* opened) {
  if (!status.ok()) return failed(status.ToString());
  std::unique_ptr<rocksdb::DB> const db(opened);
  std::printf("%s\n", dynamic_cast<rocksdb::StackableDB*>(opened) != nullptr ? "perdure" : "plain");
  return 0;
}

int kind(std::string const& path) {
  rocksdb::DB* db = nullptr;
  Status const status = open_rocksdb(&db, options(), path);
  return say_kind(status, db);
}

int kind_of_families(std::string const& path) {
  rocksdb::DB* db = nullptr;
  std::vector<rocksdb::ColumnFamilyHandle*> handles;
  auto how = options();
  how.create_missing_column_families = true;
  Status const status =
      open_rocksdb(&db, how, path, Families{{"default", how}, {"other", how}}, &handles);
  for (auto* const handle : handles) db->DestroyColumnFamilyHandle(handle);
  return say_kind(status, db);
}

Status write_all(rocksdb::DB& db) {
  rocksdb::WriteBatch batch;
  for (int i = 0; i < kPairs; ++i) batch.Put("key" + std::to_string(i), std::to_string(i));
  return db.Write({}, &batch);
}

int write_and_be_killed(std::string const& path) {
  rocksdb::DB* db = nullptr;
  if (auto s = open_rocksdb(&db, options(), path); !s.ok()) return failed(s.ToString());
  if (auto s = write_all(*db); !s.ok()) return failed(s.ToString());
  std::printf("written\n");
  std::fflush(stdout);
  raise(SIGKILL);
  return 1;
}

int count_in(Status const& status, rocksdb::DB* opened) {
  if (!status.ok()) return failed(status.ToString());
  std::unique_ptr<rocksdb::DB> const db(opened);
  std::unique_ptr<rocksdb::Iterator> const iterator(db->NewIterator({}));
  int count = 0;
  for (iterator->SeekToFirst(); iterator->Valid(); iterator->Next()) ++count;
  std::printf("%d\n", count);
  return 0;
}

int count(std::string const& path) {
  rocksdb::DB* db = nullptr;
  Status const status = open_rocksdb(&db, options(), path);
  return count_in(status, db);
}

int count_read_only(std::string const& path) {
  rocksdb::DB* db = nullptr;
  Status const status = open_to_read(&db, options(), path);
  return count_in(status, db);
}

/// Twice, in databases of their own: what is said is said once.
template <class Database, class Open>
int open_twice(std::string const& path, Open const& open) {
  for (char const* const suffix : {"", "2"}) {
    Database* db = nullptr;
    if (Status const s = open(path + suffix, &db); !s.ok()) return failed(s.ToString());
    std::unique_ptr<Database> const owned(db);
    if (auto s = db->Put({}, "k", "v"); !s.ok()) return failed(s.ToString());
  }
  std::printf("opened\n");
  return 0;
}

int transactions(std::string const& path) {
  return open_twice<rocksdb::TransactionDB>(
      path, [](std::string const& name, rocksdb::TransactionDB** db) {
        return rocksdb::TransactionDB::Open(options(), {}, name, db);
      });
}

int optimistic(std::string const& path) {
  return open_twice<rocksdb::OptimisticTransactionDB>(
      path, [](std::string const& name, rocksdb::OptimisticTransactionDB** db) {
        return rocksdb::OptimisticTransactionDB::Open(options(), name, db);
      });
}

int with_ttl(std::string const& path) {
  return open_twice<rocksdb::DBWithTTL>(path, [](std::string const& name, rocksdb::DBWithTTL** db) {
    return rocksdb::DBWithTTL::Open(options(), name, db);
  });
}

/// Writes and reads all by the C interface.
int by_c(std::string const& path) {
  char* error = nullptr;
  rocksdb_options_t* const how = rocksdb_options_create();
  rocksdb_options_set_create_if_missing(how, 1);
  rocksdb_t* const db = rocksdb_open(how, path.c_str(), &error);
  if (error != nullptr) return failed(error);
  rocksdb_writebatch_t* const batch = rocksdb_writebatch_create();
  for (int i = 0; i < kPairs; ++i) {
    std::string const key = "key" + std::to_string(i);
    rocksdb_writebatch_put(batch, key.data(), key.size(), key.data() + 3, key.size() - 3);
  }
  rocksdb_writeoptions_t* const write = rocksdb_writeoptions_create();
  rocksdb_write(db, write, batch, &error);
  if (error != nullptr) return failed(error);
  rocksdb_readoptions_t* const read = rocksdb_readoptions_create();
  std::size_t size = 0;
  char* const value = rocksdb_get(db, read, "key777", 6, &size, &error);
  std::printf("%.*s\n", static_cast<int>(size), value);
  rocksdb_free(value);
  rocksdb_readoptions_destroy(read);
  rocksdb_writeoptions_destroy(write);
  rocksdb_writebatch_destroy(batch);
  rocksdb_close(db);
  rocksdb_options_destroy(how);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  static std::map<std::string, int (*)(std::string const&)> const verbs{
      {"kind", kind},
      {"kind-of-families", kind_of_families},
      {"write-and-be-killed", write_and_be_killed},
      {"count", count},
      {"count-read-only", count_read_only},
      {"transactions", transactions},
      {"optimistic", optimistic},
      {"with-ttl", with_ttl},
      {"by-c", by_c}};
  if (argc != 3 || verbs.count(argv[1]) == 0) return failed("which verb?");
  return verbs.at(argv[1])(argv[2]);
}
