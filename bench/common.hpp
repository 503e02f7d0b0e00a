// What every subcommand needs: failure, options of a store as text, files that are removed in the
// end, summaries of measurements, and output.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "failure.hpp"
#include "perdure/store.h"

namespace perdure::bench {

using Json = nlohmann::ordered_json;

/// From "2L-2H-8S".
[[nodiscard]] Shape shape_named(std::string const& text);
[[nodiscard]] std::string name(Shape const& shape);
[[nodiscard]] std::vector<std::string> const& index_names();
[[nodiscard]] Index index_named(std::string const& text);
[[nodiscard]] Layout layout_named(std::string const& text);
[[nodiscard]] std::string name(Layout layout);
[[nodiscard]] Device device_named(std::string const& text);
[[nodiscard]] std::string name(Device device);
/// automatic, pm, mirrored.
[[nodiscard]] std::vector<std::string> const& residency_names();
[[nodiscard]] Residency residency_named(std::string const& text);
/// lfu, lru, random.
[[nodiscard]] std::vector<std::string> const& cache_policy_names();
[[nodiscard]] CachePolicy cache_policy_named(std::string const& text);

/// Room for that share of the records in the record cache: header, key and value, in whole sectors,
/// and a word for each. Of layout `in_place`: of the buckets of the table that the pool is made
/// with.
[[nodiscard]] std::uint64_t cache_bytes(double share, std::uint64_t records,
                                        CreateOptions const& made);
/// Buckets of that table.
[[nodiscard]] std::uint64_t buckets_of(CreateOptions const& made);

/// A path for a pool of this process, by default on tmpfs. The file there is removed when this
/// object goes, and when a signal ends the process. A file that was there before is never touched.
class PoolFile {
 public:
  /// An empty path chooses one in /dev/shm.
  explicit PoolFile(std::string path);
  ~PoolFile();
  PoolFile(PoolFile const&) = delete;
  PoolFile& operator=(PoolFile const&) = delete;

  [[nodiscard]] std::string const& path() const { return path_; }
  void remove();

 private:
  std::string path_;
};

/// A directory that the benchmark makes and removes; one that was there before is never touched.
class LogDirectory {
 public:
  explicit LogDirectory(std::string path);
  ~LogDirectory();
  LogDirectory(LogDirectory const&) = delete;
  LogDirectory& operator=(LogDirectory const&) = delete;

 private:
  std::string const path_;
};

[[nodiscard]] double median(std::vector<double> values);
/// The smallest value that at least `share` of all are not above; 0 of none.
[[nodiscard]] double percentile(std::vector<double> values, double share);

/// f(i) for i in [0, n), on all cores where there are at least `fewest`: fewer are done before
/// threads have started.
template <class F>
void on_all_cores(std::size_t n, F f, std::size_t fewest = std::size_t{1} << 15) {
  std::size_t const cores = n < fewest ? 1 : std::max(1u, std::thread::hardware_concurrency());
  auto const part = [&f, n, cores](std::size_t c) {
    for (std::size_t i = n * c / cores; i < n * (c + 1) / cores; ++i) f(i);
  };
  std::vector<std::jthread> others;
  for (std::size_t c = 1; c < cores; ++c) others.emplace_back(part, c);
  part(0);
}

/// Writes a new file (output.hpp), or to standard output for "-"; nothing for an empty path.
void write_json(std::string const& path, Json const& json);

}  // namespace perdure::bench
