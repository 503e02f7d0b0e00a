// A file of 4 KiB blocks: requests with what a device leaves open settled, that is alignment, short
// transfers, and errors as statuses. Invariant: a request is done once, wholly or with an error; a
// write that comes back short is continued, never passed on as done. While a request is in flight
// its memory is the kernel's: wait() fails only once none is, also where the device failed.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/mutex.hpp"
#include "perdure/status.h"
#include "wal/disk/block_device.hpp"

namespace perdure::wal {

/// Page-aligned anonymous memory, zeroed. A child that is forked has none of it: shared with one
/// until somebody writes, a page that the disk is transferring would be copied under the transfer,
/// and the parent left with the other one.
class AlignedBuffer {
 public:
  AlignedBuffer() = default;
  static Result<AlignedBuffer> make(std::uint64_t bytes);
  AlignedBuffer(AlignedBuffer&& other) noexcept;
  AlignedBuffer& operator=(AlignedBuffer&& other) noexcept;
  ~AlignedBuffer();
  [[nodiscard]] std::byte* data() const { return data_; }
  [[nodiscard]] std::uint64_t size() const { return size_; }
  [[nodiscard]] std::span<std::byte> span() const { return {data_, size_}; }

 private:
  std::byte* data_ = nullptr;
  std::uint64_t size_ = 0;
  std::uint64_t process_ = 0;
};

/// One request's end. A read at the end of the file brings fewer bytes than it asked for.
struct Done {
  std::uint64_t tag = 0;
  std::uint64_t bytes = 0;
  Status status;
};

class BlockFile {
 public:
  BlockFile(std::string name, std::unique_ptr<BlockDevice> device);
  static Result<std::unique_ptr<BlockFile>> open(std::string const& path, OpenMode mode,
                                                 IoOptions const& options = {});
  /// A file, and its name, which it has only once that is kept; what becomes of the file before
  /// that is the caller's.
  static Result<std::pair<std::unique_ptr<BlockFile>, std::unique_ptr<NewName>>> make(
      std::string const& path, pm::MakeOptions const& options);

  /// Begins a request; from any thread.
  Status start(Request const& request);
  /// Waits for ends of requests (or a wake) and appends them; from one thread at a time. An error
  /// is the device's: then nothing is in flight any more, whose ends are not told, and no request
  /// is begun from there on.
  Status wait(std::vector<Done>& done);
  /// The ends that are there already, none perhaps. As wait().
  Status poll(std::vector<Done>& done) {
    wake();
    return wait(done);
  }
  void wake();
  /// Begins a sync of all writes that have ended; its end comes as those of requests. False: the
  /// device has no such request, and has been synced.
  Result<bool> start_sync(std::uint64_t tag);
  /// A request may be begun without the queue being full.
  static constexpr std::size_t kMaxInFlight = 32;

  // Whole transfers, while nothing else is in flight.
  /// Bytes read; fewer than asked for only at the end of the file.
  Result<std::uint64_t> read(std::uint64_t offset, std::span<std::byte> into);
  Status write_durably(std::uint64_t offset, std::span<std::byte const> from);
  /// Writes zeros, really: a later overwrite then needs no change of the file's metadata.
  Status zero(std::uint64_t from, std::uint64_t to);
  Status sync();

  void register_buffer(std::span<std::byte> buffer) { device_->register_buffer(buffer); }
  [[nodiscard]] std::uint64_t bytes() const { return device_->bytes(); }
  [[nodiscard]] IoMethod const& method() const { return device_->method(); }
  [[nodiscard]] std::string const& name() const { return name_; }

 private:
  struct Pending {
    Request request;
    std::uint64_t done = 0;
    std::uint32_t tries = 0;
    bool used = false;
    bool syncs = false;  // it has no bytes
  };
  static Result<std::unique_ptr<BlockFile>> create(std::string const& path,
                                                   IoOptions const& options);
  Status error(char const* what, std::uint64_t offset, int error) const;
  Status start_rest(std::size_t slot) PERDURE_REQUIRES(mutex_);
  void complete_sync(Pending& p, std::int64_t result, std::vector<Done>& done)
      PERDURE_REQUIRES(mutex_);
  void complete(Completion const& completion, std::vector<Done>& done) PERDURE_REQUIRES(mutex_);
  void drain();
  Result<Done> run_one(Request const& request);

  std::string const name_;
  std::unique_ptr<BlockDevice> device_;
  std::vector<Completion> ended_;  // the waiting thread's
  Mutex mutex_;  // guards the rest, and start() of the device
  std::vector<Pending> pending_ PERDURE_GUARDED_BY(mutex_);
  Status broken_ PERDURE_GUARDED_BY(mutex_);  // the device failed
};

}  // namespace perdure::wal
