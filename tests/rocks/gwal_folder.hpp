// A G-WAL in a folder of its own, and what tests read and write of it.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/crc32c.hpp"
#include "lsm/gwal/gwal.hpp"
#include "lsm/gwal/gwal_format.hpp"

namespace perdure::test {

/// In memory; removed with all it holds.
class GwalFolder {
 public:
  explicit GwalFolder(std::string const& name = "log")
      : path("/dev/shm/perdure-gwal-" + std::to_string(::getpid()) + "-" + name) {
    std::filesystem::remove_all(path);
  }
  ~GwalFolder() { std::filesystem::remove_all(path); }
  GwalFolder(GwalFolder const&) = delete;
  GwalFolder& operator=(GwalFolder const&) = delete;

  [[nodiscard]] lsm::GwalOptions options(std::string identity = "a database") const {
    return {.directory = path, .identity = std::move(identity), .segment_bytes = 64 << 10};
  }
  [[nodiscard]] std::string segment(std::uint64_t number) const {
    std::string const digits = std::to_string(number);
    return path + "/" + std::string(12 - digits.size(), '0') + digits + ".gwal";
  }
  [[nodiscard]] std::string lock() const { return path + "/gwal.lock"; }
  /// Of the files that are there.
  [[nodiscard]] std::vector<std::string> names() const {
    std::vector<std::string> found;
    for (auto const& entry : std::filesystem::directory_iterator(path))
      found.push_back(entry.path().filename());
    std::sort(found.begin(), found.end());
    return found;
  }

  std::string const path;
};

inline std::string contents(std::string const& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}
inline void put_contents(std::string const& path, std::string const& bytes) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
}

/// Writes a record of so many requests.
inline Status write_record(lsm::GwalSegment& segment, lsm::RequestId first, std::string_view text,
                           std::uint64_t requests = 1, bool sync = false) {
  auto const room = segment.reserve(text.size());
  if (!room.ok()) return room.status();
  std::memcpy(room.value().data(), text.data(), text.size());
  return segment.commit(first, requests, sync);
}

inline std::string text_of(lsm::GwalRecord const& record) {
  return {reinterpret_cast<char const*>(record.payload.data()), record.payload.size()};
}
inline std::vector<std::string> texts_of(std::vector<lsm::GwalRecord> const& records) {
  std::vector<std::string> texts;
  for (lsm::GwalRecord const& record : records) texts.push_back(text_of(record));
  return texts;
}

/// A header of a file changed, with a checksum that passes.
template <class Header, class Change>
void change_header(std::string const& path, Change&& change) {
  std::string bytes = contents(path);
  Header h;
  ASSERT_GE(bytes.size(), sizeof h) << path;
  std::memcpy(&h, bytes.data(), sizeof h);
  change(h);
  h.crc = checksum(h);
  std::memcpy(bytes.data(), &h, sizeof h);
  put_contents(path, bytes);
}

/// A log that was opened, and what it found.
struct OpenGwal {
  std::unique_ptr<lsm::Gwal> log;
  std::vector<lsm::GwalRecovered> found;
};
inline Result<OpenGwal> open_gwal(lsm::GwalOptions const& options, std::uint64_t sequence = 0) {
  auto log = lsm::Gwal::open(options);
  if (!log.ok()) return log.status();
  auto found = log.value()->recover(sequence);
  if (!found.ok()) return found.status();
  return OpenGwal{std::move(log).value(), std::move(found).value()};
}

}  // namespace perdure::test
