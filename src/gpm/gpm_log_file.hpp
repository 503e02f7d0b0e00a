// A libGPM log's file on the host: made, opened, scanned, cleared (GPM section 5.2). What kernels
// do is in gpm_log.hpp. Invariant: a file that opens has a header whose check matches; scanning
// changes nothing; above the tails that an opening found there is nothing, durably, before the log
// is used.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "gpm/gpm_format.hpp"
#include "perdure/status.h"
#include "pm/mapping.hpp"

namespace perdure::gpm {

/// Of a log: for hcl as many partitions as a kernel has threads.
struct GpmLogGeometry {
  GpmLogKind kind = GpmLogKind::hcl;
  std::uint32_t blocks = 0;  // hcl
  std::uint32_t threads = 0;  // hcl: of a block
  std::uint64_t partitions = 0;
};

/// Pages of a file that hold so many bytes; pm::Mapping takes no fewer than three.
[[nodiscard]] std::uint64_t gpm_file_bytes(std::uint64_t bytes);

class GpmLogFile {
 public:
  /// Who uses it. For the host alone it may lie on any disk, and is synced; for kernels, in memory,
  /// where what the host stores is written back.
  enum class For : std::uint8_t { host, kernels };
  /// Replaces what was there. Room for `bytes` bytes of entries, each counted in whole words of 4
  /// and shared out evenly among the partitions; their checks come on top.
  static Result<GpmLogFile> create(std::string const& path, std::uint64_t bytes,
                                   GpmLogGeometry const& geometry, For whom, bool gpu);
  static Result<GpmLogFile> open(std::string const& path, For whom, bool gpu);

  /// Words in use of each partition: its entries up to the first place that holds none.
  [[nodiscard]] std::vector<std::uint32_t> scan(std::uint32_t host_threads) const;
  /// Above a stack a crash may have left parts of entries, which parts of later ones could
  /// complete, and, where the host alone orders, entries above one that is lost. Ends it all,
  /// durably. `tails` as scan() found them, before anything is inserted.
  Status end_above(std::vector<std::uint32_t> const& tails, std::uint32_t host_threads);
  /// Ends all entries, durably, with one store.
  Status clear();

  [[nodiscard]] GpmLogHeader const& header() const {
    return *reinterpret_cast<GpmLogHeader const*>(mapping_.data());
  }
  [[nodiscard]] std::byte* data() const { return mapping_.data(); }
  [[nodiscard]] std::string const& path() const { return path_; }
  [[nodiscard]] Medium medium() const { return mapping_.medium(); }

 private:
  GpmLogFile(std::string path, pm::Mapping mapping, For whom)
      : path_(std::move(path)), mapping_(std::move(mapping)), whom_(whom) {}
  [[nodiscard]] Status check() const;
  Status make_durable(void const* at, std::size_t bytes) const;
  Status settle_written_back(void const* at, std::size_t bytes) const;
  [[nodiscard]] std::uint32_t* word_at(std::uint64_t partition, std::uint64_t word) const;
  template <class F>
  static bool end_words(std::uint32_t* words, std::uint64_t n, F const& ends);
  bool end_checks(std::vector<std::uint32_t> const& tails, std::size_t begin, std::size_t end,
                  std::uint64_t words);
  bool end_rest(std::vector<std::uint32_t> const& tails, std::size_t begin, std::size_t end);
  [[nodiscard]] std::uint32_t entry_at(std::uint64_t partition, std::uint64_t first) const;
  [[nodiscard]] bool named(std::uint32_t words) const;

  std::string path_;
  pm::Mapping mapping_;
  For whom_;
};

}  // namespace perdure::gpm
