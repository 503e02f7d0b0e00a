// Opening: RocksDB first, with its own recovery; then what the G-WAL has that RocksDB lacks, as
// sealed memtables, so that their flush is the one of every day.
#include <rocksdb/env.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "lsm/rocks/opening.hpp"
#include "lsm/rocks/power_options.hpp"
#include "lsm/rocks/rocksdb_version.hpp"
#include "lsm/rocks/status.hpp"
#include "lsm/rocks/threshold.hpp"
#include "perdure/rocks.h"

namespace perdure::rocks {

namespace {

using namespace lsm;  // NOLINT: the interface of what lies there

/// Files of flushes that a killed process left half way.
rocksdb::Status make_flush_directory(rocksdb::Env& env, std::string const& directory) {
  if (auto s = env.CreateDirIfMissing(directory); !s.ok()) return s;
  std::vector<std::string> names;
  if (auto s = env.GetChildren(directory, &names); !s.ok()) return s;
  for (std::string const& name : names)
    if (name != "." && name != "..") env.DeleteFile(directory + "/" + name).PermitUncheckedError();
  return rocksdb::Status::OK();
}

Result<std::uint64_t> threshold(GpuOptions const& gpu, Engine& engine, rocksdb::Logger* log) {
  if (gpu.threshold != 0) return gpu.threshold;
  auto costs = measure_costs(engine);
  if (!costs) return costs.status();
  std::uint64_t const operations = threshold_of(*costs);
  rocksdb::Info(log,
                "perdure: memtables take batches of %llu operations and more (%.0f us a batch and "
                "%.0f ns an operation, RocksDB %.0f ns)",
                static_cast<unsigned long long>(operations), costs.value().table_batch * 1e6,
                costs.value().table_operation * 1e9, costs.value().rocks_operation * 1e9);
  return operations;
}

perdure::Status make_parts(DatabaseParts& parts, rocksdb::DB& base, GpuOptions const& gpu,
                           std::string const& path) {
  rocksdb::DBOptions const options = base.GetDBOptions();
  rocksdb::Logger* const log = options.info_log.get();
  if (perdure::Status s = make_machine(parts, gpu, log); !s.ok()) return s;
  auto least = threshold(gpu, *parts.engine, log);
  if (!least) return least.status();
  auto log_options = gwal_options(parts, base, gpu, path);
  if (!log_options.ok()) return log_options.status();
  if (perdure::Status s = choose_log(log_options.value(), gpu, path); !s.ok()) return s;
  auto gwal = Gwal::open(log_options.value());
  if (!gwal) return gwal.status();
  parts.gwal = std::move(*gwal);
  std::string const flushes = path + "/perdure-flush";
  if (auto s = make_flush_directory(*options.env, flushes); !s.ok())
    return {Code::io_error, "directory " + flushes + ": " + s.ToString()};
  make_store(parts, base, gpu, flushes,
             {least.value(), memtable_bytes(gpu, base), gpu.immutable_memtables,
              std::chrono::milliseconds(gpu.idle_millis), std::max(1u, gpu.hand_overs_a_second),
              false, gpu.durability == Durability::power});
  if (perdure::Status s = recover(parts, base, log); !s.ok()) return s;
  // Who has a GPU writes large batches. Others may never write one, and keep the memory.
  if (parts.engine->is_far()) parts.gwal->prepare();
  return {};
}

/// RocksDB makes missing families by their names, and so none that is asked for twice: they are
/// made by an opening of its own.
rocksdb::Status make_missing_families(rocksdb::DBOptions& options, std::string const& path,
                                      Descriptors const& families) {
  if (!options.create_missing_column_families) return rocksdb::Status::OK();
  std::vector<std::string> there;
  if (rocksdb::DB::ListColumnFamilies(options, path, &there).ok() &&
      std::all_of(families.begin(), families.end(), [&](auto const& family) {
        return std::find(there.begin(), there.end(), family.name) != there.end();
      }))
    return rocksdb::Status::OK();
  Base once;
  rocksdb::DB* db = nullptr;
  if (auto s = open_rocksdb(&db, options, path, families, &once.users); !s.ok()) return s;
  once.db.reset(db);
  once.close();
  options.error_if_exists = false;
  return rocksdb::Status::OK();
}

}  // namespace

rocksdb::Status open(rocksdb::DBOptions const& options, GpuOptions const& gpu,
                     std::string const& path, Descriptors const& families,
                     std::vector<rocksdb::ColumnFamilyHandle*>* handles, rocksdb::DB** db) {
  *db = nullptr;
  handles->clear();
  if (perdure::Status s = check_gpu_options(gpu); !s.ok()) return to_rocks(s);
  auto listener = std::make_shared<FamilyListener>();
  rocksdb::DBOptions own = options;
  own.listeners.push_back(listener);
  if (auto s = make_missing_families(own, path, families); !s.ok()) return s;
  Base base;
  auto const s = open_base(families, base, [&](auto* opened, auto const& twice, auto* all) {
    return open_rocksdb(opened, own, path, twice, all);
  });
  if (!s.ok()) return s;
  DatabaseParts parts;
  parts.families = std::make_unique<Families>();
  add_families(base, families, *parts.families);
  if (perdure::Status made = make_parts(parts, *base.db, gpu, path); !made.ok()) {
    give_up(std::move(parts), base);
    return to_rocks(made);
  }
  parts.flusher->start();
  *handles = base.users;
  *db = new Database(base.db.release(), std::move(parts), std::move(listener));
  return rocksdb::Status::OK();
}

rocksdb::Status open(rocksdb::Options const& options, GpuOptions const& gpu,
                     std::string const& path, rocksdb::DB** db) {
  std::vector<rocksdb::ColumnFamilyHandle*> handles;
  auto const s = open(rocksdb::DBOptions(options), gpu, path,
                      {{rocksdb::kDefaultColumnFamilyName, rocksdb::ColumnFamilyOptions(options)}},
                      &handles, db);
  for (rocksdb::ColumnFamilyHandle* const handle : handles)
    (*db)->DestroyColumnFamilyHandle(handle).PermitUncheckedError();
  return s;
}

}  // namespace perdure::rocks
