#include "rocksdb_baseline.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <thread>

#include "common.hpp"

namespace perdure::bench {
namespace {

constexpr std::uint64_t kNeverFull = std::uint64_t{1} << 40;

std::string adapter_path(std::string const& build) {
  return std::string(PERDURE_ROCKSDB_ADAPTER_DIR) + "/perdure_rocksdb_" + build + ".so";
}

template <class Function>
void bind(void* library, char const* symbol, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, symbol));
  if (function == nullptr)
    throw Failure(std::string("the RocksDB adapter lacks ") + symbol + ": build it anew");
}

}  // namespace

std::vector<BaselineConfig> const& baseline_configs() {
  static std::vector<BaselineConfig> const configs{
      // Everything stays in one memtable.
      {.name = "skiplist", .write_buffer_bytes = kNeverFull, .settle = BASELINE_SETTLE_NOTHING},
      {.name = "skiplist-unordered",
       .write_buffer_bytes = kNeverFull,
       .unordered_write = true,
       .settle = BASELINE_SETTLE_NOTHING},
      {.name = "hash-skiplist",
       .memtable = "hash_skiplist",
       .write_buffer_bytes = kNeverFull,
       .settle = BASELINE_SETTLE_NOTHING},
      {.name = "hash-linklist",
       .memtable = "hash_linklist",
       .write_buffer_bytes = kNeverFull,
       .settle = BASELINE_SETTLE_NOTHING},
      // Small memtables, flushed while loading, compacted to one level before reading.
      {.name = "block-mmap"},
      {.name = "block-mmap-bloom", .bloom_bits = 10},
      {.name = "block-cache", .mmap_reads = false},
      {.name = "plain", .table = "plain"},
      {.name = "cuckoo", .table = "cuckoo"},
      {.name = "hash-linklist-plain", .memtable = "hash_linklist", .table = "plain"},
      {.name = "hash-linklist-cuckoo", .memtable = "hash_linklist", .table = "cuckoo"},
      {.name = "hash-skiplist-cuckoo", .memtable = "hash_skiplist", .table = "cuckoo"},
      {.name = "vector",
       .memtable = "vector",
       .write_buffer_bytes = 256u << 20,
       .load_ends_settled = true},
  };
  return configs;
}

BaselineConfig const& baseline_config_named(std::string const& name) {
  auto const& all = baseline_configs();
  auto const at =
      std::find_if(all.begin(), all.end(), [&](BaselineConfig const& c) { return c.name == name; });
  if (at != all.end()) return *at;
  std::string names;
  for (BaselineConfig const& c : all) names += (names.empty() ? "" : ", ") + c.name;
  throw Failure("no RocksDB configuration '" + name + "': choose one of " + names);
}

std::vector<std::string> baseline_builds() {
  std::vector<std::string> builds;
  for (char const* build : {"release", "distribution"}) {
    if (std::filesystem::exists(adapter_path(build))) builds.emplace_back(build);
  }
  return builds;
}

BaselineLibrary::BaselineLibrary(std::string const& build) {
  void* const library = dlopen(adapter_path(build).c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    throw Failure(
        "--build " + build + ": " + dlerror() +
        " (baselines/rocksdb/fetch.sh brings the Release build; configure again after it)");
  }
  bind(library, "baseline_rocksdb_open", open);
  bind(library, "baseline_rocksdb_close", close);
  bind(library, "baseline_rocksdb_put", put);
  bind(library, "baseline_rocksdb_get", get);
  bind(library, "baseline_rocksdb_scan", scan);
  bind(library, "baseline_rocksdb_settle", settle);
  bind(library, "baseline_rocksdb_error", error);
  decltype(&baseline_rocksdb_version) version = nullptr;
  bind(library, "baseline_rocksdb_version", version);
  // RocksDB compiles its sync points in exactly where it compiles its assertions in.
  has_assertions_ = dlsym(library, "_ZN7rocksdb9SyncPoint11GetInstanceEv") != nullptr;
  std::string const origin =
      build == "release" ? "rocksdbjni (linux64)" : "the distribution's librocksdb";
  description_ = std::string("RocksDB ") + version() + ", " + origin +
                 (has_assertions_ ? ", assertions ON" : ", Release (assertions off)");
}

Baseline::Baseline(BaselineLibrary const& library, BaselineConfig const& config,
                   std::filesystem::path directory, std::uint64_t records, std::uint32_t key_bytes,
                   std::uint32_t value_bytes, std::uint32_t threads, std::size_t batch)
    : library_(library),
      config_(config),
      directory_(std::move(directory)),
      key_bytes_(key_bytes),
      value_bytes_(value_bytes),
      threads_(threads),
      batch_(batch) {
  BaselineRocksdbOptions const options{.directory = directory_.c_str(),
                                       .memtable = config_.memtable.c_str(),
                                       .table = config_.table.c_str(),
                                       .write_buffer_bytes = config_.write_buffer_bytes,
                                       .write_buffers = config_.write_buffers,
                                       .expected_records = records,
                                       .key_bytes = key_bytes,
                                       .value_bytes = value_bytes,
                                       .threads = threads,
                                       .mmap_reads = config_.mmap_reads ? 1u : 0u,
                                       .bloom_bits = config_.bloom_bits,
                                       .unordered_write = config_.unordered_write ? 1u : 0u};
  if (std::filesystem::exists(directory_))
    throw Failure(directory_.string() + " is there already: remove it");
  std::array<char, 512> error{};
  store_ = library_.open(&options, error.data(), error.size());
  if (store_ == nullptr) throw Failure("RocksDB, " + config_.name + ": " + error.data());
}

Baseline::~Baseline() {
  library_.close(store_);
  std::error_code ignored;
  std::filesystem::remove_all(directory_, ignored);
}

/// Calls work(first, count) on `threads_` threads, each with its part of `count`.
template <class Work>
void Baseline::share(std::size_t count, Work const& work) {
  std::vector<std::string> errors(threads_);
  std::vector<std::thread> crew;
  for (std::uint32_t t = 0; t < threads_; ++t) {
    crew.emplace_back([&, t] {
      std::size_t const first = count * t / threads_;
      if (work(first, count * (t + 1) / threads_ - first) != 0) errors[t] = library_.error();
    });
  }
  for (std::thread& each : crew) each.join();
  for (std::string const& error : errors) {
    if (!error.empty()) throw Failure("RocksDB, " + config_.name + ": " + error);
  }
}

void Baseline::put(std::span<std::byte const> keys, std::span<std::byte const> values,
                   std::size_t count) {
  auto const* const k = reinterpret_cast<char const*>(keys.data());
  auto const* const v = reinterpret_cast<char const*>(values.data());
  share(count, [=, this](std::size_t first, std::size_t n) {
    return library_.put(store_, k + first * key_bytes_, v + first * value_bytes_, n, batch_);
  });
}

void Baseline::get(std::span<std::byte const> keys, std::size_t count, std::span<std::byte> values,
                   std::span<unsigned char> found) {
  auto const* const k = reinterpret_cast<char const*>(keys.data());
  auto* const v = reinterpret_cast<char*>(values.data());
  share(count, [=, this](std::size_t first, std::size_t n) {
    return library_.get(store_, k + first * key_bytes_, n, batch_, v + first * value_bytes_,
                        found.data() + first);
  });
}

Result<RangePage> Baseline::range(RangeQuery const& query) {
  RangePage page;
  page.keys.data.resize(query.limit * key_bytes_);
  page.values.data.resize(query.limit * value_bytes_);
  std::size_t count = 0;
  if (library_.scan(store_, reinterpret_cast<char const*>(query.start->data()), query.limit,
                    reinterpret_cast<char*>(page.keys.data.data()),
                    reinterpret_cast<char*>(page.values.data.data()), &count) != 0)
    return Status{Code::io_error, "RocksDB, " + config_.name + ": " + library_.error()};
  for (std::size_t i = 0; i <= count; ++i) {
    page.keys.offsets.push_back(static_cast<std::int64_t>(i * key_bytes_));
    page.values.offsets.push_back(static_cast<std::int64_t>(i * value_bytes_));
  }
  return page;
}

void Baseline::settle() {
  if (library_.settle(store_, config_.settle) != 0)
    throw Failure("RocksDB, " + config_.name + ": " + library_.error());
}

}  // namespace perdure::bench
