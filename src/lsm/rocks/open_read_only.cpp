// Opening to read: RocksDB by its own OpenForReadOnly(), and a copy of the G-WAL in memory, which
// is recovered as in every opening. Another process may have the database open for writing.
//
// Invariant: RocksDB and the copy are one state of the database. The copy is taken first, then
// RocksDB is opened; what was opened counts only if by then no segment of the copy had gone or was
// being handed over, and the MANIFEST was what it had been: so nobody had ingested anything in
// between, nor flushed what RocksDB's own logs held. Where the copy has records, RocksDB got no
// writes meanwhile, for it gets none while there are memtables; where it has none, all that was
// written by then is RocksDB's. A power log is one process's: while its note stands, the database
// is refused.
#include <rocksdb/env.h>

#include <chrono>
#include <optional>
#include <thread>
#include <utility>

#include "lsm/gwal/gwal_copy.hpp"
#include "lsm/rocks/opening.hpp"
#include "lsm/rocks/power_options.hpp"
#include "lsm/rocks/rocksdb_version.hpp"
#include "lsm/rocks/status.hpp"
#include "perdure/rocks.h"

namespace perdure::rocks {

namespace {

using namespace lsm;  // NOLINT: the interface of what lies there
using Clock = std::chrono::steady_clock;

constexpr auto kPatience = std::chrono::seconds(5);
constexpr auto kPause = std::chrono::milliseconds(2);

/// What RocksDB writes whenever its files change.
struct ManifestState {
  std::string name;
  std::uint64_t bytes = 0;
  bool operator==(ManifestState const&) const = default;
};

/// Of a database that is not there, nothing: RocksDB says so.
ManifestState manifest_of(rocksdb::Env& env, std::string const& path) {
  ManifestState now;
  if (!ReadFileToString(&env, path + "/CURRENT", &now.name).ok()) return {};
  std::string const file = path + "/" + now.name.substr(0, now.name.find('\n'));
  env.GetFileSize(file, &now.bytes).PermitUncheckedError();
  return now;
}

class Opening {
 public:
  Opening(rocksdb::DBOptions const& options, GpuOptions const& gpu, std::string const& path,
          Descriptors const& families, bool error_if_wal)
      : options_(options), gpu_(gpu), path_(path), families_(families), no_wal_(error_if_wal) {}

  rocksdb::Status run(std::vector<rocksdb::ColumnFamilyHandle*>* handles, rocksdb::DB** db) {
    if (perdure::Status s = check_gpu_options(gpu_); !s.ok()) return to_rocks(s);
    if (auto s = open_one_state(); !s.ok()) return s;
    DatabaseParts parts;
    parts.read_only = true;
    parts.families = std::make_unique<Families>();
    add_families(base_, families_, *parts.families);
    rocksdb::Status s = make_parts(parts);
    if (s.ok() && no_wal_ && parts.tables->any())
      s = rocksdb::Status::Corruption(
          "The db was opened in readonly mode with error_if_wal_file_exists flag but its G-WAL has "
          "writes that RocksDB lacks");
    if (!s.ok()) {
      give_up(std::move(parts), base_);
      return s;
    }
    *handles = base_.users;
    *db = new Database(base_.db.release(), std::move(parts), std::make_shared<FamilyListener>());
    return s;
  }

 private:
  rocksdb::Status open_one_state() {
    for (auto const deadline = Clock::now() + kPatience;;) {
      bool is_one_state = true;
      rocksdb::Status const s = try_to_open(is_one_state);
      if (is_one_state) return s;
      if (base_.db != nullptr) base_.close();
      if (Clock::now() >= deadline)
        return rocksdb::Status::Busy("database " + path_ +
                                     ": another process changed it all the while; try again");
      std::this_thread::sleep_for(kPause);
    }
  }

  rocksdb::Status try_to_open(bool& is_one_state) {
    auto note = read_gwal_power_note(power_note_of(path_));
    if (!note.ok()) return to_rocks(note.status());
    note_ = std::move(note).value();
    ManifestState const manifest = manifest_of(*options_.env, path_);
    auto copy = GwalCopy::take(log_directory_of(gpu_, path_));
    is_one_state = copy.status().code() != Code::busy;
    if (!copy.ok()) return to_rocks(copy.status());
    copy_.emplace(std::move(copy).value());
    rocksdb::Status const s =
        open_base(families_, base_, [&](auto* opened, auto const& twice, auto* all) {
          OpenedDb db{};
          auto const status =
              rocksdb::DB::OpenForReadOnly(options_, path_, twice, all, &db, no_wal_);
          *opened = taken(std::move(db));
          return status;
        });
    auto const stands = copy_->still_stands();
    if (!stands.ok()) return to_rocks(stands.status());
    is_one_state = stands.value() && manifest == manifest_of(*options_.env, path_);
    return s;
  }

  rocksdb::Status make_parts(DatabaseParts& parts) {
    rocksdb::Logger* const log = base_.db->GetDBOptions().info_log.get();
    if (perdure::Status s = make_machine(parts, gpu_, log); !s.ok()) return to_rocks(s);
    auto const log_options = gwal_options(parts, *base_.db, gpu_, path_);
    if (!log_options.ok()) return to_rocks(log_options.status());
    if (perdure::Status s = check_no_power_log(note_, log_options.value().identity, path_); !s.ok())
      return to_rocks(s);
    auto gwal = std::move(*copy_).log(log_options.value());
    if (!gwal.ok()) return to_rocks(gwal.status());
    parts.gwal = std::move(gwal).value();
    Writer::Options writing;
    writing.read_only = true;
    make_store(parts, *base_.db, gpu_, {}, writing);
    return to_rocks(recover(parts, *base_.db, log));
  }

  rocksdb::DBOptions const& options_;
  GpuOptions const& gpu_;
  std::string const& path_;
  Descriptors const& families_;
  bool const no_wal_;
  std::optional<GwalPowerNoteRead> note_;  // before the others
  std::optional<GwalCopy> copy_;
  Base base_;
};

}  // namespace

rocksdb::Status open_for_read_only(rocksdb::DBOptions const& options, GpuOptions const& gpu,
                                   std::string const& path, Descriptors const& families,
                                   std::vector<rocksdb::ColumnFamilyHandle*>* handles,
                                   rocksdb::DB** db, bool error_if_wal_file_exists) {
  *db = nullptr;
  handles->clear();
  return Opening(options, gpu, path, families, error_if_wal_file_exists).run(handles, db);
}

rocksdb::Status open_for_read_only(rocksdb::Options const& options, GpuOptions const& gpu,
                                   std::string const& path, rocksdb::DB** db,
                                   bool error_if_wal_file_exists) {
  std::vector<rocksdb::ColumnFamilyHandle*> handles;
  auto const s = open_for_read_only(
      rocksdb::DBOptions(options), gpu, path,
      {{rocksdb::kDefaultColumnFamilyName, rocksdb::ColumnFamilyOptions(options)}}, &handles, db,
      error_if_wal_file_exists);
  for (rocksdb::ColumnFamilyHandle* const handle : handles)
    (*db)->DestroyColumnFamilyHandle(handle).PermitUncheckedError();
  return s;
}

}  // namespace perdure::rocks
