// A libGPM log's file on the host: made, opened, scanned, cleared (GPM section 5.2). What kernels do is in gpm_log.hpp.
// Invariant: a file that opens has a header whose check matches; scanning changes nothing; above the tails that an
// opening found there is nothing, durably, before the log is used.
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
  /// Above a stack a crash may have left parts of entries, which parts of later ones could complete, and, where the
  /// host alone orders, entries above one that is lost. Ends it all, durably. `tails` as scan() found them, before
  /// anything is inserted.
  void end_above(std::vector<std::uint32_t> const& tails, std::uint32_t host_threads);
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
  bool end_word(std::uint64_t partition, std::uint64_t number);
  bool end_words(std::vector<std::uint32_t> const& tails, std::size_t begin, std::size_t end);
  [[nodiscard]] std::uint32_t entry_at(std::uint64_t partition, std::uint64_t first) const;

  std::string path_;
  pm::Mapping mapping_;
};

}  // namespace perdure::log
