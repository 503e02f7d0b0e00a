// Measures the log on one file: streaming, waiting for each batch, replay; and plain reading,
// beside it.
#include "perdure/log_speed.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <memory>
#include <random>
#include <vector>

#include "wal/batch_record.hpp"
#include "wal/disk/pipeline.hpp"
#include "wal/redo_log.hpp"
#include "wal/replay.hpp"

namespace perdure {
namespace {

using Clock = std::chrono::steady_clock;
using wal::AlignedBuffer;
using wal::BatchOps;
using wal::BlockFile;
using wal::DecodedBatch;
using wal::EncodedBatch;
using wal::IoOptions;
using wal::LogPosition;
using wal::Lsn;
using wal::OpenMode;
using wal::Pipeline;
using wal::PoolId;
using wal::RedoLog;
using wal::Verb;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

double percentile(std::vector<double>& values, double share) {
  if (values.empty()) return 0;
  auto const rank = std::max<std::size_t>(
      1, static_cast<std::size_t>(std::ceil(share * static_cast<double>(values.size()))));
  auto const at = values.begin() + static_cast<std::ptrdiff_t>(rank - 1);
  std::nth_element(values.begin(), at, values.end());
  return *at;
}

/// One batch of puts, random bytes.
class SomeBatch {
 public:
  explicit SomeBatch(LogSpeedOptions const& o)
      : keys_(o.batch_operations * o.key_bytes), values_(o.batch_operations * o.value_bytes) {
    std::mt19937_64 random(1);
    for (auto* column : {&keys_, &values_})
      for (std::byte& b : *column) b = static_cast<std::byte>(random());
    ops_.keys = {keys_.data(), nullptr, o.key_bytes, o.batch_operations, MemorySpace::host};
    ops_.values = {values_.data(), nullptr, o.value_bytes, o.batch_operations, MemorySpace::host};
  }
  [[nodiscard]] BatchOps const& ops() const { return ops_; }

 private:
  std::vector<std::byte> keys_, values_;
  BatchOps ops_;
};

/// As a store appends; where the ring is full, the oldest goes, as after a checkpoint.
Result<Lsn> append(RedoLog& log, BatchOps const& ops) {
  EncodedBatch const batch(ops);
  auto lsn = log.append(batch.pieces());
  if (lsn.ok() || !log.failure().ok()) return lsn;
  if (Status s = log.wait_durable(log.position().lsn); !s.ok()) return s;
  log.truncate(log.position().lsn);
  return log.append(batch.pieces());
}

Status stream(RedoLog& log, BatchOps const& ops, LogSpeedOptions const& o, LogSpeed& out) {
  Lsn const from = log.position().lsn;
  std::uint64_t batches = 0;
  auto const begin = Clock::now();
  for (; seconds_since(begin) < o.seconds; ++batches) {
    if (log.room().used_bytes > log.room().ring_bytes / 2) log.truncate(log.durable_lsn());
    auto const lsn = append(log, ops);
    if (!lsn) return lsn.status();
  }
  if (Status s = log.wait_durable(log.position().lsn); !s.ok()) return s;
  double const seconds = seconds_since(begin);
  out.stream_bytes_per_second = static_cast<double>(log.position().lsn - from) / seconds;
  out.stream_operations_per_second = static_cast<double>(batches * o.batch_operations) / seconds;
  return {};
}

Status wait_for_each(RedoLog& log, BatchOps const& ops, LogSpeedOptions const& o, LogSpeed& out) {
  Lsn const from = log.position().lsn;
  std::vector<double> took_us;
  auto const begin = Clock::now();
  while (seconds_since(begin) < o.seconds) {
    if (log.room().used_bytes > log.room().ring_bytes / 2) log.truncate(log.durable_lsn());
    auto const start = Clock::now();
    auto const lsn = append(log, ops);
    if (!lsn) return lsn.status();
    if (Status s = log.wait_durable(lsn.value()); !s.ok()) return s;
    took_us.push_back(seconds_since(start) * 1e6);
  }
  out.waited_bytes_per_second =
      static_cast<double>(log.position().lsn - from) / seconds_since(begin);
  out.acknowledged = took_us.size();
  out.batch_bytes = (log.position().lsn - from) / std::max<std::uint64_t>(1, took_us.size());
  out.latency_p50_us = percentile(took_us, 0.50);
  out.latency_p99_us = percentile(took_us, 0.99);
  return {};
}

/// Appends until the ring is full; returns where that began.
Result<LogPosition> fill(RedoLog& log, BatchOps const& ops) {
  EncodedBatch const batch(ops);
  if (Status s = log.wait_durable(log.position().lsn); !s.ok()) return s;
  LogPosition const from = log.position();
  log.truncate(from.lsn);
  for (;;) {
    auto const lsn = log.append(batch.pieces());
    if (!lsn.ok() && !log.failure().ok()) return lsn.status();
    if (!lsn.ok()) break;
  }
  Status const s = log.wait_durable(log.position().lsn);
  return s.ok() ? Result<LogPosition>(from) : s;
}

Status read_back(BlockFile& file, LogPosition from, LogPosition end, LogSpeed& out) {
  auto const identity = read_identity(file);
  if (!identity) return identity.status();
  std::uint64_t operations = 0;
  auto const report =
      replay(file, identity.value(), from, [&](std::uint64_t, std::span<std::byte const> payload) {
        auto const batch = DecodedBatch::decode(payload);
        if (batch.ok()) operations += batch.value().ops().keys.count;
        return batch.status();
      });
  if (!report) return report.status();
  if (report.value().end != end)
    return {Code::corrupt, "replay ended early: " + report.value().describe()};
  out.replay_bytes_per_second = static_cast<double>(end.lsn - from.lsn) / report.value().seconds;
  out.replay_operations_per_second = static_cast<double>(operations) / report.value().seconds;
  return {};
}

}  // namespace

Result<LogSpeed> measure_log(LogSpeedOptions const& o) {
  IoOptions const io{o.io_uring, o.direct};
  auto file = BlockFile::open(o.path, OpenMode::create, io);
  if (!file) return file.status();
  if (Status s = format_log(**file, PoolId{1}, wal::round_up(o.log_bytes)); !s.ok()) return s;
  wal::LogOptions options;
  options.depth = o.depth;
  options.group_bytes = o.group_bytes;
  auto log = RedoLog::start(std::move(*file), {}, 0, options);
  if (!log) return log.status();
  SomeBatch const batch(o);
  LogSpeed out;
  out.method = (*log)->method().describe();
  if (Status s = stream(**log, batch.ops(), o, out); !s.ok()) return s;
  if (Status s = wait_for_each(**log, batch.ops(), o, out); !s.ok()) return s;
  auto const from = fill(**log, batch.ops());
  if (!from) return from.status();
  LogPosition const end = (*log)->position();
  log->reset();
  auto again = BlockFile::open(o.path, OpenMode::read_only, io);
  if (!again) return again.status();
  if (Status s = read_back(**again, from.value(), end, out); !s.ok()) return s;
  return out;
}

Result<double> measure_reading(std::string const& path, std::uint64_t bytes) {
  constexpr std::uint64_t kEach = 2u << 20;
  constexpr std::uint32_t kDepth = 8;
  auto file = BlockFile::open(path, OpenMode::read_only);
  if (!file) return file.status();
  auto buffers = AlignedBuffer::make(kDepth * kEach);
  if (!buffers) return buffers.status();
  std::uint64_t const reads = std::min(bytes, (*file)->bytes()) / kEach;
  if (reads == 0)
    return Status{Code::invalid_argument,
                  "file " + path + " is too short to tell how fast it is read"};
  auto const begin = Clock::now();
  Pipeline pipeline(**file, kDepth);
  auto const read = [&](std::uint64_t i, std::uint32_t slot) {
    return (*file)->start(
        {Verb::read, i * kEach, buffers->data() + slot * kEach, kEach, pipeline.tag(i, slot)});
  };
  if (Status s = pipeline.run(reads, read,
                              [](std::uint64_t, std::uint32_t, std::uint64_t) { return Status{}; });
      !s.ok())
    return s;
  return static_cast<double>(reads * kEach) / seconds_since(begin);
}

}  // namespace perdure
