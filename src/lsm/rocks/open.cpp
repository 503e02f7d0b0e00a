// Opening: RocksDB first, with its own recovery; then what the G-WAL has that RocksDB lacks, as
// sealed memtables, so that their flush is the one of every day.
#include <rocksdb/env.h>

#include <algorithm>
#include <deque>
#include <filesystem>
#include <memory>
#include <thread>
#include <utility>

#include "exec/range.hpp"
#include "lsm/gwal/gwal_power_note.hpp"
#include "lsm/rocks/column_entries.hpp"
#include "lsm/rocks/database.hpp"
#include "lsm/rocks/payload.hpp"
#include "lsm/rocks/rocksdb_version.hpp"
#include "lsm/rocks/status.hpp"
#include "lsm/rocks/threshold.hpp"
#include "perdure/rocks.h"
#include "wal/disk/disk.hpp"

namespace perdure::rocks {

namespace {

using namespace lsm;  // NOLINT: the interface of what lies there

constexpr std::uint64_t kLeastMemtable = 1 << 16;
constexpr std::uint64_t kLeastPowerLog = 4 << 20;

Result<std::unique_ptr<Engine>> make_engine(GpuOptions const& gpu, exec::Workers& workers,
                                            rocksdb::Logger* log) {
  if (gpu.device != Device::cpu) {
    auto engine = make_two_sided_engine(workers);
    if (engine || gpu.device == Device::cuda) return engine;
    rocksdb::Info(log, "perdure: no GPU (%s): memtables run on CPU warps",
                  engine.status().message().c_str());
  }
  return make_cpu_engine(workers);
}

/// What one record holds, as entries in its own memory.
struct RecordEntries {
  std::deque<BatchEntries> taken_apart;
  GroupEntries batches;
  std::vector<std::pair<std::uint32_t, std::unique_ptr<ColumnEntries>>> columns;
  std::vector<std::unique_ptr<wal::DecodedBatch>> decoded;  // whose offsets columns use

  perdure::Status read(exec::Workers& workers, GwalRecord const& record) {
    PayloadReader reader;
    reader.batch = [&](rocksdb::WriteBatch const& batch, std::byte const* copy) -> perdure::Status {
      if (!taken_apart.emplace_back().read(batch))
        return {Code::corrupt, "the G-WAL has a batch that memtables never took"};
      batches.add(taken_apart.back(), copy);
      return {};
    };
    reader.columns = [&](std::uint32_t family, wal::DecodedBatch const& batch) -> perdure::Status {
      decoded.push_back(std::make_unique<wal::DecodedBatch>(batch));
      columns.emplace_back(family, std::make_unique<ColumnEntries>());
      columns.back().second->read(workers, decoded.back()->ops(), record.first_request);
      return {};
    };
    if (perdure::Status s = read_payload(record.payload, reader); !s.ok()) return s;
    batches.make_room();
    workers.for_chunks(taken_apart.size(), 1, [&](std::size_t begin, std::size_t end) {
      for (std::size_t i = begin; i < end; ++i) batches.put(i);
    });
    taken_apart.clear();
    return {};
  }
};

/// The memtables of one segment that an earlier process left.
perdure::Status restore(GwalRecovered& found, DatabaseParts& parts) {
  Counters& counters = *parts.counters;
  exec::Workers& workers = *parts.workers;
  auto generation = std::make_shared<Generation>(std::move(found.segment));
  std::vector<RecordEntries> records(found.records.size());
  std::vector<FamilyBatch> batch;
  RequestId last = 0;
  for (std::size_t i = 0; i < records.size(); ++i) {
    GwalRecord const& record = found.records[i];
    if (perdure::Status s = records[i].read(workers, record); !s.ok()) return s;
    for (FamilyBatch const& one : records[i].batches.batches(record.first_request))
      batch.push_back(one);
    for (auto const& [family, columns] : records[i].columns)
      batch.push_back({family, columns->entries(), columns->has_merges()});
    last = std::max(last, record.first_request + record.requests - 1);
    counters.recovered_requests += record.requests;
  }
  ++counters.recovered_generations;
  return parts.tables->restore(std::move(generation), batch, last);
}

perdure::Status recover(DatabaseParts& parts, rocksdb::DB& base, rocksdb::Logger* log) {
  exec::Range const range("rocks recover");
  auto found = parts.gwal->recover(base.GetLatestSequenceNumber());
  if (!found) return found.status();
  if (std::string const report = parts.gwal->report(); !report.empty())
    rocksdb::Info(log, "perdure: %s", report.c_str());
  for (GwalRecovered& one : *found) {
    rocksdb::Info(log, "perdure: G-WAL segment %llu: %llu records, %s%s",
                  static_cast<unsigned long long>(one.found.number),
                  static_cast<unsigned long long>(one.found.records),
                  one.found.discarded ? "which RocksDB has already" : "restored",
                  one.found.torn ? "; it ends in a record that was being written" : "");
    if (one.records.empty()) {
      if (one.segment != nullptr) {
        if (perdure::Status s = one.segment->retire(); !s.ok()) return s;
      }
      continue;
    }
    if (perdure::Status s = restore(one, parts); !s.ok()) return s;
  }
  return {};
}

/// Files of flushes that a killed process left half way.
rocksdb::Status make_flush_directory(rocksdb::Env& env, std::string const& directory) {
  if (auto s = env.CreateDirIfMissing(directory); !s.ok()) return s;
  std::vector<std::string> names;
  if (auto s = env.GetChildren(directory, &names); !s.ok()) return s;
  for (std::string const& name : names)
    if (name != "." && name != "..") env.DeleteFile(directory + "/" + name).PermitUncheckedError();
  return rocksdb::Status::OK();
}

perdure::Status check(GpuOptions const& gpu) {
  if (gpu.memtable_bytes != 0 && gpu.memtable_bytes < kLeastMemtable)
    return {Code::invalid_argument, "memtable_bytes is " + std::to_string(gpu.memtable_bytes) +
                                        "; give at least " + std::to_string(kLeastMemtable) +
                                        ", or 0 for RocksDB's write_buffer_size"};
  if (gpu.immutable_memtables == 0)
    return {Code::invalid_argument, "immutable_memtables is 0; give at least 1"};
  return CacheShape{gpu.block_cache_bytes, gpu.block_cache_entry_bytes}.check();
}

std::uint64_t memtable_bytes(GpuOptions const& gpu, rocksdb::DB& base) {
  if (gpu.memtable_bytes != 0) return gpu.memtable_bytes;
  return std::max<std::uint64_t>(kLeastMemtable, base.GetOptions().write_buffer_size);
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

bool is_inside(std::string const& directory, std::string const& other) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  fs::path const relative = fs::weakly_canonical(directory, ignored)
                                .lexically_relative(fs::weakly_canonical(other, ignored));
  return !relative.empty() && *relative.begin() != "..";
}

perdure::Status check_outside(std::string const& directory, char const* option,
                              std::string const& path) {
  if (!is_inside(directory, path)) return {};
  return {Code::invalid_argument, std::string(option) + " " + directory +
                                      " lies in the database's own directory, whose files are "
                                      "RocksDB's; name another"};
}

std::string absolute(std::string const& path) {
  return std::filesystem::absolute(path).lexically_normal().string();
}

/// Whether a process that was killed left segments there.
bool has_segments(std::string const& directory) {
  std::error_code error;
  for (std::filesystem::directory_iterator it(directory, error), end; !error && it != end;
       it.increment(error))
    if (it->path().extension() == ".gwal") return true;
  return false;
}

/// What the other durability left has to be RocksDB's first: each knows its own log alone.
perdure::Status check_left(GpuOptions const& gpu, GwalOptions const& options,
                           std::string const& note) {
  if (gpu.durability == Durability::power) {
    if (!has_segments(options.directory)) return {};
    return {Code::invalid_argument,
            "the G-WAL " + options.directory +
                " has writes of durability process that RocksDB lacks; open the database with "
                "that durability and close it, before it gets durability power"};
  }
  auto const noted = read_gwal_power_note(note, options.identity);
  if (!noted) return noted.status();
  if (!noted.value()) return {};
  return {Code::invalid_argument,
          "the database was not closed since it had durability power, and its power log " +
              *noted.value() +
              " has writes that RocksDB lacks; open it with durability power and that "
              "power_log_dir, and close it, before it gets durability process"};
}

std::uint64_t power_log_bytes(GpuOptions const& gpu, std::uint64_t memtable) {
  std::uint64_t const bytes =
      gpu.power_log_bytes != 0 ? gpu.power_log_bytes : std::max(kLeastPowerLog, 4 * memtable);
  return wal::round_up(bytes);
}

perdure::Status open_log(DatabaseParts& parts, rocksdb::DB& base, GpuOptions const& gpu,
                         std::string const& path) {
  GwalOptions options;
  options.directory = gpu.log_dir.empty() ? path + ".gwal" : gpu.log_dir;
  options.segment_bytes = memtable_bytes(gpu, base);
  options.workers = parts.workers.get();
  if (auto s = base.GetDbIdentity(options.identity); !s.ok())
    return {Code::io_error, "the identity of database " + path + ": " + s.ToString()};
  if (perdure::Status s = check_outside(options.directory, "log_dir", path); !s.ok()) return s;
  std::string const note = absolute(power_note_of(path));
  if (perdure::Status s = check_left(gpu, options, note); !s.ok()) return s;
  if (gpu.durability == Durability::power) {
    std::string const directory = gpu.power_log_dir.empty() ? path + ".power" : gpu.power_log_dir;
    if (perdure::Status s = check_outside(directory, "power_log_dir", path); !s.ok()) return s;
    if (auto const forgets = wal::disk().forgets(path); forgets && forgets.value())
      return {Code::invalid_argument,
              "the database " + path +
                  " lies in memory, which a power loss clears; put it on a disk, or choose "
                  "durability process"};
    options.power = {absolute(directory), power_log_bytes(gpu, options.segment_bytes), note};
  }
  auto gwal = Gwal::open(options);
  if (!gwal) return gwal.status();
  parts.gwal = std::move(*gwal);
  return {};
}

/// Null: it is off, or there is no memory for it, or RocksDB's sequence numbers say too little of
/// what a reader sees.
std::unique_ptr<BlockCache> make_cache(GpuOptions const& gpu, rocksdb::DBOptions const& options,
                                       Counters& counters) {
  rocksdb::Logger* const log = options.info_log.get();
  if (gpu.block_cache_bytes == 0) return nullptr;
  if (options.unordered_write || options.two_write_queues) {
    rocksdb::Info(log, "perdure: no block cache with %s",
                  options.unordered_write ? "unordered_write" : "two_write_queues");
    return nullptr;
  }
  auto memory = CacheMemory::map({gpu.block_cache_bytes, gpu.block_cache_entry_bytes});
  if (!memory) {
    rocksdb::Warn(log, "perdure: %s; reads do without", memory.status().message().c_str());
    return nullptr;
  }
  return std::make_unique<BlockCache>(std::move(*memory), counters.cache);
}

perdure::Status make_parts(DatabaseParts& parts, rocksdb::DB& base, GpuOptions const& gpu,
                           std::string const& path) {
  rocksdb::DBOptions const options = base.GetDBOptions();
  std::uint32_t const threads =
      gpu.threads != 0 ? gpu.threads : std::max(1u, std::thread::hardware_concurrency());
  parts.workers = std::make_unique<exec::Workers>(threads);
  auto engine = make_engine(gpu, *parts.workers, options.info_log.get());
  if (!engine) return engine.status();
  parts.engine = std::move(*engine);
  auto least = threshold(gpu, *parts.engine, options.info_log.get());
  if (!least) return least.status();
  if (perdure::Status s = open_log(parts, base, gpu, path); !s.ok()) return s;
  parts.counters = std::make_unique<Counters>();
  parts.cache = make_cache(gpu, options, *parts.counters);
  parts.tables =
      std::make_unique<Tables>(base, *parts.engine, *parts.gwal, memtable_bytes(gpu, base));
  parts.writer = std::make_unique<Writer>(
      base, *parts.workers, *parts.tables, *parts.families, *parts.counters,
      Writer::Options{least.value(), gpu.immutable_memtables,
                      std::chrono::milliseconds(gpu.idle_millis),
                      std::max(1u, gpu.hand_overs_a_second), gpu.durability == Durability::power});
  std::string const flushes = path + "/perdure-flush";
  if (auto s = make_flush_directory(*options.env, flushes); !s.ok())
    return {Code::io_error, "directory " + flushes + ": " + s.ToString()};
  parts.flusher = std::make_unique<Flusher>(
      base, *parts.engine, *parts.tables, *parts.families, *parts.counters, parts.cache.get(),
      flushes, [writer = parts.writer.get()] { return writer->seal_idle(); });
  parts.writer->set_flusher(*parts.flusher);
  parts.reader = std::make_unique<Reader>(base, *parts.engine, *parts.tables, *parts.families,
                                          *parts.counters, parts.cache.get());
  if (perdure::Status s = recover(parts, base, options.info_log.get()); !s.ok()) return s;
  // Who has a GPU writes large batches. Others may never write one, and keep the memory.
  if (parts.engine->describe().starts_with("cuda")) parts.gwal->prepare();
  return {};
}

/// What RocksDB opens, with each family asked for twice: the first handle is the user's, the second
/// ours.
struct Base {
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

rocksdb::Status open_base(rocksdb::DBOptions const& options, std::string const& path,
                          Descriptors const& families, Base& base) {
  rocksdb::DB* db = nullptr;
  std::vector<rocksdb::ColumnFamilyHandle*> handles;
  auto const s = open_rocksdb(&db, options, path, families, &handles);
  if (!s.ok()) return s;
  base.db.reset(db);
  auto const half = handles.begin() + static_cast<std::ptrdiff_t>(handles.size() / 2);
  base.users.assign(handles.begin(), half);
  base.ours.assign(half, handles.end());
  return s;
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

void add_families(Base const& base, Descriptors const& families, Families& known) {
  for (std::size_t i = 0; i < families.size(); ++i) {
    FamilyPtr const family = known.add(base.ours[i], families[i].options, true);
    if (!family->why_passed_through.empty())
      rocksdb::Warn(base.db->GetDBOptions().info_log.get(),
                    "perdure: RocksDB alone serves column family %s: %s", family->name.c_str(),
                    family->why_passed_through.c_str());
  }
}

}  // namespace

rocksdb::Status open(rocksdb::DBOptions const& options, GpuOptions const& gpu,
                     std::string const& path, Descriptors const& families,
                     std::vector<rocksdb::ColumnFamilyHandle*>* handles, rocksdb::DB** db) {
  *db = nullptr;
  handles->clear();
  if (perdure::Status s = check(gpu); !s.ok()) return to_rocks(s);
  auto listener = std::make_shared<FamilyListener>();
  rocksdb::DBOptions own = options;
  own.listeners.push_back(listener);
  if (auto s = make_missing_families(own, path, families); !s.ok()) return s;
  Descriptors twice = families;
  twice.insert(twice.end(), families.begin(), families.end());
  Base base;
  if (auto s = open_base(own, path, twice, base); !s.ok()) return s;
  DatabaseParts parts;
  parts.families = std::make_unique<Families>();
  add_families(base, families, *parts.families);
  if (perdure::Status s = make_parts(parts, *base.db, gpu, path); !s.ok()) {
    {
      DatabaseParts const doomed = std::move(parts);  // in the order opposite to their making
    }
    base.close();
    return to_rocks(s);
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
