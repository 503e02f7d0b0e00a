#include "common.hpp"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "output.hpp"

namespace perdure::bench {
namespace {

// The pools to remove when a signal ends the process; a signal handler may touch nothing else.
std::array<std::array<char, 4096>, 4> doomed_paths{};
std::size_t doomed = 0;  // the oldest gives way to a new one

void remove_pools_and_die(int signal_number) {
  for (auto const& path : doomed_paths)
    if (path[0] != 0) unlink(path.data());
  signal(signal_number, SIG_DFL);
  raise(signal_number);
}

void remove_on_signal(std::string const& path) {
  auto& space = doomed_paths[doomed++ % doomed_paths.size()];
  if (path.size() >= space.size()) throw Failure("--pool: the path has more than 4095 bytes");
  std::memcpy(space.data(), path.c_str(), path.size() + 1);
  for (int const each : {SIGINT, SIGTERM, SIGHUP}) signal(each, remove_pools_and_die);
}

}  // namespace

Shape shape_named(std::string const& text) {
  Shape shape;
  char end = 0;
  int const read =
      std::sscanf(text.c_str(), "%uL-%uH-%u%c", &shape.levels, &shape.hashes, &shape.slots, &end);
  if (read != 4 || end != 'S' || name(shape) != text) {
    throw Failure("--shape '" + text +
                  "': give levels, hash functions and slots, for example 2L-2H-8S");
  }
  return shape;
}

std::string name(Shape const& shape) {
  return std::to_string(shape.levels) + "L-" + std::to_string(shape.hashes) + "H-" +
         std::to_string(shape.slots) + "S";
}

std::vector<std::string> const& index_names() {
  static std::vector<std::string> const names{"gphash", "dash-eh", "dash-lh", "btree"};
  return names;
}

Index index_named(std::string const& text) {
  if (text == "gphash") return Index::gphash;
  if (text == "dash-eh") return Index::dash_eh;
  if (text == "dash-lh") return Index::dash_lh;
  if (text == "btree") return Index::btree;
  throw Failure("--index '" + text + "': choose gphash, dash-eh, dash-lh or btree");
}

Layout layout_named(std::string const& text) {
  if (text == "word") return Layout::word;
  if (text == "in_place") return Layout::in_place;
  if (text == "log") return Layout::log;
  throw Failure("--layout '" + text + "': choose word, in_place or log");
}

std::string name(Layout layout) {
  return layout == Layout::word ? "word" : layout == Layout::log ? "log" : "in_place";
}

Device device_named(std::string const& text) {
  if (text == "cpu") return Device::cpu;
  if (text == "cuda") return Device::cuda;
  throw Failure("--device '" + text + "': choose cpu or cuda");
}

std::string name(Device device) { return device == Device::cpu ? "cpu" : "cuda"; }

std::vector<std::string> const& residency_names() {
  static std::vector<std::string> const names{"automatic", "pm", "mirrored"};
  return names;
}

Residency residency_named(std::string const& text) {
  if (text == "automatic") return Residency::automatic;
  if (text == "pm") return Residency::pm;
  if (text == "mirrored") return Residency::mirrored;
  throw Failure("--residency '" + text + "': choose automatic, pm or mirrored");
}

std::vector<std::string> const& cache_policy_names() {
  static std::vector<std::string> const names{"lfu", "lru", "random"};
  return names;
}

CachePolicy cache_policy_named(std::string const& text) {
  if (text == "lfu") return CachePolicy::lfu;
  if (text == "lru") return CachePolicy::lru;
  if (text == "random") return CachePolicy::random;
  throw Failure("--cache-policy '" + text + "': choose lfu, lru or random");
}

std::uint64_t cache_bytes(double share, std::uint64_t records, CreateOptions const& made) {
  auto const sectors = [](std::uint64_t bytes) { return (bytes + 31) / 32 * 32; };
  std::uint64_t const key = made.key_bytes;
  bool const buckets = made.layout == Layout::in_place;
  std::uint64_t const entry = buckets ? sectors(made.shape.slots * (16 + (key + 7) / 8 * 8)) + 4
                                      : sectors(24 + key + made.value_bytes) + 8;
  return static_cast<std::uint64_t>(share *
                                    static_cast<double>(buckets ? buckets_of(made) : records)) *
         entry;
}

std::uint64_t buckets_of(CreateOptions const& made) {
  Shape const& shape = made.shape;
  std::uint64_t buckets = (std::uint64_t{1} << shape.levels) - 1;
  while (static_cast<double>(buckets * shape.slots) * 0.9 <
         static_cast<double>(made.expected_records))
    buckets *= 2;
  return buckets;
}

PoolFile::PoolFile(std::string path) : path_(std::move(path)) {
  static std::atomic<int> chosen{0};
  if (path_.empty())
    path_ = "/dev/shm/perdure-bench-" + std::to_string(getpid()) + "-" + std::to_string(++chosen) +
            ".pool";
  if (access(path_.c_str(), F_OK) == 0) {
    throw Failure(
        "--pool " + path_ +
        ": there is a file already, and the benchmark would remove it: name another path");
  }
  remove_on_signal(path_);
}

PoolFile::~PoolFile() { remove(); }

void PoolFile::remove() { unlink(path_.c_str()); }

LogDirectory::LogDirectory(std::string path) : path_(std::move(path)) {
  if (std::filesystem::exists(path_))
    throw Failure("--log-dir " + path_ +
                  ": is there already, and the benchmark would remove it: name another path");
}

LogDirectory::~LogDirectory() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  std::size_t const half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

double percentile(std::vector<double> values, double share) {
  if (values.empty()) return 0;
  auto const rank = static_cast<std::size_t>(std::ceil(share * static_cast<double>(values.size())));
  auto const at = values.begin() + static_cast<std::ptrdiff_t>(std::max<std::size_t>(rank, 1) - 1);
  std::nth_element(values.begin(), at, values.end());
  return *at;
}

void write_json(std::string const& path, Json const& json) { write_new(path, json.dump(2) + "\n"); }

}  // namespace perdure::bench
