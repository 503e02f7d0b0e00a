// The seam below the log: what a file on a disk can do, as requests that complete later. Three
// stand behind it: io_uring, plain system calls (block_device.cpp), and a disk that loses power
// (tests/log). Invariant: a completed `write_durably` outlives a power loss; a completed `write`
// does so only after the next sync() that returned 0. Until then any subset of its 512-byte sectors
// may be there.
#pragma once

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "perdure/status.h"
#include "pm/named_file.hpp"

namespace perdure::wal {

// offsets, lengths and addresses of requests are multiples
inline constexpr std::uint64_t kBlock = 4096;

[[nodiscard]] constexpr std::uint64_t round_up(std::uint64_t bytes, std::uint64_t to = kBlock) {
  return (bytes + to - 1) / to * to;
}

enum class Verb : std::uint8_t { read, write, write_durably };

struct Request {
  Verb verb = Verb::read;
  std::uint64_t offset = 0;
  std::byte* data = nullptr;  // stays put until the request has completed; a write only reads it
  std::uint64_t bytes = 0;
  std::uint64_t tag = 0;  // handed back on completion
};

struct Completion {
  std::uint64_t tag = 0;
  std::int64_t result = 0;  // bytes done, or -errno
};

/// How a file's requests reach the disk. What could not be had is in `why_not`, so that a store can
/// show it.
struct IoMethod {
  bool io_uring = false;  // else pwrite and fdatasync
  bool direct = false;  // O_DIRECT; else through the page cache
  bool fixed_buffers = false;  // registered with io_uring
  std::string why_not;  // empty where all that was asked for was granted
  /// For example "io_uring, O_DIRECT, registered buffers".
  [[nodiscard]] std::string describe() const;
};

/// start() may be called from any thread, one at a time; wait() by one thread, beside it.
class BlockDevice {
 public:
  virtual ~BlockDevice() = default;
  /// 0, or the errno that kept the request from being begun: then its memory is not touched, later
  /// either.
  virtual int start(Request const& request) = 0;
  /// Appends at least one completion, or none after wake(). 0, or the errno that makes the device
  /// useless; what was begun still ends, and further calls append it. Allocates nothing where
  /// `done` has room for all that was begun.
  virtual int wait(std::vector<Completion>& done) = 0;
  /// Cannot fail: who waits for it would wait for ever.
  virtual void wake() = 0;
  virtual int sync() = 0;
  /// Begins a sync of what has completed by now, which completes as requests do. As start();
  /// ENOSYS: this device has only sync().
  virtual int start_sync(std::uint64_t /*tag*/) { return ENOSYS; }
  /// Requests within this memory may go faster. What came of it is in method().
  virtual void register_buffer(std::span<std::byte> buffer) = 0;
  [[nodiscard]] virtual std::uint64_t bytes() const = 0;
  [[nodiscard]] virtual IoMethod const& method() const = 0;
};

struct IoOptions {
  bool io_uring = true;  // false: do not even ask for it
  bool direct = true;
};

enum class OpenMode : std::uint8_t { read_only, read_write, create };

/// Opens a file, locked; `create` refuses one that is there, and its name lasts once its directory
/// is synced. Takes io_uring and O_DIRECT where they are granted.
Result<std::unique_ptr<BlockDevice>> open_device(std::string const& path, OpenMode mode,
                                                 IoOptions const& options);

/// A file that has no name yet: pm::NewFile's, or a disk's in memory. Removes the file when it goes
/// without keep().
class NewName {
 public:
  virtual ~NewName() = default;
  /// Gives the file its name, as a whole; the second time does nothing. The name lasts once its
  /// directory is synced.
  virtual Status keep() = 0;
  /// Takes a file that was kept away again, if the name still is its.
  virtual void remove() = 0;
};

struct NewDevice {
  std::unique_ptr<BlockDevice> device;
  std::unique_ptr<NewName> name;
};
Result<NewDevice> make_device(std::string const& path, pm::MakeOptions const& make,
                              IoOptions const& options);

/// The names in the directory of `path` outlive a power loss from here on.
Status sync_directory_of(std::string const& path);

}  // namespace perdure::wal
