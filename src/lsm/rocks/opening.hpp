// What openings that write (open.cpp) and those that only read (open_read_only.cpp) have in common.
#pragma once

#include <rocksdb/db.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "lsm/rocks/database.hpp"
#include "perdure/rocks.h"

namespace perdure::lsm {

/// What can be said of the options alone.
Status check_gpu_options(rocks::GpuOptions const& gpu);
[[nodiscard]] std::uint64_t memtable_bytes(rocks::GpuOptions const& gpu, rocksdb::DB& base);
/// Of a directory that an option (by its name) gives.
Status check_outside(std::string const& directory, char const* option, std::string const& path);
[[nodiscard]] std::string log_directory_of(rocks::GpuOptions const& gpu, std::string const& path);

/// Workers, and the engine that works with them.
Status make_machine(DatabaseParts& parts, rocks::GpuOptions const& gpu, rocksdb::Logger* log);
/// Of the machine's parts and RocksDB's identity.
Result<GwalOptions> gwal_options(DatabaseParts const& parts, rocksdb::DB& base,
                                 rocks::GpuOptions const& gpu, std::string const& path);
/// All that stands on the machine and the log. `flushes`: a directory for the flusher's files.
void make_store(DatabaseParts& parts, rocksdb::DB& base, rocks::GpuOptions const& gpu,
                std::string flushes, Writer::Options const& options);
/// What the G-WAL has and RocksDB lacks becomes sealed memtables.
Status recover(DatabaseParts& parts, rocksdb::DB& base, rocksdb::Logger* log);

/// What RocksDB opens, with each family asked for twice: the first handle is the user's, the second
/// ours.
struct Base {
  Base() = default;
  Base(Base const&) = delete;
  Base& operator=(Base const&) = delete;
  ~Base() {
    if (db != nullptr) close();
  }

  std::unique_ptr<rocksdb::DB> db;
  std::vector<rocksdb::ColumnFamilyHandle*> users, ours;

  void close() {
    for (auto* const handles : {&users, &ours})
      for (rocksdb::ColumnFamilyHandle* const handle : *handles)
        db->DestroyColumnFamilyHandle(handle).PermitUncheckedError();
    users.clear();
    ours.clear();
    db = nullptr;
  }
};

using Descriptors = std::vector<rocksdb::ColumnFamilyDescriptor>;
/// open(&db, families twice, &handles).
template <class Open>
rocksdb::Status open_base(Descriptors const& families, Base& base, Open const& open) {
  Descriptors twice = families;
  twice.insert(twice.end(), families.begin(), families.end());
  rocksdb::DB* db = nullptr;
  std::vector<rocksdb::ColumnFamilyHandle*> handles;
  rocksdb::Status const s = open(&db, twice, &handles);
  if (!s.ok()) return s;
  base.db.reset(db);
  auto const half = handles.begin() + static_cast<std::ptrdiff_t>(handles.size() / 2);
  base.users.assign(handles.begin(), half);
  base.ours.assign(half, handles.end());
  return s;
}
void add_families(Base const& base, Descriptors const& families, Families& known);
/// Of an opening that fails.
void give_up(DatabaseParts parts, Base& base);

}  // namespace perdure::lsm
