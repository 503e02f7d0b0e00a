#include "wal/disk/block_file.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>
#include <utility>

#include "base/assert.hpp"
#include "base/caught.hpp"
#include "base/hooks.hpp"
#include "base/process.hpp"
#include "wal/disk/disk.hpp"
#include "wal/disk/pipeline.hpp"

namespace perdure::wal {
namespace {
constexpr std::uint64_t kZeroBytes = 1u << 20;  // written at a time by zero()
constexpr std::uint32_t kZeroDepth = 4;
constexpr auto kNextTry = std::chrono::milliseconds(1);  // of waiting for a device that failed
// of one request, so that a device without progress is an error
constexpr std::uint32_t kMaxTries = 1000;
}  // namespace

Result<AlignedBuffer> AlignedBuffer::make(std::uint64_t bytes) {
  AlignedBuffer buffer;
  void* const at =
      ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (at == MAP_FAILED)
    return Status{Code::no_space, "no " + std::to_string(bytes) +
                                      " bytes of memory for a buffer: " + std::strerror(errno)};
  buffer.data_ = static_cast<std::byte*>(at);
  buffer.size_ = bytes;
  buffer.process_ = this_process();
  static_cast<void>(::madvise(at, bytes, MADV_HUGEPAGE));  // fewer faults, where it is granted
  if (::madvise(at, bytes, MADV_DONTFORK) != 0)
    return Status{Code::io_error,
                  std::string("a buffer cannot be kept from children: ") + std::strerror(errno)};
  return buffer;
}

AlignedBuffer::AlignedBuffer(AlignedBuffer&& other) noexcept { *this = std::move(other); }

AlignedBuffer& AlignedBuffer::operator=(AlignedBuffer&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  std::swap(process_, other.process_);
  return *this;
}

AlignedBuffer::~AlignedBuffer() {
  // In a child others may have mapped something there.
  if (data_ != nullptr && process_ == this_process()) ::munmap(data_, size_);
}

BlockFile::BlockFile(std::string name, std::unique_ptr<BlockDevice> device)
    : name_(std::move(name)), device_(std::move(device)), pending_(kMaxInFlight) {
  ended_.reserve(kMaxInFlight);
}

Result<std::unique_ptr<BlockFile>> BlockFile::open(std::string const& path, OpenMode mode,
                                                   IoOptions const& options) {
  if (mode == OpenMode::create) return create(path, options);
  auto device = disk().open(path, mode, options);
  if (!device) return device.status();
  return std::make_unique<BlockFile>(path, std::move(*device));
}

Result<std::unique_ptr<BlockFile>> BlockFile::create(std::string const& path,
                                                     IoOptions const& options) {
  auto made = disk().make(path, {}, options);
  if (!made) return made.status();
  auto file = std::make_unique<BlockFile>(path, std::move(made->device));
  if (Status s = made->name->keep(); !s.ok()) return s;
  // A file that was just made has a name for good only when its directory is on the disk too.
  Status const s = mutated("file_name_not_synced") ? Status{} : disk().sync_directory_of(path);
  if (s.ok()) return file;
  made->name->remove();  // what was not made is not there
  return s;
}

Result<std::pair<std::unique_ptr<BlockFile>, std::unique_ptr<NewName>>> BlockFile::make(
    std::string const& path, pm::MakeOptions const& options) {
  auto made = disk().make(path, options, {});
  if (!made) return made.status();
  return std::pair(std::make_unique<BlockFile>(path, std::move(made->device)),
                   std::move(made->name));
}

Status BlockFile::error(char const* what, std::uint64_t offset, int error) const {
  bool const full = error == ENOSPC || error == EDQUOT || error == EFBIG;
  return {full ? Code::no_space : Code::io_error,
          "file " + name_ + ": " + what + " at byte " + std::to_string(offset) + ": " +
              std::strerror(error) + (full ? " (free some, or name another place)" : "")};
}

Status BlockFile::start(Request const& request) {
  bool const aligned = request.offset % kBlock == 0 && request.bytes % kBlock == 0 &&
                       request.bytes > 0 &&
                       reinterpret_cast<std::uintptr_t>(request.data) % kBlock == 0;
  if (!aligned)
    return {Code::invalid_argument,
            "file " + name_ + ": a request that is not aligned to 4096 bytes"};
  MutexLock const lock(mutex_);
  if (!broken_.ok()) return broken_;
  auto const free =
      std::find_if(pending_.begin(), pending_.end(), [](Pending const& p) { return !p.used; });
  if (free == pending_.end()) return error("beginning a request", request.offset, EBUSY);
  *free = {.request = request, .used = true};
  Status const s = caught([&] {
    mutex_.is_held();
    return start_rest(static_cast<std::size_t>(free - pending_.begin()));
  });
  if (!s.ok()) free->used = false;
  return s;
}

Result<bool> BlockFile::start_sync(std::uint64_t tag) {
  {
    MutexLock const lock(mutex_);
    if (!broken_.ok()) return broken_;
    auto const free =
        std::find_if(pending_.begin(), pending_.end(), [](Pending const& p) { return !p.used; });
    if (free == pending_.end()) return error("beginning to sync", 0, EBUSY);
    *free = {.request = {.tag = tag}, .used = true, .syncs = true};
    int const result = device_->start_sync(static_cast<std::uint64_t>(free - pending_.begin()));
    if (result == 0) return true;
    free->used = false;
    if (result != ENOSYS) return error("beginning to sync", 0, result);
  }
  if (Status s = sync(); !s.ok()) return s;
  return false;
}

Status BlockFile::start_rest(std::size_t slot) {
  Pending const& p = pending_[slot];
  PERDURE_ASSERT(p.used && p.done % kBlock == 0 && p.done < p.request.bytes);
  Request rest = p.request;
  rest.offset += p.done;
  rest.data += p.done;
  rest.bytes -= p.done;
  rest.tag = slot;
  int const result = device_->start(rest);
  return result == 0 ? Status{} : error("beginning a request", rest.offset, result);
}

Status BlockFile::wait(std::vector<Done>& done) {
  Status const waited = caught([&]() -> Status {
    done.reserve(done.size() + kMaxInFlight);  // so that no end is lost for want of memory
    int const result = device_->wait(ended_);
    return result == 0 ? Status{} : error("waiting", 0, result);
  });
  {
    MutexLock const lock(mutex_);
    if (waited.ok()) {
      for (Completion const& completion : ended_) complete(completion, done);
      ended_.clear();
      return {};
    }
    if (broken_.ok()) broken_ = waited;
  }
  drain();
  return waited;
}

/// The device failed, and may still do what it has begun. Only an end says that a request's memory
/// is the caller's again, so each is waited for, as long as it takes.
void BlockFile::drain() {
  for (;;) {
    {
      MutexLock const lock(mutex_);
      for (Completion const& completion : ended_) pending_[completion.tag].used = false;
      ended_.clear();
      if (std::none_of(pending_.begin(), pending_.end(), [](Pending const& p) { return p.used; }))
        return;
    }
    bool waited = false;
    static_cast<void>(caught([&]() -> Status {
      waited = device_->wait(ended_) == 0;
      return {};
    }));
    if (!waited) std::this_thread::sleep_for(kNextTry);
  }
}

/// The caller holds mutex_. One that was interrupted begins anew.
void BlockFile::complete_sync(Pending& p, std::int64_t result, std::vector<Done>& done) {
  PERDURE_ASSERT(p.used && p.syncs && p.done == 0);
  int failed = result < 0 ? static_cast<int>(-result) : 0;
  if ((failed == EINTR || failed == EAGAIN) && ++p.tries < kMaxTries) {
    failed = device_->start_sync(static_cast<std::uint64_t>(&p - pending_.data()));
    if (failed == 0) return;
  }
  p.used = false;
  bool const dropped = mutated("disk_sync_error_dropped");
  done.push_back({p.request.tag, 0, caught([&]() -> Status {
                    return failed == 0 || dropped ? Status{} : error("syncing", 0, failed);
                  })});
}

/// The caller holds mutex_. A request that does not go on has ended.
void BlockFile::complete(Completion const& completion, std::vector<Done>& done) {
  PERDURE_ASSERT(completion.tag < pending_.size() && pending_[completion.tag].used);
  Pending& p = pending_[completion.tag];
  if (p.syncs) return complete_sync(p, completion.result, done);
  Request const& r = p.request;
  bool const writes = r.verb != Verb::read;
  std::int64_t const n = completion.result;
  bool const again = n == -EINTR || n == -EAGAIN;
  if (n > 0) p.done += static_cast<std::uint64_t>(n);
  PERDURE_ASSERT(p.done <= r.bytes);
  // Short of a block only the end of the file stops a read; nothing stops a write but an error.
  bool const goes_on = (again || (n > 0 && p.done < r.bytes && (writes || p.done % kBlock == 0))) &&
                       !mutated("short_write_taken_for_whole");
  Done d{r.tag, p.done, {}};
  d.status = caught([&]() -> Status {
    mutex_.is_held();
    char const* const what = writes ? "writing" : "reading";
    if (goes_on && ++p.tries < kMaxTries) {
      p.done -= p.done % kBlock;  // a piece of a block is written again
      return start_rest(static_cast<std::size_t>(completion.tag));
    }
    if (n < 0) return error(what, r.offset + p.done, static_cast<int>(-n));
    if (n == 0 && writes) return error(what, r.offset + p.done, ENOSPC);
    return goes_on ? error(what, r.offset + p.done, EIO) : Status{};
  });
  if (goes_on && p.tries < kMaxTries && d.status.ok()) return;
  p.used = false;
  done.push_back(std::move(d));
}

void BlockFile::wake() {
  MutexLock const lock(mutex_);
  device_->wake();
}

Result<Done> BlockFile::run_one(Request const& request) {
  std::vector<Done> done;
  done.reserve(kMaxInFlight);  // before the request is under way
  if (Status s = start(request); !s.ok()) return s;
  while (done.empty()) {
    if (Status s = wait(done); !s.ok()) return s;
  }
  PERDURE_ASSERT(done.size() == 1);  // nothing else was in flight
  if (!done[0].status.ok()) return done[0].status;
  return done[0];
}

Result<std::uint64_t> BlockFile::read(std::uint64_t offset, std::span<std::byte> into) {
  auto done = run_one({Verb::read, offset, into.data(), into.size(), 0});
  if (!done) return done.status();
  return done->bytes;
}

Status BlockFile::write_durably(std::uint64_t offset, std::span<std::byte const> from) {
  auto* const data = const_cast<std::byte*>(from.data());  // a write only reads it
  return run_one({Verb::write_durably, offset, data, from.size(), 0}).status();
}

Status BlockFile::zero(std::uint64_t from, std::uint64_t to) {
  auto zeros = AlignedBuffer::make(kZeroBytes);
  if (!zeros) return zeros.status();
  Pipeline pipeline(*this, kZeroDepth);
  auto const begin = [&](std::uint64_t i, std::uint32_t slot) {
    std::uint64_t const at = from + i * kZeroBytes;
    return start(
        {Verb::write, at, zeros->data(), std::min(kZeroBytes, to - at), pipeline.tag(i, slot)});
  };
  Status const written =
      pipeline.run((to - from + kZeroBytes - 1) / kZeroBytes, begin,
                   [](std::uint64_t, std::uint32_t, std::uint64_t) { return Status{}; });
  return written.ok() ? sync() : written;
}

Status BlockFile::sync() {
  int const result = device_->sync();
  return result == 0 ? Status{} : error("syncing", 0, result);
}

}  // namespace perdure::wal
