// The two systems that are compared, each over a directory of its own: RocksDB, set as its tuning
// guide says, and Perdure with memtables of the same size over RocksDB set alike.
//
// Invariant: directories that were there before are never touched; those made here go with the
// object, and when a signal ends the process.
#pragma once

#include <rocksdb/db.h>
#include <rocksdb/options.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "options.hpp"

namespace perdure::bench::rocks {

enum class System : std::uint8_t { rocksdb, perdure };
[[nodiscard]] std::string name(System system);
[[nodiscard]] System system_named(std::string const& text);

/// What a database of a measurement has otherwise than the others.
struct Setting {
  std::uint64_t memtable_mib = 0;  // 0: as the options say
  bool counters = false;  // merges add 64-bit numbers
  bool transactions = false;  // a rocksdb::TransactionDB
  std::optional<std::uint32_t> memtable_value_bytes = {};  // none: as the options say
};

/// Throws Failure with RocksDB's message unless the status is ok.
void require(rocksdb::Status const& status, std::string const& what);

[[nodiscard]] rocksdb::Options rocksdb_options(Options const& options, Setting const& setting);

/// Removes a database, and Perdure's log beside it.
void remove_database(std::string const& directory);

/// A directory for all that this process makes.
class WorkDirectory {
 public:
  explicit WorkDirectory(std::string const& path);
  ~WorkDirectory();
  WorkDirectory(WorkDirectory const&) = delete;
  WorkDirectory& operator=(WorkDirectory const&) = delete;
  [[nodiscard]] std::string const& path() const { return path_; }

 private:
  std::string path_;
};

class Database {
 public:
  /// Opens what is in the directory, or makes it.
  Database(Options const& options, System system, std::string const& directory,
           Setting const& setting);
  /// Closes it; the directory stays.
  ~Database();
  Database(Database const&) = delete;
  Database& operator=(Database const&) = delete;

  [[nodiscard]] System system() const { return system_; }
  [[nodiscard]] rocksdb::DB& db() const { return *db_; }
  /// Flushes what memtables hold, and waits until no flush or compaction is to be done.
  void settle() const;
  /// Until nothing is flushed or compacted any more. RocksDB's memtable stays; Perdure gives its
  /// own up when nobody calls for a while.
  void wait_until_idle() const;
  /// The same, and the whole tree is on its last level.
  void compact() const;

 private:
  System system_;
  std::unique_ptr<rocksdb::DB> db_;
};

/// The library of RocksDB that this process runs on.
struct Library {
  std::string version;
  std::string file;
  bool assertions = false;
};
[[nodiscard]] Library rocksdb_library();

}  // namespace perdure::bench::rocks
