// libperdure_rocks_preload.so: with LD_PRELOAD, programs that are linked to librocksdb.so
// dynamically get perdure::rocks from DB::Open(), C programs too, for rocksdb_open() calls it.
//
// Invariants:
//  1. Each function here has RocksDB's own name and type. The dynamic linker finds it first, and it
//     finds RocksDB's as the next one.
//  2. What runs inside a function here gets RocksDB's own: perdure::rocks::open() calls DB::Open()
//     itself, and so do openings that are passed through, such as OptimisticTransactionDB's, which
//     casts what it gets to RocksDB's implementation.
//  3. No opening that is passed through writes to a database whose G-WAL still has something: that
//     would be lost. OpenForReadOnly() sees it, and OpenAsSecondary() says that it does not.
#include <dlfcn.h>
#include <rocksdb/db.h>
#include <rocksdb/env.h>
#include <rocksdb/utilities/db_ttl.h>
#include <rocksdb/utilities/optimistic_transaction_db.h>
#include <rocksdb/utilities/transaction_db.h>

#include <atomic>
#include <cstdio>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "lsm/gwal/gwal_power_note.hpp"
#include "lsm/rocks/preload_environment.hpp"
#include "lsm/rocks/rocksdb_version.hpp"
#include "perdure/rocks.h"

namespace rocksdb::blob_db {

// BlobDB's header is not installed with RocksDB; its library has these.
struct BlobDBOptions;
class BlobDB {
 public:
  static Status Open(Options const& options, BlobDBOptions const& blob_options,
                     std::string const& name, BlobDB** db);
  static Status Open(DBOptions const& options, BlobDBOptions const& blob_options,
                     std::string const& name, std::vector<ColumnFamilyDescriptor> const& families,
                     std::vector<ColumnFamilyHandle*>* handles, BlobDB** db);
};

}  // namespace rocksdb::blob_db

namespace perdure::lsm {

namespace {

thread_local bool inside = false;

/// While it lives, this thread's openings are RocksDB's.
class Inside {
 public:
  Inside() : before_(std::exchange(inside, true)) {}
  ~Inside() { inside = before_; }
  Inside(Inside const&) = delete;
  Inside& operator=(Inside const&) = delete;

 private:
  bool before_;
};

/// RocksDB's function of the name and type of one of ours; null: it has none.
template <class Function>
Function* next_of(Function* ours) {
  Dl_info info{};
  if (dladdr(reinterpret_cast<void const*>(ours), &info) == 0 || info.dli_sname == nullptr)
    return nullptr;
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, info.dli_sname));
}

rocksdb::Status no_next(char const* what) {
  return rocksdb::Status::NotSupported(
      "perdure: the preload library found no RocksDB behind it for " + std::string(what),
      "link the program to librocksdb.so, or run it without the preload library");
}

/// What has writes that RocksDB lacks; empty: nothing.
std::string log_with_something(rocks::GpuOptions const& options, std::string const& path) {
  std::error_code error;
  if (std::filesystem::exists(power_note_of(path), error)) return "power log";
  std::filesystem::directory_iterator const files(log_directory(options, path), error);
  if (error) return {};
  for (auto const& file : files)
    if (file.path().extension() == ".gwal") return "G-WAL in " + log_directory(options, path);
  return {};
}

/// Whether an opening for writes that RocksDB alone serves may go on.
rocksdb::Status check_written_past(std::string const& path, char const* what) {
  rocks::GpuOptions options;
  if (auto s = options_from_environment(path, options); !s.ok()) return s;
  std::string const log = log_with_something(options, path);
  if (log.empty()) return rocksdb::Status::OK();
  return rocksdb::Status::Busy(
      "perdure: " + std::string(what) + " of " + path + ": its " + log +
          " has writes that RocksDB lacks",
      "open it by DB::Open with the preload library and close it, or end the process that has it");
}

void say_once(std::atomic<bool>& said, std::string const& what) {
  if (!said.exchange(true)) std::fprintf(stderr, "perdure: %s\n", what.c_str());
}

/// RocksDB's own opening for writes.
template <class Next, class... Arguments>
rocksdb::Status pass(char const* what, Next* next, std::string const& path,
                     Arguments&&... arguments) {
  static std::atomic<bool> said{false};
  if (next == nullptr) return no_next(what);
  if (!inside) {
    say_once(said, std::string(what) + ": RocksDB alone serves it, without memtables of ours");
    if (auto s = check_written_past(path, what); !s.ok()) return s;
  }
  Inside const guard;
  return next(std::forward<Arguments>(arguments)...);
}

/// The same of one that only reads.
template <class Next, class... Arguments>
rocksdb::Status pass_reader(char const* what, Next* next, std::string const& path,
                            Arguments&&... arguments) {
  if (next == nullptr) return no_next(what);
  rocks::GpuOptions options;
  if (auto s = options_from_environment(path, options); !s.ok()) return s;
  std::string const log = log_with_something(options, path);
  if (!inside && !log.empty())
    std::fprintf(stderr, "perdure: %s of %s: it does not see the writes in the %s\n", what,
                 path.c_str(), log.c_str());
  Inside const guard;
  return next(std::forward<Arguments>(arguments)...);
}

/// Perdure's, where memtables have something that RocksDB lacks.
template <class Next, class Open, class... Arguments>
rocksdb::Status serve_reader(Next* next, rocksdb::Env* env, std::string const& path,
                             Open const& open, Arguments&&... arguments) {
  rocks::GpuOptions gpu;
  if (auto s = options_from_environment(path, gpu); !s.ok()) return s;
  if (inside || env != rocksdb::Env::Default() || log_with_something(gpu, path).empty())
    return pass_reader("DB::OpenForReadOnly", next, path, std::forward<Arguments>(arguments)...);
  Inside const guard;
  return open(gpu);
}

/// Perdure's database, or RocksDB's where its files are none of the operating system's.
template <class Next, class Open, class... Arguments>
rocksdb::Status serve(Next* next, rocksdb::Env* env, std::string const& path, Open const& open,
                      Arguments&&... arguments) {
  if (next == nullptr) return no_next("DB::Open");
  if (inside) return next(std::forward<Arguments>(arguments)...);
  if (env != rocksdb::Env::Default())
    return pass("DB::Open with an Env of its own", next, path,
                std::forward<Arguments>(arguments)...);
  rocks::GpuOptions gpu;
  if (auto s = options_from_environment(path, gpu); !s.ok()) return s;
  Inside const guard;
  return open(gpu);
}

/// Either, as the environment says.
template <class Next, class Open, class... Arguments>
rocksdb::Status serve_transactions(char const* what, Next* next, rocksdb::Env* env,
                                   std::string const& path, Open const& open,
                                   Arguments&&... arguments) {
  bool ours = false;
  if (auto s = transactions_from_environment(ours); !s.ok()) return s;
  if (ours) return serve(next, env, path, open, std::forward<Arguments>(arguments)...);
  return pass(what, next, path, std::forward<Arguments>(arguments)...);
}

}  // namespace

}  // namespace perdure::lsm

namespace rocksdb {

using perdure::lsm::next_of;
using perdure::lsm::open_into;
using perdure::lsm::OpenedDb;
using perdure::lsm::pass;
using perdure::lsm::pass_reader;
using perdure::lsm::serve_reader;
using perdure::lsm::serve_transactions;
using perdure::rocks::GpuOptions;
using Families = std::vector<ColumnFamilyDescriptor>;
using Handles = std::vector<ColumnFamilyHandle*>;

// NOLINTBEGIN(readability-identifier-naming): RocksDB's names

Status DB::Open(Options const& options, std::string const& name, OpenedDb* db) {
  auto* const next = next_of<Status(Options const&, std::string const&, OpenedDb*)>(&DB::Open);
  return perdure::lsm::serve(
      next, options.env, name,
      [&](GpuOptions const& gpu) {
        return open_into(
            db, [&](DB** opened) { return perdure::rocks::open(options, gpu, name, opened); });
      },
      options, name, db);
}

Status DB::Open(DBOptions const& options, std::string const& name, Families const& families,
                Handles* handles, OpenedDb* db) {
  auto* const next =
      next_of<Status(DBOptions const&, std::string const&, Families const&, Handles*, OpenedDb*)>(
          &DB::Open);
  return perdure::lsm::serve(
      next, options.env, name,
      [&](GpuOptions const& gpu) {
        return open_into(db, [&](DB** opened) {
          return perdure::rocks::open(options, gpu, name, families, handles, opened);
        });
      },
      options, name, families, handles, db);
}

Status DB::OpenForReadOnly(Options const& options, std::string const& name, OpenedDb* db,
                           bool error_if_wal) {
  auto* const next =
      next_of<Status(Options const&, std::string const&, OpenedDb*, bool)>(&DB::OpenForReadOnly);
  return serve_reader(
      next, options.env, name,
      [&](GpuOptions const& gpu) {
        return open_into(db, [&](DB** opened) {
          return perdure::rocks::open_for_read_only(options, gpu, name, opened, error_if_wal);
        });
      },
      options, name, db, error_if_wal);
}

Status DB::OpenForReadOnly(DBOptions const& options, std::string const& name,
                           Families const& families, Handles* handles, OpenedDb* db,
                           bool error_if_wal) {
  auto* const next = next_of<Status(DBOptions const&, std::string const&, Families const&, Handles*,
                                    OpenedDb*, bool)>(&DB::OpenForReadOnly);
  return serve_reader(
      next, options.env, name,
      [&](GpuOptions const& gpu) {
        return open_into(db, [&](DB** opened) {
          return perdure::rocks::open_for_read_only(options, gpu, name, families, handles, opened,
                                                    error_if_wal);
        });
      },
      options, name, families, handles, db, error_if_wal);
}

Status DB::OpenAsSecondary(Options const& options, std::string const& name,
                           std::string const& secondary, OpenedDb* db) {
  auto* const next =
      next_of<Status(Options const&, std::string const&, std::string const&, OpenedDb*)>(
          &DB::OpenAsSecondary);
  return pass_reader("DB::OpenAsSecondary", next, name, options, name, secondary, db);
}

Status DB::OpenAsSecondary(DBOptions const& options, std::string const& name,
                           std::string const& secondary, Families const& families, Handles* handles,
                           OpenedDb* db) {
  auto* const next = next_of<Status(DBOptions const&, std::string const&, std::string const&,
                                    Families const&, Handles*, OpenedDb*)>(&DB::OpenAsSecondary);
  return pass_reader("DB::OpenAsSecondary", next, name, options, name, secondary, families, handles,
                     db);
}

Status DB::OpenAndTrimHistory(DBOptions const& options, std::string const& name,
                              Families const& families, Handles* handles, OpenedDb* db,
                              std::string until) {
  auto* const next = next_of<Status(DBOptions const&, std::string const&, Families const&, Handles*,
                                    OpenedDb*, std::string)>(&DB::OpenAndTrimHistory);
  return pass("DB::OpenAndTrimHistory", next, name, options, name, families, handles, db, until);
}

Status TransactionDB::Open(Options const& options, TransactionDBOptions const& how,
                           std::string const& name, TransactionDB** db) {
  auto* const next = next_of<Status(Options const&, TransactionDBOptions const&, std::string const&,
                                    TransactionDB**)>(&TransactionDB::Open);
  return serve_transactions(
      "TransactionDB::Open", next, options.env, name,
      [&](GpuOptions const& gpu) {
        return perdure::rocks::open_transactions(options, gpu, how, name, db);
      },
      options, how, name, db);
}

Status TransactionDB::Open(DBOptions const& options, TransactionDBOptions const& how,
                           std::string const& name, Families const& families, Handles* handles,
                           TransactionDB** db) {
  auto* const next =
      next_of<Status(DBOptions const&, TransactionDBOptions const&, std::string const&,
                     Families const&, Handles*, TransactionDB**)>(&TransactionDB::Open);
  return serve_transactions(
      "TransactionDB::Open", next, options.env, name,
      [&](GpuOptions const& gpu) {
        return perdure::rocks::open_transactions(options, gpu, how, name, families, handles, db);
      },
      options, how, name, families, handles, db);
}

Status OptimisticTransactionDB::Open(Options const& options, std::string const& name,
                                     OptimisticTransactionDB** db) {
  auto* const next = next_of<Status(Options const&, std::string const&, OptimisticTransactionDB**)>(
      &OptimisticTransactionDB::Open);
  return serve_transactions(
      "OptimisticTransactionDB::Open", next, options.env, name,
      [&](GpuOptions const& gpu) {
        return perdure::rocks::open_optimistic_transactions(options, gpu, name, db);
      },
      options, name, db);
}

Status OptimisticTransactionDB::Open(DBOptions const& options, std::string const& name,
                                     Families const& families, Handles* handles,
                                     OptimisticTransactionDB** db) {
  auto* const next = next_of<Status(DBOptions const&, std::string const&, Families const&, Handles*,
                                    OptimisticTransactionDB**)>(&OptimisticTransactionDB::Open);
  return serve_transactions(
      "OptimisticTransactionDB::Open", next, options.env, name,
      [&](GpuOptions const& gpu) {
        return perdure::rocks::open_optimistic_transactions(options, gpu, name, families, handles,
                                                            db);
      },
      options, name, families, handles, db);
}

Status OptimisticTransactionDB::Open(DBOptions const& options,
                                     OptimisticTransactionDBOptions const& how,
                                     std::string const& name, Families const& families,
                                     Handles* handles, OptimisticTransactionDB** db) {
  auto* const next =
      next_of<Status(DBOptions const&, OptimisticTransactionDBOptions const&, std::string const&,
                     Families const&, Handles*, OptimisticTransactionDB**)>(
          &OptimisticTransactionDB::Open);
  return serve_transactions(
      "OptimisticTransactionDB::Open", next, options.env, name,
      [&](GpuOptions const& gpu) {
        return perdure::rocks::open_optimistic_transactions(options, gpu, name, families, handles,
                                                            db);
      },
      options, how, name, families, handles, db);
}

Status DBWithTTL::Open(Options const& options, std::string const& name, DBWithTTL** db, int32_t ttl,
                       bool read_only) {
  auto* const next =
      next_of<Status(Options const&, std::string const&, DBWithTTL**, int32_t, bool)>(
          &DBWithTTL::Open);
  return pass("DBWithTTL::Open", next, name, options, name, db, ttl, read_only);
}

Status DBWithTTL::Open(DBOptions const& options, std::string const& name, Families const& families,
                       Handles* handles, DBWithTTL** db, std::vector<int32_t> const& ttls,
                       bool read_only) {
  auto* const next =
      next_of<Status(DBOptions const&, std::string const&, Families const&, Handles*, DBWithTTL**,
                     std::vector<int32_t> const&, bool)>(&DBWithTTL::Open);
  return pass("DBWithTTL::Open", next, name, options, name, families, handles, db, ttls, read_only);
}

namespace blob_db {

Status BlobDB::Open(Options const& options, BlobDBOptions const& blob_options,
                    std::string const& name, BlobDB** db) {
  auto* const next =
      next_of<Status(Options const&, BlobDBOptions const&, std::string const&, BlobDB**)>(
          &BlobDB::Open);
  return pass("BlobDB::Open", next, name, options, blob_options, name, db);
}

Status BlobDB::Open(DBOptions const& options, BlobDBOptions const& blob_options,
                    std::string const& name, Families const& families, Handles* handles,
                    BlobDB** db) {
  auto* const next = next_of<Status(DBOptions const&, BlobDBOptions const&, std::string const&,
                                    Families const&, Handles*, BlobDB**)>(&BlobDB::Open);
  return pass("BlobDB::Open", next, name, options, blob_options, name, families, handles, db);
}

}  // namespace blob_db

// NOLINTEND(readability-identifier-naming)

}  // namespace rocksdb
