#include "rocks/support/openers.hpp"
#include "lsm/rocks/rocksdb_version.hpp"

#include <unistd.h>

#include <array>
#include <atomic>
#include <filesystem>

#include "lsm/rocks/database.hpp"

namespace perdure::test {

Opener plain_rocksdb() {
  return {"plain", [](rocksdb::DBOptions const& options, std::string const& path,
                      Families const& families, Handles* handles, rocksdb::DB** db) {
            return lsm::open_rocksdb(db, options, path, families, handles);
          }};
}

namespace {

Opener perdure_rocks(rocks::GpuOptions const& gpu) {
  return {"perdure", [=](rocksdb::DBOptions const& options, std::string const& path,
                         Families const& families, Handles* handles, rocksdb::DB** db) {
            auto const s = rocks::open(options, gpu, path, families, handles, db);
            // Reads of arrays come in several parts.
            if (s.ok()) dynamic_cast<lsm::Database&>(**db).parts().read_rooms->part_keys = {32, 32};
            return s;
          }};
}

rocks::GpuOptions options_of(std::uint64_t threshold, std::uint64_t memtable_bytes,
                             std::chrono::milliseconds idle, BlockCacheSize const& cache,
                             std::uint32_t value_bytes) {
  rocks::GpuOptions gpu;
  gpu.device = rocks::Device::cpu;
  gpu.threshold = threshold;
  gpu.memtable_bytes = memtable_bytes;
  gpu.memtable_value_bytes = value_bytes;
  gpu.idle_millis = static_cast<std::uint32_t>(idle.count());
  gpu.hand_overs_a_second = 1000;
  gpu.block_cache_bytes = cache.bytes;
  gpu.block_cache_entry_bytes = cache.entry_bytes;
  return gpu;
}

}  // namespace

Opener perdure_rocks(std::uint64_t threshold, std::uint64_t memtable_bytes,
                     std::chrono::milliseconds idle, BlockCacheSize const& cache,
                     std::uint32_t value_bytes) {
  return perdure_rocks(options_of(threshold, memtable_bytes, idle, cache, value_bytes));
}

Opener opener_named(std::string const& name, std::uint64_t seed) {
  if (name == "plain") return plain_rocksdb();
  constexpr std::array<std::uint64_t, 3> kThresholds{16, 1, 500};
  constexpr std::array<std::uint64_t, 4> kBytes{256u << 10, 16u << 20, 64u << 10, 1u << 20};
  // So small that entries evict one another, and so large that none do.
  constexpr std::array<BlockCacheSize, 3> kCaches{{{1 << 16, 128}, {1 << 20, 512}, {1 << 17, 256}}};
  constexpr std::array<std::uint32_t, 5> kValueBytes{100, 8, 1024, 0, 16};
  auto gpu = options_of(kThresholds[seed % kThresholds.size()], kBytes[seed % kBytes.size()],
                        std::chrono::milliseconds(seed / 3 % 2 == 0 ? 200 : 2),
                        kCaches[seed / 2 % kCaches.size()], kValueBytes[seed % kValueBytes.size()]);
  if (name == "power") gpu.durability = rocks::Durability::power;
  return perdure_rocks(gpu);
}

rocksdb::DBOptions small_db_options() {
  rocksdb::DBOptions options;
  options.create_if_missing = true;
  options.create_missing_column_families = true;
  options.allow_fallocate = false;  // tens of milliseconds a file on memory's file system
  options.info_log_level = rocksdb::InfoLogLevel::ERROR_LEVEL;
  options.keep_log_file_num = 1;
  options.max_background_jobs = 2;
  options.max_open_files = 200;
  options.stats_dump_period_sec = 0;
  options.stats_persist_period_sec = 0;
  return options;
}

rocksdb::ColumnFamilyOptions small_family_options() {
  rocksdb::ColumnFamilyOptions options;
  options.write_buffer_size = 512u << 10;
  options.target_file_size_base = 256u << 10;
  options.max_bytes_for_level_base = 1u << 20;
  options.compression = rocksdb::kNoCompression;
  return options;
}

void remove_database(std::string const& path) {
  std::error_code ignored;
  std::filesystem::remove_all(path, ignored);
  std::filesystem::remove_all(path + ".gwal", ignored);
  std::filesystem::remove_all(path + ".power", ignored);
}

std::string fresh_path(std::string const& name, std::string const& directory) {
  static std::atomic<int> number = 0;
  return directory + "/perdure-rocks-" + std::to_string(::getpid()) + "-" +
         std::to_string(number.fetch_add(1)) + "-" + name;
}

}  // namespace perdure::test
