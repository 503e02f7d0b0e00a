// What the log's tests share: batches of recognisable bytes, a log on a faulty disk, and what
// replay gives.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "faulty_disk.hpp"
#include "wal/disk/block_file.hpp"
#include "wal/redo_log.hpp"
#include "wal/replay.hpp"

namespace perdure::wal::test {

using Disk = std::shared_ptr<FaultyDisk>;
using Batch = std::string;

inline constexpr PoolId kPool{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16};
/// Small groups and buffers, so that small batches have several and wrap often.
inline constexpr LogOptions kSmall{32u << 10, 8u << 10, 16u << 10, 3};

/// `bytes` bytes that no other n gives.
inline Batch batch_of(std::uint64_t n, std::size_t bytes) {
  Batch b(bytes, '\0');
  std::mt19937_64 random(n * 7919 + bytes);
  for (char& c : b) c = static_cast<char>(random());
  return b;
}

inline Result<Lsn> append(RedoLog& log, Batch const& batch) {
  std::size_t const half = batch.size() / 2;  // in pieces, as the store does
  auto const* const data = reinterpret_cast<std::byte const*>(batch.data());
  std::span<std::byte const> const pieces[] = {
      {data, half}, {}, {data + half, batch.size() - half}};
  return log.append(pieces);
}

inline std::unique_ptr<BlockFile> file_on(Disk const& disk) {
  return std::make_unique<BlockFile>("faulty", open(disk));
}

inline Disk formatted(std::uint64_t ring_bytes, std::uint64_t seed = 1) {
  auto disk = std::make_shared<FaultyDisk>(seed);
  Status const s = format_log(*file_on(disk), kPool, ring_bytes);
  EXPECT_TRUE(s.ok()) << s.message();
  return disk;
}

struct Replayed {
  ReplayReport report;
  std::vector<Batch> batches;
};

inline Replayed replay_all(BlockFile& file, LogPosition from = {}) {
  Replayed out;
  auto const identity = read_identity(file);
  EXPECT_TRUE(identity.ok()) << identity.status().message();
  if (!identity.ok()) return out;
  std::uint64_t next = from.next_batch;
  auto report = replay(
      file, identity.value(), from, [&](std::uint64_t number, std::span<std::byte const> payload) {
        EXPECT_EQ(number, next++);
        out.batches.emplace_back(reinterpret_cast<char const*>(payload.data()), payload.size());
        return Status{};
      });
  EXPECT_TRUE(report.ok()) << report.status().message();
  if (report.ok()) out.report = *report;
  return out;
}

inline Replayed replay_all(Disk const& disk, LogPosition from = {}) {
  return replay_all(*file_on(disk), from);
}

inline std::unique_ptr<RedoLog> start(Disk const& disk, LogPosition end = {}, Lsn keep_from = 0,
                                      LogOptions const& options = kSmall) {
  auto log = RedoLog::start(file_on(disk), end, keep_from, options);
  EXPECT_TRUE(log.ok()) << log.status().message();
  return log.ok() ? std::move(*log) : nullptr;
}

/// Appends a batch and waits until it is durable.
inline Lsn commit(RedoLog& log, Batch const& batch) {
  auto lsn = append(log, batch);
  EXPECT_TRUE(lsn.ok()) << lsn.status().message();
  if (!lsn.ok()) return 0;
  Status const s = log.wait_durable(*lsn);
  EXPECT_TRUE(s.ok()) << s.message();
  return *lsn;
}

}  // namespace perdure::wal::test
