// A libGPM log's file on the host: made, opened, scanned, cleared (GPM section 5.2). What kernels do is in gpm_log.hpp.
// Invariant: a file that opens has a header whose check matches; scanning changes nothing; above the
// tails that an opening found, no check is left of an entry that is not whole.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "log/gpm_format.hpp"
#include "perdure/status.h"
#include "pm/mapping.hpp"

namespace perdure::log {

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
  /// Replaces what was there. `bytes` is shared out evenly; a partition must hold a word and its check.
  static Result<GpmLogFile> create(std::string const& path, std::uint64_t bytes, GpmLogGeometry const& geometry,
                                   bool gpu);
  static Result<GpmLogFile> open(std::string const& path, bool gpu);

  /// Words in use of each partition: its entries up to the first place that holds none.
  [[nodiscard]] std::vector<std::uint32_t> scan(std::uint32_t host_threads) const;
  /// Above a stack a crash may have left a part of an entry, its check among it, which a part of a later entry could
  /// complete: ends it, durably. `tails` as scan() found them, before anything is inserted.
  void forget_torn(std::vector<std::uint32_t> const& tails, std::uint32_t host_threads);
  /// Ends all entries, durably, with one store.
  void clear();

  [[nodiscard]] GpmLogHeader const& header() const { return *reinterpret_cast<GpmLogHeader const*>(mapping_.data()); }
  [[nodiscard]] std::byte* data() const { return mapping_.data(); }
  [[nodiscard]] std::string const& path() const { return path_; }
  [[nodiscard]] Medium medium() const { return mapping_.medium(); }

 private:
  GpmLogFile(std::string path, pm::Mapping mapping) : path_(std::move(path)), mapping_(std::move(mapping)) {}
  [[nodiscard]] Status check() const;
  [[nodiscard]] std::uint32_t* word_at(std::uint64_t partition, std::uint64_t word) const;
  bool forget_check(std::uint64_t partition, std::uint64_t tail, std::uint32_t words);
  [[nodiscard]] std::uint32_t entry_at(std::uint64_t partition, std::uint64_t first) const;

  std::string path_;
  pm::Mapping mapping_;
};

}  // namespace perdure::log
