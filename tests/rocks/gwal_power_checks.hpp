// What the power log's tests check, and those that plant faults (tests/log): each answers what is
// wrong, or nothing.
#pragma once

#include <cstring>
#include <future>
#include <optional>
#include <string>
#include <utility>

#include "log/ends_soon.hpp"
#include "log/forgetful_disk.hpp"
#include "lsm/gwal/gwal.hpp"

namespace perdure::test {

inline lsm::GwalOptions power_options(std::string identity = "a database") {
  return {.directory = "",
          .identity = std::move(identity),
          .segment_bytes = 64 << 10,
          .power = lsm::GwalPowerOptions{"/power", 1 << 20, "/db/perdure-power"}};
}

/// With the database's directory on it.
struct PowerDisk : wal::test::ForgetfulDisk {
  explicit PowerDisk(std::uint64_t seed = 1) : ForgetfulDisk(seed) {
    static_cast<void>(make_directory("/db", 0700));
    static_cast<void>(sync_directory_of("/db"));
  }
  void lose_power() {
    cut_power();
    restore();
  }
  /// Of a file that lies still.
  void flip(std::string const& path, std::uint64_t byte) { file(path)->flip(byte, 3); }
};

inline std::optional<std::string> a_record_waits_for_the_disk() {
  PowerDisk disk;
  auto log = lsm::Gwal::open(power_options());
  if (!log.ok()) return log.status().message();
  if (auto found = log.value()->recover(0); !found.ok()) return found.status().message();
  auto segment = log.value()->begin(0);
  if (!segment.ok()) return segment.status().message();
  auto room = segment.value()->reserve(8);
  if (!room.ok()) return room.status().message();
  std::memset(room.value().data(), 'r', 8);
  auto const file = disk.file("/power/redo.log");
  file->hold_back(true);
  auto committed =
      std::async(std::launch::async, [&] { return segment.value()->commit(1, 1, false); });
  bool const waits = committed.wait_for(wal::test::soon) == std::future_status::timeout;
  file->hold_back(false);
  Status const s = committed.get();
  if (!s.ok()) return s.message();
  return waits ? std::nullopt : std::optional<std::string>("a record does not wait for the disk");
}

}  // namespace perdure::test
