// How fast a disk takes the redo log, before a store is trusted to it: the log itself, on a file of
// its own, without a store.
#pragma once

#include <cstdint>
#include <string>

#include "perdure/export.h"
#include "perdure/status.h"

namespace perdure {

struct LogSpeedOptions {
  std::string path;  // a new file; left there for further measurements
  std::uint64_t log_bytes = 1u << 30;
  std::uint64_t batch_operations = 4096;  // puts of one batch
  std::uint32_t key_bytes = 8;
  std::uint32_t value_bytes = 128;
  double seconds = 3;  // of each of the two write measurements
  std::uint32_t depth = 8;  // writes in flight
  std::uint64_t group_bytes = 256u << 10;  // most bytes of one group
  bool io_uring = true;
  bool direct = true;
};

struct LogSpeed {
  std::string method;  // "io_uring, O_DIRECT, registered buffers"
  std::uint64_t batch_bytes = 0;  // as the log holds it, headers and padding included
  // Batches appended without waiting for each, then waited for together.
  double stream_bytes_per_second = 0;
  double stream_operations_per_second = 0;
  // One client that waits for each batch.
  std::uint64_t acknowledged = 0;  // batches
  double latency_p50_us = 0;
  double latency_p99_us = 0;
  double waited_bytes_per_second = 0;
  // A full log read back: checksums verified, batches decoded.
  double replay_bytes_per_second = 0;
  double replay_operations_per_second = 0;
};

[[nodiscard]] PERDURE_API Result<LogSpeed> measure_log(LogSpeedOptions const& options);

/// Bytes a second at which the first `bytes` of a file are read in order, past the page cache where
/// the file system can, with as many reads in flight as keep a disk busy. What replay is held
/// against.
[[nodiscard]] PERDURE_API Result<double> measure_reading(std::string const& path,
                                                         std::uint64_t bytes);

}  // namespace perdure
