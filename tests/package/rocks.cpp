// A user's program over RocksDB's interface: a large batch, read back, and by plain RocksDB.
#include <rocksdb/db.h>
#include <rocksdb/write_batch.h>

#include <cstdio>
#include <memory>
#include <string>

#include "perdure/rocks.h"

namespace {

int fail(rocksdb::Status const& status) {
  std::fprintf(stderr, "consumer_rocks: %s\n", status.ToString().c_str());
  return 1;
}

/// DB::Open() fills in a plain pointer up to RocksDB 10, and its owner from 11.0 on.
template <class Db>
rocksdb::Status open_plain(rocksdb::Options const& options, std::string const& path,
                           std::unique_ptr<Db>& db) {
  Db* plain = nullptr;
  if constexpr (requires { Db::Open(options, path, &plain); }) {
    rocksdb::Status status = Db::Open(options, path, &plain);
    db.reset(plain);
    return status;
  } else {
    return Db::Open(options, path, &db);
  }
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 2) return 2;
  std::string const path = arguments[1];
  rocksdb::Options options;
  options.create_if_missing = true;
  rocksdb::DB* opened = nullptr;
  auto s = perdure::rocks::open(options, {.device = perdure::rocks::Device::cpu, .threshold = 100},
                                path, &opened);
  if (!s.ok()) return fail(s);
  std::unique_ptr<rocksdb::DB> db(opened);
  rocksdb::WriteBatch batch;
  for (int i = 0; i < 1000; ++i)
    if (s = batch.Put(std::to_string(i), "value"); !s.ok()) return fail(s);
  if (s = db->Write(rocksdb::WriteOptions(), &batch); !s.ok()) return fail(s);
  std::string value;
  if (s = db->Get(rocksdb::ReadOptions(), "999", &value); !s.ok()) return fail(s);
  db.reset();
  if (s = open_plain(options, path, db); !s.ok()) return fail(s);
  if (s = db->Get(rocksdb::ReadOptions(), "999", &value); !s.ok()) return fail(s);
  return value == "value" ? 0 : 1;
}
