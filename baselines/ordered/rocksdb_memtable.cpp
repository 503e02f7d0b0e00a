// RocksDB's memtable through its public interface: a database whose memtable never fills, without a
// write-ahead log, behind the adapter that is loaded at run time. Invariant: the database's
// directory is this process's, and goes with the map.
#include <dlfcn.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <stdexcept>

#include "adapter.h"
#include "ordered_makers.hpp"

namespace perdure::ordered_baselines {
namespace {

std::filesystem::path adapter_path(std::string const& build) {
  return std::filesystem::path(PERDURE_ROCKSDB_ADAPTER_DIR) / ("perdure_rocksdb_" + build + ".so");
}

/// The adapter's functions, for as long as the process lives.
struct Adapter {
  decltype(&baseline_rocksdb_open) open = nullptr;
  decltype(&baseline_rocksdb_close) close = nullptr;
  decltype(&baseline_rocksdb_put) put = nullptr;
  decltype(&baseline_rocksdb_get) get = nullptr;
  decltype(&baseline_rocksdb_scan) scan = nullptr;
  decltype(&baseline_rocksdb_error) error = nullptr;

  /// "": it was loaded; else why not.
  std::string load(std::string const& build) {
    void* const library = dlopen(adapter_path(build).c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) return dlerror();
    bool const all = bind(library, "baseline_rocksdb_open", open) &&
                     bind(library, "baseline_rocksdb_close", close) &&
                     bind(library, "baseline_rocksdb_put", put) &&
                     bind(library, "baseline_rocksdb_get", get) &&
                     bind(library, "baseline_rocksdb_scan", scan) &&
                     bind(library, "baseline_rocksdb_error", error);
    return all ? "" : "an older adapter: build perdure_rocksdb_" + build + " again";
  }

 private:
  template <class F>
  static bool bind(void* library, char const* name, F& function) {
    function = reinterpret_cast<F>(dlsym(library, name));
    return function != nullptr;
  }
};

/// RocksDB orders bytes: the highest first.
std::uint64_t bytes_of(std::uint64_t number) { return __builtin_bswap64(number); }

class RocksdbMemtable final : public Map {
 public:
  explicit RocksdbMemtable(Adapter const& adapter) : adapter_(adapter) {}
  ~RocksdbMemtable() override {
    if (store_ != nullptr) adapter_.close(store_);
    std::error_code ignored;
    std::filesystem::remove_all(directory_, ignored);
  }
  Status open(std::uint64_t keys, std::uint32_t threads) {
    static std::atomic<int> made{0};
    directory_ = std::filesystem::temp_directory_path() /
                 ("perdure-ordered-" + std::to_string(getpid()) + "-" + std::to_string(made++));
    BaselineRocksdbOptions options{};
    options.directory = directory_.c_str();
    options.memtable = "skiplist";
    options.table = "block";
    options.write_buffer_bytes = (keys + (1 << 20)) * 256;
    options.write_buffers = 2;
    options.expected_records = 1;
    options.key_bytes = options.value_bytes = sizeof(std::uint64_t);
    options.threads = threads;
    char error[512] = "";
    store_ = adapter_.open(&options, error, sizeof error);
    if (store_ == nullptr) return {Code::io_error, std::string("rocksdb-memtable: ") + error};
    return {};
  }

  bool put(Keys keys, std::span<std::uint64_t const> values) override {
    std::vector<std::uint64_t> const as_bytes = bytes_of_all(keys);
    return adapter_.put(store_, chars(as_bytes.data()), chars(values.data()), keys.size(), 1) == 0;
  }
  std::uint64_t get(Keys keys, std::span<std::uint64_t> values) override {
    return get_by(keys, values, 1);
  }
  std::uint64_t get_many(Keys keys, std::span<std::uint64_t> values) override {
    return get_by(keys, values, keys.size());
  }
  Scanned scan(std::uint64_t from, std::uint64_t most) override {
    std::vector<std::uint64_t> keys(most), values(most);
    std::uint64_t const first = bytes_of(from);
    std::size_t count = 0;
    must(adapter_.scan(store_, chars(&first), most, chars(keys.data()), chars(values.data()),
                       &count));
    Scanned scanned{count, 0, 0};
    for (std::size_t i = 0; i < count; ++i) {
      scanned.keys += bytes_of(keys[i]);
      scanned.values += values[i];
    }
    return scanned;
  }

 private:
  static char const* chars(std::uint64_t const* at) { return reinterpret_cast<char const*>(at); }
  static char* chars(std::uint64_t* at) { return reinterpret_cast<char*>(at); }
  static std::vector<std::uint64_t> bytes_of_all(Keys keys) {
    std::vector<std::uint64_t> all;
    for (std::uint64_t const key : keys) all.push_back(bytes_of(key));
    return all;
  }
  void must(int answer) const {
    if (answer != 0) throw std::runtime_error(std::string("rocksdb-memtable: ") + adapter_.error());
  }
  std::uint64_t get_by(Keys keys, std::span<std::uint64_t> values, std::size_t batch) {
    std::vector<std::uint64_t> const as_bytes = bytes_of_all(keys);
    std::vector<unsigned char> found(keys.size());
    must(adapter_.get(store_, chars(as_bytes.data()), keys.size(), batch, chars(values.data()),
                      found.data()));
    std::uint64_t count = 0;
    for (unsigned char const one : found) count += one;
    return count;
  }

  Adapter adapter_;
  std::filesystem::path directory_;
  BaselineRocksdb* store_ = nullptr;
};

}  // namespace

std::string rocksdb_build() {
  for (char const* build : {"release", "distribution"})
    if (std::filesystem::exists(adapter_path(build))) return build;
  return "";
}

Made make_rocksdb_memtable(std::uint64_t keys, std::uint32_t threads) {
  Adapter adapter;
  if (std::string const why = adapter.load(rocksdb_build()); !why.empty())
    return Status{Code::unsupported, "rocksdb-memtable: " + why};
  auto map = std::make_unique<RocksdbMemtable>(adapter);
  if (Status s = map->open(keys, threads); !s.ok()) return s;
  return Made(std::move(map));
}

}  // namespace perdure::ordered_baselines
