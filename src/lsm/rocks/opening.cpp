#include "lsm/rocks/opening.hpp"

#include <algorithm>
#include <deque>
#include <filesystem>
#include <thread>
#include <utility>

#include "exec/range.hpp"
#include "lsm/rocks/column_entries.hpp"
#include "lsm/rocks/payload.hpp"
#include "lsm/rocks/status.hpp"

namespace perdure::lsm {

namespace {

constexpr std::uint64_t kLeastMemtable = 1 << 16;

Result<std::unique_ptr<Engine>> make_engine(rocks::GpuOptions const& gpu, exec::Workers& workers,
                                            rocksdb::Logger* log) {
  EngineOptions const options{gpu.memtable_value_bytes};
  if (gpu.device != rocks::Device::cpu) {
    auto engine = make_two_sided_engine(workers, options);
    if (engine || gpu.device == rocks::Device::cuda) return engine;
    rocksdb::Info(log, "perdure: no GPU (%s): memtables run on CPU warps",
                  engine.status().message().c_str());
  }
  return make_cpu_engine(workers, options);
}

/// What one record holds, as entries in its own memory.
struct RecordEntries {
  struct Batch {
    std::span<std::byte const> bytes;
    BatchEntries entries = {};
    bool read = false;
  };
  std::deque<Batch> batches;
  GroupEntries group;  // of these
  std::vector<std::pair<std::uint32_t, std::unique_ptr<ColumnEntries>>> columns;
  std::vector<std::unique_ptr<wal::DecodedBatch>> decoded;  // whose offsets columns use

  /// Finds batches, and reads columns.
  Status open(exec::Workers& workers, GwalRecord const& record) {
    RequestId next = record.first_request;  // of columns
    PayloadReader reader;
    reader.batch = [&](std::span<std::byte const> bytes) -> Status {
      batches.emplace_back(bytes);
      return {};
    };
    reader.columns = [&](std::uint32_t family, wal::DecodedBatch const& batch) -> Status {
      decoded.push_back(std::make_unique<wal::DecodedBatch>(batch));
      columns.emplace_back(family, std::make_unique<ColumnEntries>());
      wal::BatchOps const ops = decoded.back()->ops();
      columns.back().second->read(workers, ops, next);
      next += ops.keys.count;
      return {};
    };
    return read_payload(record.payload, reader);
  }

  /// Once batches are read.
  Status gather() {
    for (Batch const& one : batches) {
      if (!one.read) return {Code::corrupt, "the G-WAL has a batch that memtables never took"};
      group.add(one.entries, one.bytes.data());
    }
    group.make_room();
    return {};
  }
};

/// f(record, i) of each batch of the records, by all workers.
template <class F>
void for_batches(exec::Workers& workers, std::vector<RecordEntries>& records, F const& f) {
  std::vector<std::pair<RecordEntries*, std::size_t>> all;
  for (RecordEntries& record : records)
    for (std::size_t i = 0; i < record.batches.size(); ++i) all.emplace_back(&record, i);
  workers.for_chunks(all.size(), 1, [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) f(*all[i].first, all[i].second);
  });
}

Status read_records(exec::Workers& workers, std::vector<GwalRecord> const& found,
                    std::vector<RecordEntries>& records) {
  for (std::size_t i = 0; i < found.size(); ++i)
    if (Status s = records[i].open(workers, found[i]); !s.ok()) return s;
  for_batches(workers, records, [](RecordEntries& record, std::size_t i) {
    RecordEntries::Batch& batch = record.batches[i];
    batch.read = batch.entries.read(batch.bytes);
  });
  for (RecordEntries& record : records)
    if (Status s = record.gather(); !s.ok()) return s;
  for_batches(workers, records, [](RecordEntries& record, std::size_t i) {
    record.group.put(i);
    record.batches[i].entries = {};
  });
  return {};
}

/// The memtables of one segment that an earlier process left.
Status restore(GwalRecovered& found, DatabaseParts& parts) {
  Counters& counters = *parts.counters;
  exec::Workers& workers = *parts.workers;
  auto generation = std::make_shared<Generation>(std::move(found.segment));
  std::vector<RecordEntries> records(found.records.size());
  if (Status s = read_records(workers, found.records, records); !s.ok()) return s;
  std::vector<FamilyBatch> batch;
  RequestId last = 0;
  for (std::size_t i = 0; i < records.size(); ++i) {
    GwalRecord const& record = found.records[i];
    for (FamilyBatch const& one : records[i].group.batches(record.first_request))
      batch.push_back(one);
    for (auto const& [family, columns] : records[i].columns)
      batch.push_back({family, columns->entries(), columns->has_merges()});
    last = std::max(last, record.first_request + record.requests - 1);
    counters.recovered_requests += record.requests;
    generation->requests += record.requests;
    generation->bytes += record.payload.size();
  }
  ++counters.recovered_generations;
  return parts.tables->restore(std::move(generation), batch, last);
}

constexpr std::uint64_t kMostSpares = 64;

bool is_inside(std::string const& directory, std::string const& other) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  fs::path const relative = fs::weakly_canonical(directory, ignored)
                                .lexically_relative(fs::weakly_canonical(other, ignored));
  return !relative.empty() && *relative.begin() != "..";
}

/// Null: it is off, or there is no memory for it, or RocksDB's sequence numbers say too little of
/// what a reader sees.
std::unique_ptr<BlockCache> make_cache(rocks::GpuOptions const& gpu,
                                       rocksdb::DBOptions const& options, Counters& counters) {
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

}  // namespace

Status check_gpu_options(rocks::GpuOptions const& gpu) {
  if (gpu.memtable_bytes != 0 && gpu.memtable_bytes < kLeastMemtable)
    return {Code::invalid_argument, "memtable_bytes is " + std::to_string(gpu.memtable_bytes) +
                                        "; give at least " + std::to_string(kLeastMemtable) +
                                        ", or 0 for RocksDB's write_buffer_size"};
  if (gpu.immutable_memtables == 0)
    return {Code::invalid_argument, "immutable_memtables is 0; give at least 1"};
  if (gpu.memtable_value_bytes > EngineOptions::kMostInside)
    return {Code::invalid_argument,
            "memtable_value_bytes is " + std::to_string(gpu.memtable_value_bytes) +
                "; give at most " + std::to_string(EngineOptions::kMostInside) +
                ", or 0 to keep no values in memtables"};
  return CacheShape{gpu.block_cache_bytes, gpu.block_cache_entry_bytes}.check();
}

std::uint64_t memtable_bytes(rocks::GpuOptions const& gpu, rocksdb::DB& base) {
  if (gpu.memtable_bytes != 0) return gpu.memtable_bytes;
  return std::max<std::uint64_t>(kLeastMemtable, base.GetOptions().write_buffer_size);
}

Status check_outside(std::string const& directory, char const* option, std::string const& path) {
  if (!is_inside(directory, path)) return {};
  return {Code::invalid_argument, std::string(option) + " " + directory +
                                      " lies in the database's own directory, whose files are "
                                      "RocksDB's; name another"};
}

std::string log_directory_of(rocks::GpuOptions const& gpu, std::string const& path) {
  return gpu.log_dir.empty() ? path + ".gwal" : gpu.log_dir;
}

Status make_machine(DatabaseParts& parts, rocks::GpuOptions const& gpu, rocksdb::Logger* log) {
  std::uint32_t const threads =
      gpu.threads != 0 ? gpu.threads : std::max(1u, std::thread::hardware_concurrency());
  parts.workers = std::make_unique<exec::Workers>(threads);
  parts.write_workers = std::make_unique<exec::Workers>(threads);
  auto engine = make_engine(gpu, *parts.workers, log);
  if (!engine) return engine.status();
  parts.engine = std::move(*engine);
  parts.read_rooms->pinned = parts.engine->is_far();
  return {};
}

Result<GwalOptions> gwal_options(DatabaseParts const& parts, rocksdb::DB& base,
                                 rocks::GpuOptions const& gpu, std::string const& path) {
  GwalOptions options;
  options.directory = log_directory_of(gpu, path);
  options.segment_bytes = memtable_bytes(gpu, base);
  // In a burst each generation that goes leaves its segment to the next.
  std::uint64_t const spares =
      gpu.immutable_memtables + gpu.flushed_memtable_bytes / options.segment_bytes;
  options.spare_segments += static_cast<std::uint32_t>(std::min(spares, kMostSpares));
  options.workers = parts.write_workers.get();
  if (Status s = check_outside(options.directory, "log_dir", path); !s.ok()) return s;
  if (auto s = base.GetDbIdentity(options.identity); !s.ok())
    return Status{Code::io_error, "the identity of database " + path + ": " + s.ToString()};
  return options;
}

void make_store(DatabaseParts& parts, rocksdb::DB& base, rocks::GpuOptions const& gpu,
                std::string flushes, Writer::Options const& options) {
  parts.counters = std::make_unique<Counters>();
  parts.cache = make_cache(gpu, base.GetDBOptions(), *parts.counters);
  parts.tables = std::make_unique<Tables>(base, *parts.engine, *parts.gwal, *parts.write_workers,
                                          memtable_bytes(gpu, base), gpu.flushed_memtable_bytes);
  parts.writer = std::make_unique<Writer>(base, *parts.write_workers, *parts.tables,
                                          *parts.families, *parts.counters, options);
  if (parts.cache != nullptr && gpu.flushed_memtable_bytes != 0) {
    parts.hot = std::make_unique<HotEntries>(base, *parts.engine, *parts.workers, *parts.tables,
                                             *parts.writer, *parts.counters, *parts.cache,
                                             gpu.flushed_memtable_bytes);
    // The host finds a key in the block cache faster than in a run.
    if (parts.engine->is_far()) parts.hot->start({});
  }
  parts.flusher =
      std::make_unique<Flusher>(base, *parts.engine, *parts.workers, *parts.tables, *parts.families,
                                *parts.counters, parts.cache.get(), std::move(flushes),
                                [writer = parts.writer.get()] { return writer->seal_idle(); });
  parts.writer->set_flusher(*parts.flusher);
  parts.reader = std::make_unique<Reader>(base, *parts.engine, *parts.tables, *parts.families,
                                          *parts.counters, parts.cache.get(), parts.hot.get());
}

Status recover(DatabaseParts& parts, rocksdb::DB& base, rocksdb::Logger* log) {
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
        if (Status s = one.segment->retire(); !s.ok()) return s;
      }
      continue;
    }
    if (Status s = restore(one, parts); !s.ok()) return s;
  }
  return {};
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

void give_up(DatabaseParts parts, Base& base) {
  {
    DatabaseParts const doomed = std::move(parts);  // in the order opposite to their making
  }
  base.close();
}

}  // namespace perdure::lsm
