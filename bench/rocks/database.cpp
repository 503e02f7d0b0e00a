#include "database.hpp"

#include <dlfcn.h>
#include <rocksdb/cache.h>
#include <rocksdb/convenience.h>
#include <rocksdb/filter_policy.h>
#include <rocksdb/merge_operator.h>
#include <rocksdb/table.h>
#include <rocksdb/utilities/transaction_db.h>
#include <rocksdb/version.h>
#include <sys/vfs.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <thread>

#include "failure.hpp"
#include "perdure/rocks.h"

namespace perdure::bench::rocks {
namespace {

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;

bool is_tmpfs(std::string const& path) {
  constexpr long kTmpfs = 0x01021994;
  struct statfs st{};
  return statfs(path.c_str(), &st) == 0 && static_cast<long>(st.f_type) == kTmpfs;
}

perdure::rocks::Device device_named(std::string const& text) {
  if (text == "automatic") return perdure::rocks::Device::automatic;
  if (text == "cpu") return perdure::rocks::Device::cpu;
  if (text == "cuda") return perdure::rocks::Device::cuda;
  throw Failure("--device '" + text + "': choose automatic, cpu or cuda");
}

std::uint64_t memtable_bytes(Options const& o, Setting const& setting) {
  return (setting.memtable_mib == 0 ? o.memtable_mib : setting.memtable_mib) * kMiB;
}

perdure::rocks::GpuOptions gpu_options(Options const& o, Setting const& setting) {
  perdure::rocks::GpuOptions gpu;
  gpu.device = device_named(o.device);
  gpu.threads = o.threads;
  gpu.memtable_bytes = memtable_bytes(o, setting);
  gpu.memtable_value_bytes = setting.memtable_value_bytes.value_or(o.memtable_value_bytes);
  gpu.threshold = o.threshold;
  gpu.block_cache_bytes = o.block_cache_mib * kMiB;
  gpu.block_cache_entry_bytes = o.block_cache_entry_bytes;
  gpu.flushed_memtable_bytes = o.flushed_mib * kMiB;
  gpu.idle_millis = o.idle_millis;
  gpu.hand_overs_a_second = o.hand_overs_a_second;
  return gpu;
}

bool is_busy(rocksdb::DB& db) {
  for (char const* const name :
       {"rocksdb.mem-table-flush-pending", "rocksdb.num-running-flushes",
        "rocksdb.compaction-pending", "rocksdb.num-running-compactions", "perdure.memtables"}) {
    std::uint64_t value = 0;
    db.GetIntProperty(name, &value);
    if (value != 0) return true;
  }
  return false;
}

/// DB::Open() fills in a plain pointer up to 10.x, and its owner from 11.0 on.
template <class Db>
rocksdb::Status open_plain(Db** db, rocksdb::Options const& options, std::string const& directory) {
  if constexpr (requires { Db::Open(options, directory, db); }) {
    return Db::Open(options, directory, db);
  } else {
    std::unique_ptr<Db> opened;
    rocksdb::Status status = Db::Open(options, directory, &opened);
    *db = opened.release();
    return status;
  }
}

}  // namespace

std::string name(System system) { return system == System::rocksdb ? "RocksDB" : "Perdure"; }

System system_named(std::string const& text) {
  if (text == "rocksdb") return System::rocksdb;
  if (text == "perdure") return System::perdure;
  throw Failure("--fill '" + text + "': choose rocksdb or perdure");
}

void require(rocksdb::Status const& status, std::string const& what) {
  if (!status.ok()) throw Failure(what + ": " + status.ToString());
}

rocksdb::Options rocksdb_options(Options const& o, Setting const& setting) {
  rocksdb::Options options;
  options.create_if_missing = true;
  options.IncreaseParallelism(static_cast<int>(o.threads));
  options.max_subcompactions = std::max(1u, o.threads / 4);
  options.write_buffer_size = memtable_bytes(o, setting);
  options.max_write_buffer_number = 6;
  options.max_bytes_for_level_base = 4 * options.write_buffer_size;
  options.target_file_size_base = 128 * kMiB;
  options.compression = rocksdb::kNoCompression;
  options.max_open_files = -1;
  options.avoid_flush_during_recovery = true;
  // Blocks that are reserved ahead cost tmpfs 74 ms a log file.
  options.allow_fallocate = !is_tmpfs(o.path);
  rocksdb::BlockBasedTableOptions table;
  table.block_cache = rocksdb::NewLRUCache(o.cache_mib * kMiB);
  table.filter_policy.reset(rocksdb::NewBloomFilterPolicy(10));
  options.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));
  if (setting.counters) {
    require(rocksdb::MergeOperator::CreateFromString({}, "uint64add", &options.merge_operator),
            "the merge operator uint64add");
  }
  for (std::string const& each : o.set) {
    rocksdb::Options const before = options;
    require(rocksdb::GetOptionsFromString({}, before, each, &options), "--set " + each);
  }
  return options;
}

WorkDirectory::WorkDirectory(std::string const& path) : path_(path) {
  if (std::filesystem::exists(path_))
    throw Failure("--path: " + path_ + " is there already; remove it, or name another directory");
  std::filesystem::create_directories(path_);
}

WorkDirectory::~WorkDirectory() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

void remove_database(std::string const& directory) {
  std::error_code ignored;
  std::filesystem::remove_all(directory, ignored);
  std::filesystem::remove_all(directory + ".gwal", ignored);
}

Database::Database(Options const& o, System system, std::string const& directory,
                   Setting const& setting)
    : system_(system) {
  rocksdb::Options const options = rocksdb_options(o, setting);
  perdure::rocks::GpuOptions const gpu = gpu_options(o, setting);
  bool const plain = system == System::rocksdb || o.system == "itself";
  rocksdb::Status status;
  if (setting.transactions) {
    rocksdb::TransactionDB* db = nullptr;
    status = plain ? rocksdb::TransactionDB::Open(options, {}, directory, &db)
                   : perdure::rocks::open_transactions(options, gpu, {}, directory, &db);
    db_.reset(db);
  } else {
    rocksdb::DB* db = nullptr;
    status = plain ? open_plain(&db, options, directory)
                   : perdure::rocks::open(options, gpu, directory, &db);
    db_.reset(db);
  }
  require(status, "open " + directory);
}

Database::~Database() {
  rocksdb::Status const ignored = db_->Close();
  ignored.PermitUncheckedError();
}

/// RocksDB says for a moment that it is idle between a flush and the compaction that follows.
void Database::wait_until_idle() const {
  for (int idle = 0; idle < 5;) {
    idle = is_busy(*db_) ? 0 : idle + 1;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
}

void Database::settle() const {
  require(db_->Flush({}), "flush");
  wait_until_idle();
}

void Database::compact() const {
  settle();
  rocksdb::CompactRangeOptions options;
  options.max_subcompactions = 64;
  require(db_->CompactRange(options, nullptr, nullptr), "compact");
  wait_until_idle();
}

Library rocksdb_library() {
  Library library;
  library.version = rocksdb::GetRocksVersionAsString();
  Dl_info info{};
  if (dladdr(reinterpret_cast<void const*>(&rocksdb::GetRocksVersionAsString), &info) == 0 ||
      info.dli_fname == nullptr)
    throw Failure("cannot tell which library of RocksDB this is");
  library.file = info.dli_fname;
  std::ifstream file(library.file, std::ios::binary);
  std::string const bytes{std::istreambuf_iterator<char>(file), {}};
  library.assertions = bytes.find("__assert_fail") != std::string::npos;
  return library;
}

}  // namespace perdure::bench::rocks
