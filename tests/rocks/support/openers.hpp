// What opens a database for a test that compares: plain RocksDB, perdure::rocks, or either with a
// fault planted (faults.hpp). Tests know a rocksdb::DB alone, so each of them runs against all.
#pragma once

#include <rocksdb/db.h>

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "perdure/rocks.h"

namespace perdure::test {

using Families = std::vector<rocksdb::ColumnFamilyDescriptor>;
using Handles = std::vector<rocksdb::ColumnFamilyHandle*>;

struct Opener {
  using Open = std::function<rocksdb::Status(rocksdb::DBOptions const&, std::string const& path,
                                             Families const&, Handles*, rocksdb::DB**)>;
  std::string name;
  Open open;
};

struct BlockCacheSize {
  std::uint64_t bytes = std::uint64_t{1} << 20;
  std::uint32_t entry_bytes = 128;
};

Opener plain_rocksdb();
/// With memtables that take all batches of `threshold` operations or more, and of which so many
/// bytes are sealed, or that have had no batch for so long, and which keep values of up to so many
/// bytes themselves.
Opener perdure_rocks(std::uint64_t threshold, std::uint64_t memtable_bytes,
                     std::chrono::milliseconds idle, BlockCacheSize const& cache = {},
                     std::uint32_t value_bytes = 8);
/// By its name on a command line: "plain"; "perdure", whose thresholds and memtables' sizes differ
/// from seed to seed; or "power", the same with that durability, for a path on a disk.
Opener opener_named(std::string const& name, std::uint64_t seed);

/// Small buffers, so that files come about; nothing that depends on the medium.
rocksdb::DBOptions small_db_options();
rocksdb::ColumnFamilyOptions small_family_options();

/// Everything that a path's database has, its logs included.
void remove_database(std::string const& path);
/// Of this process and this call alone, on memory's file system unless said otherwise; not made.
std::string fresh_path(std::string const& name, std::string const& directory = "/dev/shm");

}  // namespace perdure::test
